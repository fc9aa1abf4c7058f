"""`python -m tests.compat projects` and `python -m tests.compat programs`, each with verbs of its own."""

from __future__ import annotations

import signal
from typing import Any

import typer
from tests.compat.programs import verbs as programs
from tests.compat.projects import verbs as projects

from holdfast.errors import HoldfastError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(projects.app, name="projects", help="Suites of real projects: docs/compat.md.")
app.add_typer(programs.app, name="programs", help="Single programs: docs/programs.md.")


def main() -> None:
    """Run, and report errors in one line."""

    def ended(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, ended)
    try:
        app()
    except HoldfastError as error:
        typer.echo(f"{error}{f' ({error.hint})' if error.hint else ''}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

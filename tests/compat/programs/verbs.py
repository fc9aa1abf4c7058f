"""`python -m tests.compat programs`: try programs, list them, write the page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from tests.compat.programs import catalog, page, running
from tests.compat.programs.outcome import Outcome, all_well
from tests.compat.trials import note, versions

from holdfast import Holdfast

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def show() -> None:
    """List the programs."""
    for program in catalog.PROGRAMS:
        typer.echo(f"{program.name:18} {program.family:10} {program.stack or '-':9} {program.does}")


@app.command("run")
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Programs or families; by default all.")] = None,
    *,
    write: Annotated[Path | None, typer.Option("--write", metavar="FILE", help="Write the page.")] = None,
) -> None:
    """Capture programs in the middle of their work, restore and fork them. Exit code 1 if one is red."""
    chosen = catalog.chosen(names or [])
    with Holdfast(progress=note) as controller:
        found = running.run(controller, chosen, say=note, on_outcome=_tell)
        if write:
            text = page.page(found, datetime.now(UTC).date(), versions(controller))
            write.write_text(text, encoding="utf-8")
    typer.echo(page.counts(found))
    if not all_well(found):
        raise typer.Exit(1)


def _tell(one: Outcome) -> None:
    typer.echo(f"{one.word}: {one.program}: {one.reason}")

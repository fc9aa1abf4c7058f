"""`python -m tests.compat projects` and `python -m tests.compat programs`, each with verbs of its own."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from tests.compat.programs import verbs as programs
from tests.compat.projects import verbs as projects

from holdfast.errors import HoldfastError


def run(words: list[str]) -> int:
    """Run a command line, and return its exit code."""
    parser = argparse.ArgumentParser(prog="tests.compat")
    suites = parser.add_subparsers(required=True)
    projects.describe(suites.add_parser("projects", help="Suites of real projects: docs/compat.md."))
    programs.describe(suites.add_parser("programs", help="Single programs: docs/programs.md."))
    given = vars(parser.parse_args(words))
    return int(given.pop("verb")(**given))


def main() -> int:
    """Run, and report errors in one line."""

    def ended(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, ended)
    try:
        return run(sys.argv[1:])
    except HoldfastError as error:
        sys.stderr.write(f"{error}{f' ({error.hint})' if error.hint else ''}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())

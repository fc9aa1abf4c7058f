"""`python -m tests.compat programs`: try programs, list them, write the page."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path

from tests.compat.programs import catalog, page, running
from tests.compat.programs.outcome import Outcome, all_well
from tests.compat.trials import note, versions

from holdfast import Holdfast


def describe(parser: ArgumentParser) -> None:
    """Add the verbs and their options."""
    verbs = parser.add_subparsers(required=True)
    verbs.add_parser("list", help="List the programs.").set_defaults(verb=show)
    trying = verbs.add_parser(
        "run",
        help="Capture programs in the middle of their work, restore and fork them. 1 if one is red.",
    )
    trying.set_defaults(verb=run)
    trying.add_argument("names", nargs="*", help="Programs or families; by default all.")
    trying.add_argument("--write", type=Path, metavar="FILE", help="Write the page.")


def show() -> int:
    """List the programs."""
    for program in (*catalog.PROGRAMS, *catalog.FURTHER):
        print(f"{program.name:18} {program.family:10} {program.stack or '-':9} {program.does}")
    return 0


def run(names: list[str], write: Path | None) -> int:
    """Capture programs in the middle of their work, restore and fork them; return 1 if one is red."""
    chosen = catalog.chosen(names)
    with Holdfast(progress=note) as controller:
        found = running.run(controller, chosen, say=note, on_outcome=_tell)
        if write:
            text = page.page(found, datetime.now(UTC).date(), versions(controller))
            write.write_text(text, encoding="utf-8")
    print(page.counts(found))
    return 0 if all_well(found) else 1


def _tell(one: Outcome) -> None:
    print(f"{one.word}: {one.program}: {one.reason}")

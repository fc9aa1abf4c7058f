"""`doctor --programs`: real programs, captured, restored and forked; what came of each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.errors import StoreError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import controller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.programs.outcome import Outcome
    from holdfast.runtime.programs.program import Program


def programs(*, only: str | None, listing: bool, markdown: Path | None, as_json: bool) -> None:
    """Try the programs, or list them. Exit code 1 if one is red."""
    from holdfast.runtime.programs import catalog

    names = [name for name in (only or "").split(",") if name]
    chosen = catalog.chosen(names)
    if listing:
        _list(chosen, as_json=as_json)
        return
    from holdfast.runtime.programs import runner, table
    from holdfast.runtime.programs.outcome import all_well

    with controller() as holdfast:
        found = runner.run(holdfast, chosen, say=printing.note, on_outcome=_tell)
        if markdown:
            _write(markdown, table.page(found, datetime.now(UTC).date(), _versions(holdfast)))
    if as_json:
        printing.emit([one.as_dict() for one in found])
    else:
        printing.table(table.HEADINGS, table.rows(found))
        printing.say(table.counts(found))
    if not all_well(found):
        raise typer.Exit(1)


def _list(chosen: Sequence[Program], *, as_json: bool) -> None:
    from holdfast.runtime.programs import table

    if as_json:
        printing.emit(
            [
                {"name": one.name, "family": one.family, "packages": one.stack or None, "does": one.does}
                for one in chosen
            ]
        )
    else:
        printing.table(("PROGRAM", "FAMILY", "PACKAGES", "WHAT IT DOES"), table.listed(chosen))


def _tell(one: Outcome) -> None:
    printing.note(f"{one.word}: {one.program}: {one.reason}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def _versions(holdfast: Holdfast) -> dict[str, str]:
    """What the result depends on, without names of machines."""
    import platform

    from holdfast import __version__
    from holdfast.snapshots import service

    with service.ask(holdfast.engine, holdfast.home, holdfast.context.progress, "hello") as link:
        told = link.until("done")
    engine = holdfast.engine.info()
    return {
        "Holdfast": __version__,
        "CRIU": str(told.get("criu", "?")),
        "Docker": str(engine.get("ServerVersion", "?")),
        "Linux": platform.release(),
        "on": platform.machine(),
    }

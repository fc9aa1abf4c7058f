"""Verb: doctor."""

from __future__ import annotations

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import Json, controller, wants_json


def doctor(json: Json = False) -> None:
    """Look at everything Holdfast needs. Exit code 1 if something is missing."""
    found = controller().doctor()
    if wants_json(json):
        output.emit(
            [
                {"name": check.name, "ok": check.ok, "detail": check.detail, "hint": check.hint}
                for check in found
            ]
        )
    else:
        output.table(("", "CHECK", "FOUND"), (("ok" if c.ok else "NO", c.name, c.detail) for c in found))
        for check in found:
            if not check.ok and check.hint:
                output.note(f"{check.name}: {check.hint}")
    if not all(check.ok for check in found):
        raise typer.Exit(1)

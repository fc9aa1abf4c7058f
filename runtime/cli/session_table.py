"""The list of sessions. Loads no Typer."""

from __future__ import annotations

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import controller, wants_json


def show(*, json: bool = False) -> int:
    """Print all sessions, and return the exit code."""
    found = controller().sessions()
    if wants_json(json):
        printing.emit([session.as_dict() for session in found])
        return 0
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    printing.table(
        ("NAME", "ID", "STATE", "CREATED", "IMAGE"),
        ((s.name, s.id, s.state, printing.ago(s.created_at, now), printing.image(s.image)) for s in found),
    )
    return 0

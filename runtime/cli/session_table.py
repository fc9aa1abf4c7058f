"""The list of sessions. Loads no Typer."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import controller


def show(*, as_json: bool) -> None:
    """Print all sessions."""
    found = controller().sessions()
    if as_json:
        printing.emit([printing.session(session) for session in found])
        return
    now = datetime.now(UTC)
    printing.table(
        ("NAME", "ID", "STATE", "CREATED", "IMAGE"),
        ((s.name, s.id, s.state, printing.ago(s.created_at, now), printing.image(s.image)) for s in found),
    )

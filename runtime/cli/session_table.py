"""The list of sessions. Loads no Typer."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import controller, wants_json


def show(*, label: Sequence[str] | None = None, json: bool = False) -> int:
    """Print all sessions, or those with labels, and return the exit code."""
    found = controller().sessions(labels=label)
    if wants_json(json):
        printing.emit([session.as_dict() for session in found])
        return 0
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    rows = [[s.name, s.id, s.state, printing.ago(s.created_at, now), printing.image(s.image)] for s in found]
    columns = ["NAME", "ID", "STATE", "CREATED", "IMAGE"]
    if any(session.labels for session in found):
        columns.append("LABELS")
        for row, session in zip(rows, found, strict=True):
            row.append(", ".join(f"{key}={value}" for key, value in session.labels.items()))
    printing.table(columns, rows)
    return 0

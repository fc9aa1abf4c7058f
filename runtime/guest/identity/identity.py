"""Who this session is: told by the host in files, and changed when the session is restored as another."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Identity:
    """Id and name of the session, whose processes it runs and where, and how often it was restored.

    `container` is the id of its container, if the host said so.
    """

    session: str = ""
    name: str = ""
    user: str | None = None
    workdir: str | None = None
    generation: int = 0
    container: str = ""

    def updated(self, told: dict[str, Any]) -> Identity:
        """Return this identity with what the host told; what has the wrong type is ignored."""
        changes: dict[str, Any] = {
            key: told[key]
            for key in ("session", "name", "container")
            if isinstance(told.get(key), str) and told[key]
        }
        if isinstance(told.get("generation"), int):
            changes["generation"] = told["generation"]
        for key in ("user", "workdir"):
            if isinstance(told.get(key), str) and told[key]:
                changes[key] = told[key]
        return replace(self, **changes)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None: the file may not be there yet, or be half written."""
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None

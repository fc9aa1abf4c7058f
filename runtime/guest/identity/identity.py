"""The session's identity: given by the host in files, and changed when the session is restored as another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass, replace

CHOSEN = ("user", "workdir", "shell", "kernel", "python")
"""The options of a session that its supervisor needs to know, as the host names them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Id and name of the session, the user, directory and shell of its processes, and its number of restores.

    `container` is the id of its container, if the host gave it; `kernel` the spec of its main kernel, and
    `python` the interpreter of its Python kernels, if they were chosen.
    """

    session: str = ""
    name: str = ""
    user: str | None = None
    workdir: str | None = None
    shell: str | None = None
    kernel: str | None = None
    python: str | None = None
    generation: int = 0
    container: str = ""

    def updated(self, fields: dict[str, Any]) -> Identity:
        """Return this identity with the host's facts; values of the wrong type are ignored."""
        changes: dict[str, Any] = {
            key: fields[key]
            for key in ("session", "name", "container")
            if isinstance(fields.get(key), str) and fields[key]
        }
        if isinstance(fields.get("generation"), int):
            changes["generation"] = fields["generation"]
        for key in CHOSEN:
            if isinstance(fields.get(key), str) and fields[key]:
                changes[key] = fields[key]
        return replace(self, **changes)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None: the file may be missing, or half written."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None

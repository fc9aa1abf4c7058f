"""Whose session an agent's default session is: its folder, and the options that were asked for.  Pure.

A session is known by the whole path of its folder, and by what was asked for when it was made. One that is
found with another folder or other options is refused: an agent would work in a project that is not its own,
or with more rights than it was given. Knows nothing of calls and servers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import SessionExists
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.rows import SessionRow

_DIGEST = 8
_LONGEST = 40
_BESIDES = ("template", "warm", "devcontainer", "entrypoint")
"""Options of `Holdfast.new` that `SessionOptions` does not have."""
_HOW_IT_STARTS = ("warm", "entrypoint")
"""Those that make no difference to a session that is there."""
_AT_LEAST = ("allow", "domains", "writable")
"""Lists that a template or an image adds to."""


def words_of(folder: Path) -> str:
    """Return the last part of a folder's path as far as it can be part of a name; empty if it cannot."""
    return re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")


def name_for(folder: Path) -> str:
    """Return the name of the session for a folder: for people its last part, and a digest of its path."""
    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    begin = f"agent-{words_of(folder)}"[: _LONGEST - _DIGEST - 1].rstrip("-")
    return f"{begin}-{digest}"


def earlier_name(folder: Path) -> str:
    """Return the name that earlier versions gave it, the same for all folders of one last part."""
    words = words_of(folder)
    return f"agent-{words}"[:_LONGEST].rstrip("-") if words else "agent"


def is_of_folder(row: SessionRow, folder: Path) -> bool:
    """Return whether a session of an earlier version is certainly of this folder.

    Those have no record of their folder, but one that was mounted says it.
    """
    kept = row.details.agent
    if kept is not None:
        return kept.get("folder") == str(folder)
    mounts = row.options.get("mounts")
    return isinstance(mounts, list) and any(
        isinstance(each, dict) and each.get("source") == str(folder) for each in mounts
    )


def record(folder: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a session's row says of its agent: the folder, and digests of what was asked for.

    Values stay out of it: variables may be secrets.
    """
    return {"folder": None if folder is None else str(folder), "asked": _digests(options)}


def check(row: SessionRow, folder: Path | None, options: Mapping[str, Any]) -> None:
    """Check that a session that was found is the one that is asked for.

    Args:
        row: the session.
        folder: of the agent; None if the session was named, and may be of any.
        options: what was asked for, as for `Holdfast.new`.

    Raises:
        SessionExists: it is another folder's, or has other options; names which.
    """
    kept = row.details.agent or {}
    if folder is not None and kept.get("folder") not in (None, str(folder)):
        raise SessionExists(
            f"cannot use session {row.name} for {_path(folder)}: it is that of {_path(kept['folder'])}",
            hint="`--session NAME` chooses another name",
        )
    if differing := _differing(row, kept.get("asked"), options):
        raise SessionExists(
            f"cannot use session {row.name}: it was made with other options than are asked for now "
            f"({', '.join(differing)})",
            hint=f"ask for the same, choose another with --session, or `holdfast rm {row.name}`: "
            "then the next call makes one",
        )


def _differing(row: SessionRow, then: object, options: Mapping[str, Any]) -> list[str]:
    """Return the options that differ. What was changed since it was made counts only if it is asked for."""
    asked = {key: value for key, value in options.items() if key not in _BESIDES}
    wanted = SessionOptions.parse(**asked).model_dump(mode="json")
    found = {key for key in asked if not _has(row, key, wanted[key])}
    if isinstance(then, dict):
        now = _digests(options)
        found |= {key for key in {*then, *now} if then.get(key) != now.get(key)}
    return sorted(plain(key, 60) for key in found)


def _has(row: SessionRow, key: str, wanted: Any) -> bool:
    """Return whether a session has what is asked for."""
    has = row.options.get(key)
    if key == "image":
        return wanted in (has, row.image, row.image_name)
    if key == "env":
        return isinstance(has, dict) and wanted.items() <= has.items()
    if key in _AT_LEAST:
        return isinstance(has, list) and set(wanted) <= set(map(str, has))
    return bool(has == wanted)


def _digests(options: Mapping[str, Any]) -> dict[str, str]:
    asked = {key: value for key, value in options.items() if key not in _BESIDES}
    parsed = SessionOptions.parse(**asked).model_dump(mode="json")
    values = {key: parsed[key] for key in asked}
    values |= {key: options[key] for key in _BESIDES if key in options and key not in _HOW_IT_STARTS}
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in values.items()
    }


def _path(folder: object) -> str:
    return plain(str(folder), 200)

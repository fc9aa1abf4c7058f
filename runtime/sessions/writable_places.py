"""The folders that a session with a read-only root can write to, chosen ones and others.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.runtime.guest import layout

OWN = (str(layout.STATE_DIR),)
USUAL = (str(layout.WORKSPACE), "/tmp", "/var/tmp", "/run")  # noqa: S108 - the session's
ENGINE_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""Files that the engine mounts; it makes them read-only as well if it makes the root so."""
MOST = 100
"""Folders that can be chosen."""


def plain(path: str) -> str:
    """Return a chosen folder in its plain form.

    Raises:
        ValueError: it cannot be chosen.
    """
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError("must be absolute paths in the session")
    place = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    if place == "/" or _below(place, ("/proc", "/sys", "/dev", "/opt/holdfast")):
        raise ValueError(f"cannot include {place}: the session itself uses it")
    if len(place) > 300 or any(len(part) > 255 for part in place.split("/")):
        raise ValueError("must be shorter")
    return place


def request(chosen: Sequence[str], mounted: Iterable[str]) -> dict[str, list[str]]:
    """Return the checkpointer's instructions for the root of a session, by its options."""
    others = [*chosen, *mounted]
    return {
        "own": list(OWN),
        "folders": list(chosen),
        "usual": list(USUAL),
        "files": [file for file in ENGINE_FILES if not _below(file, others)],
    }


def _below(place: str, others: Iterable[str]) -> bool:
    """Check whether a path is one of others, or below one."""
    return any(f"{place}/".startswith(f"{other}/") for other in others)

"""The policies of sessions, by their source addresses: one file for each, read again when it changes."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.gateway.names import parsed_address
from holdfast.runtime.gateway.session_rules import SessionRules, load


class Policies:
    """The policies in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int, int], SessionRules | None]] = {}

    def of(self, peer: str) -> SessionRules | None:
        """Return the policy for a source address; None if it has none. An invalid file counts as none."""
        address = parsed_address(peer)
        if address is None:
            return None
        path = self._folder / f"{address}.json"
        try:
            found = path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            kept = self._known.get(str(address))
            if kept is None or kept[0] != stamp:
                kept = (stamp, _read(path))
                self._known[str(address)] = kept
            return kept[1]
        except OSError:
            self._known.pop(str(address), None)
            return None


def _read(path: Path) -> SessionRules | None:
    try:
        return load(path.read_text())
    except (ValueError, KeyError, TypeError):
        return None

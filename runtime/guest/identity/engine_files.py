"""Files that are made for each new container, and the user's additions to them.

`/etc/hosts` and `/etc/resolv.conf` are mounts: no snapshot has them. A copy finds its own container's
files, with the right name and address, and without the user's additions. Lines that the user added are kept
in this process's memory, and added to the copy's files. Knows nothing of the session's identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

HOSTS = Path("/etc/hosts")
RESOLVER = Path("/etc/resolv.conf")
LONGEST = 256 << 10


class EngineFiles:
    """The files as they were made, and the user's additions at the last look."""

    def __init__(self, paths: Sequence[Path] = (HOSTS, RESOLVER)) -> None:
        self._given = {path: lines(path) for path in paths}
        self._added: dict[Path, list[str]] = {}

    def look(self) -> None:
        """Remember the user's additions, since a copy is possibly about to be made."""
        self._added = {path: added(given, lines(path)) for path, given in self._given.items()}

    def carry_over(self) -> None:
        """Add the user's lines to the files of this container, in which this process was just restored."""
        for path, mine in self._added.items():
            self._given[path] = lines(path)
            missing = added(self._given[path], mine)
            if missing:
                try:
                    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
                        file.write("".join(f"{line}\n" for line in missing))
                except OSError:
                    continue


def lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it is missing, or too long to be such a file."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
    except OSError:
        return []
    return [] if len(data) > LONGEST else data.decode("utf-8", "surrogateescape").splitlines()


def added(given: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return the lines that are only in the second. Pure."""
    known = set(given)
    return [line for line in now if line not in known]

"""One line of the report. A value only."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.checkpointer.survey.seen import SeenProcess


@dataclass(frozen=True, slots=True)
class Finding:
    """A resource and its fate in a capture; `kind` is a key of the catalogue.

    `pid` is the process's own in the session, `fd` is -1 if it is not a descriptor. `also` are inner pids
    whose end would clear it as well. `own`: it belongs to the supervisor. `mark` tells it from another one
    of the same kind in its place; it is not reported.
    """

    kind: str
    pid: int
    command: str
    what: str
    fd: int = -1
    also: tuple[int, ...] = ()
    own: bool = False
    mark: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the finding for the host."""
        return {
            "kind": self.kind,
            "pid": self.pid,
            "command": self.command,
            "what": self.what,
            "fd": self.fd,
            "also": self.also,
            "own": self.own,
        }

    @property
    def identity(self) -> tuple[str, int, int, str]:
        """What it has in common with itself an instant later, and with no other finding."""
        return self.kind, self.pid, self.fd, self.mark

    @property
    def verdict(self) -> str:
        """`survives`, `reset` or `blocks`."""
        return CATALOGUE[self.kind].verdict


def of(process: SeenProcess, kind: str, what: str, fd: int = -1, also: tuple[int, ...] = ()) -> Finding:
    """Return a finding about a process or one of its descriptors."""
    status = process.status
    command = process.command or f"[{status.name}]"
    return Finding(kind, process.inner, command[:200], what[:300], fd, also)

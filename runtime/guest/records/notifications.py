"""Unexpected deaths, kept until each actor has been notified: once each, with the actor's next result.

Pure. It decides what is news; `guest.py` passes it the journal's entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

KEPT = 32
MAX_SHELLS = 64
AT_ONCE = 5
MAX_ACTORS = 64


class Notifications:
    """The latest deaths, and which actors know of them."""

    def __init__(self) -> None:
        self._items: deque[tuple[int, dict[str, Any], frozenset[str] | None]] = deque(maxlen=KEPT)
        self._users: dict[str, set[str]] = {}
        self._delivered: dict[str, int] = {}
        self._heard: deque[tuple[str, tuple[object, ...]]] = deque(maxlen=KEPT)

    def add(self, seq: int, at: float, kind: str, fields: Mapping[str, Any]) -> None:
        """Process an entry of the journal."""
        if not is_news(kind, fields):
            return
        concerned = None
        if kind == "shell_ended":  # it is nothing to those who never used it, nor to whose command ended it
            concerned = frozenset(self._users.pop(str(fields.get("shell")), ())) - {fields.get("actor")}
            if not concerned:
                return
        self._items.append((seq, {"seq": seq, "at": at, "kind": kind, **fields}, concerned))

    def uses(self, actor: str, shell: str) -> None:
        """Note that an actor left something in a shell: a variable, a directory, a job."""
        users = self._users.setdefault(shell, set())
        if len(users) < MAX_ACTORS:
            users.add(actor)
        while len(self._users) > MAX_SHELLS:
            del self._users[next(iter(self._users))]

    def heard(self, actor: str, *ended: object) -> None:
        """Note that this actor knows how a job (its id) or a kernel's process (name, epoch) ended."""
        self._heard.append((actor, ended))

    def since(self, actor: str) -> list[dict[str, Any]]:
        """Return the latest news that this actor has not received yet, oldest first."""
        if not self._items or self._items[-1][0] <= self._delivered.get(actor, 0):
            return []
        before = self._delivered.pop(actor, 0)
        self._delivered[actor] = self._items[-1][0]
        while len(self._delivered) > MAX_ACTORS:
            del self._delivered[next(iter(self._delivered))]
        new = [
            item
            for seq, item, concerned in self._items
            if seq > before and (concerned is None or actor in concerned)
        ]
        if any(item.get("cause") == "oom" for item in new):
            # The deaths of named processes say more than a bare "something was killed".
            new = [item for item in new if item["kind"] != "oom"]
        return [item for item in new if not self._knows(actor, item)][-AT_ONCE:]

    def _knows(self, actor: str, item: Mapping[str, Any]) -> bool:
        names = ("kernel", "epoch") if item["kind"] == "kernel_died" else ("id",)
        return item.get("killed_by") == actor or (actor, tuple(map(item.get, names))) in self._heard


def is_news(kind: str, fields: Mapping[str, Any]) -> bool:
    """Return whether an entry reports a surprising end: not of a completed job, nor a new kernel."""
    match kind:
        case "process_exited":
            return fields.get("exit_code") != 0
        case "kernel_died":
            return fields.get("cause") != "restarted"
        case "shell_ended":
            return not fields.get("closed")
    return kind in ("job_ended", "oom", "no_free_process", "restarted")

"""Errors in words for an agent, whose hints name tools where the command line's name verbs.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.base.text import plain
from holdfast.errors import (
    CommandNotFound,
    HoldfastError,
    JobNotFound,
    KernelDied,
    SessionBusy,
    SessionDead,
    SessionExists,
    SessionNotFound,
    SnapshotNotFound,
)

_HINTS: Mapping[type[HoldfastError], str] = {
    SessionBusy: "`status` shows what runs; `wait` follows it, `answer` with key C-c interrupts it",
    SessionNotFound: "`sessions` lists them",
    SessionExists: "choose another name",
    SessionDead: "`go_back` returns to a snapshot, if there is one; `sessions` starts another",
    SnapshotNotFound: "`status` lists the last snapshots",
    JobNotFound: "`status` shows what runs",
    CommandNotFound: "`status` shows what runs",
    KernelDied: "a new one has started; its variables are gone",
}
_LONGEST = 1000


def message(error: HoldfastError) -> str:
    """Return an error as one line, with what to do next."""
    text = plain(str(error), _LONGEST)
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), error.hint)
    if not hint or "`holdfast" in hint:  # the agent has no command line
        return text
    return f"{text}: {plain(hint, 300)}"

"""The time of the last use of a session, as its supervisor and the host's journal report it. Read only.

Running, typing and writing are uses; looking is not. A command, cell, job or program that runs is a use as
long as it lasts, unless it waits for input; so is a connection by ssh. Root in the session can forge the
supervisor's reports: at worst the session stays awake, or sleeps until it is used.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.runtime.capture import activity
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.store.journal_entries import EntryFilter
from holdfast.runtime.store.lifetime import Lifetime

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

USES = (*activity.DONE, "run_started", "run_ended", "woken", "shell_opened", "ssh_closed")
"""Kinds of entries of a session's own journal that are uses of it."""
HOST_USES = ("created", "restored", "resumed", "rewound", "files", "task_changed")
RECENT = 200
"""Entries at the journal's end that are searched for the last use."""


def last_use(line: SessionChannel) -> float | None:
    """Return when a running session was last used, in seconds since 1970; None if it is in use now.

    Raises:
        SessionError, GuestError: the session does not run or answer.
    """
    client, row = line.client(), line.row
    with line.explained():
        hello = client.request("hello")
        if wire_fields.optional_integer(hello, "ssh"):
            return None
        others = wire_fields.rows(client.request("job_list"), "jobs")
        others += wire_fields.rows(client.request("program_list"), "programs")
        if busy(wire_fields.rows(hello, "shells"), wire_fields.rows(hello, "kernels"), others):
            return None
        seq = wire_fields.integer(client.request("moment"), "journal_seq")
        last = max(row.created_at.timestamp(), Lifetime.of(row.details).used_at)
        frames = client.call("journal", after_seq=max(0, seq - RECENT), kinds=list(USES), limit=RECENT)
        for frame in frames:
            if wire_fields.event(frame) == "entry":
                last = max(last, wire_fields.number(wire_fields.body(frame), "at"))
    kept = EntryFilter(kinds=HOST_USES, since=last)
    for entry in line.context.store.entries.stream([row.id], kept, by_time=True, newest_first=True):
        if entry.host:
            last = max(last, entry.at)
            break
    return min(last, time.time())


def busy(
    shells: Iterable[Mapping[str, Any]],
    kernels: Iterable[Mapping[str, Any]],
    others: Iterable[Mapping[str, Any]],
) -> bool:
    """Check whether work is running, by the reports of shells, kernels, and of jobs and programs. Pure."""
    return (
        any(_state(each) not in ("idle", "waiting", "stopped", "exited") for each in shells)
        or any(each.get("state") in ("busy", "starting") and _state(each) != "waiting" for each in kernels)
        or any(each.get("state") == "running" and _state(each) != "waiting" for each in others)
    )


def _state(reported: Mapping[str, Any]) -> str:
    observed = reported.get("observed")
    return str(observed.get("state")) if isinstance(observed, dict) else ""

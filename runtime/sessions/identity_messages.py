"""Identity messages sent when a session starts or resumes, and the results of its hooks.

The format of these messages is defined here; the guest reads them in `identity/identity.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from holdfast.base import run_dir
from holdfast.base.text import plain
from holdfast.errors import GuestError
from holdfast.runtime.guest import layout
from holdfast.runtime.guest.identity.identity import CHOSEN, UNBEGUN
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.guest_value import GuestValue, Seconds, listed, shown

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.snapshots.manifest import Manifest

SHOWN = 2000


def _lines(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError("not a string")
    return "\n".join(plain(line, SHOWN) for line in raw[-SHOWN:].splitlines())


class HookOutcome(GuestValue):
    """The result of a hook: a program's path or `pid N`. `trouble` is empty if it succeeded."""

    hook: Annotated[str, shown(300)] = ""
    event: Annotated[str, shown(20)] = ""
    seconds: Seconds = 0.0
    trouble: Annotated[str, shown(600)] = ""
    output: Annotated[str, PlainValidator(_lines)] = ""


class HookOutcomes(GuestValue):
    """The results of all hooks."""

    outcomes: Annotated[list[HookOutcome], listed(1000)]


def who(row: SessionRow) -> dict[str, Any]:
    """Return the identity of a session and its container."""
    fields = {"session": row.id, "name": row.name, "generation": row.generation}
    return {**fields, "container": row.container_id} if row.container_id else fields


def say_who(
    folder: Path, row: SessionRow, kept: Manifest | None = None, again: str = "", waits: str = ""
) -> None:
    """Write the identity, and the snapshot of the files, for a supervisor that starts; `again`: the reason
    for continuing on files of an earlier supervisor; `waits`: the parts that are to be ready before it
    begins.

    Raises:
        StoreError: they cannot be written.
    """
    chosen: dict[str, Any] = {key: row.options.get(key) for key in CHOSEN}
    if kept is not None:
        before = {"session": kept.session, "name": kept.session_name, "generation": kept.generation}
        chosen |= {"snapshot": kept.id, "before": before}
    if again:
        chosen["again"] = again
    if waits:
        chosen |= {"waiting": waits, "generation": UNBEGUN}
    run_dir.write_json(folder, layout.SESSION_NAME, who(row) | chosen)


def begin(folder: Path, row: SessionRow) -> None:
    """Begin a session that has waited in a pool.

    Raises:
        StoreError: its identity cannot be written.
        GuestError: its supervisor does not answer, or belongs to a different session.
    """
    say_who(folder, row)
    reply = GuestClient(folder).request("begin", name=row.name, generation=row.generation)
    if reply.head.get("session") != row.id:
        raise GuestError("cannot begin the session: a different session answers")


def wake(
    folder: Path, row: SessionRow, token: str, event: str, snapshot: str = "", copies_killed: int = 0
) -> None:
    """End a pause. `event` is `restored` (in a copy), `resumed`, or `aborted` (no capture was made).

    It is `again` after an attempt that is followed by another: a capture has one outcome. It is `later` if
    the session was captured and runs again, but the outcome is not known yet; a message with it follows.
    `copies_killed` is how many copies of processes, made by the capture, the kernel killed for their memory.
    """
    fields = {"token": token, "event": event, "snapshot": snapshot, **who(row)}
    if copies_killed:
        fields["copies_killed"] = copies_killed
    run_dir.write_json(folder, layout.WAKE_NAME, fields)


def hooks(folder: Path) -> list[HookOutcome]:
    """Wait for the session's (time-limited) hooks and return their results."""
    try:
        return HookOutcomes.of(wire_fields.body(GuestClient(folder).request("hooks"))).outcomes
    except GuestError as error:
        # A supervisor of an older version has no hooks; one that hangs up is detected by the next call.
        return [] if "no such operation" in str(error) else [_unknown(str(error))]


def report_hooks(progress: Callable[[str], None], session: str, folder: Path) -> list[str]:
    """Wait for the hooks of a session, report failures, and return them as sentences."""
    found = [sentence(one) for one in hooks(folder) if one.trouble]
    for each in found:
        progress(f"session {session}: {each}")
    return found


def sentence(outcome: HookOutcome) -> str:
    """Describe a hook that failed, for people."""
    last = outcome.output.strip().rpartition("\n")[2]
    return f"hook {outcome.hook}: {outcome.trouble}" + (f" ({last[:200]})" if last else "")


def _unknown(why: str) -> HookOutcome:
    return HookOutcome(
        hook="all hooks", event="restored", trouble=f"their outcome is unknown ({plain(why, 200)})"
    )

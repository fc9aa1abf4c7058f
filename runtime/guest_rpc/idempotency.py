"""Idempotent calls: under one key, nothing runs twice in a session's line, whatever dies in between.

The session decides: it records a key before it starts the call, and answers a later call with the recorded
outcome. This host only writes an intent first, so that when the session cannot be reached any more, the
possible run of the call is known. Then its journal, which outlives it, can tell how the call ended;
otherwise the outcome is reported as unknown.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import (
    InvalidArgument,
    KernelNotFound,
    OutcomeUnknown,
    SessionBusy,
    SessionDead,
    SessionNotFound,
    ShellNotFound,
    StoreError,
)
from holdfast.runtime.guest.identity.actor import id_of
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.key_table import KeyTable
from holdfast.runtime.guest_rpc.results import ENDS, CellEvent, CellResult, ExecResult
from holdfast.runtime.store import timelines

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

T = TypeVar("T")

MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """A call under a key: an operation in a shell or kernel, with a text."""

    key: str
    op: str
    target: str
    text: str

    @property
    def digest(self) -> str:
        """A digest that identifies the call."""
        parts = (self.op, self.target, self.text)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


_STATES = ("intent", "refused", "lost")
_RECORD = struct.Struct("<32sBd")
"""Digest of the call, its state, and the life of the session."""


class Intents:
    """The intents of one life of a session, by key.

    After a session was taken back to a snapshot, its work since then is on a different timeline: there a
    key that was used only since then is free. The session itself knows the earlier ones.
    """

    def __init__(self, path: Path, life: float = 0.0) -> None:
        """`path` has the lines that older versions wrote, and the table is next to it; `life` is when the
        session was last taken back, in Unix seconds; 0 if it never was.
        """
        self._path, self._life = path, life
        self._table = KeyTable(path.with_suffix(".keys"))

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the last record of a key."""
        try:
            found = self._table.find(key)
            if found is None:
                return self._of_older_version(key)
        except OSError as error:
            raise _unusable(self._path, error) from error
        what, state, life = _RECORD.unpack(found)
        record = {"key": key, "what": what.hex(), "state": _STATES[state], "life": life}
        return record if life == self._life else None

    def _of_older_version(self, key: str) -> dict[str, Any] | None:
        """Return the last record of a key among lines, of which each was appended atomically."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return None
        for line in reversed(lines):
            try:
                found = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("key") == key:
                # One without a life is of the oldest version; it may be of this one.
                return found if found.get("life", self._life) == self._life else None
        return None

    def add(self, order: IdempotentCall, state: str) -> None:
        """Record that a call is about to run (`intent`), or was refused. Durable on return."""
        self._put(order.key, bytes.fromhex(order.digest), state)

    def lose(self, key: str) -> None:
        """Record that a call has run, or can have, on a machine that was lost after its last copy.

        Durable on return.
        """
        self._put(key, bytes(32), "lost")

    def _put(self, key: str, digest: bytes, state: str) -> None:
        record = _RECORD.pack(digest, _STATES.index(state), self._life)
        try:
            self._table.put(key, record)
        except OSError as error:
            raise _unusable(self._path, error) from error


def run(
    context: Context,
    session: SessionRow,
    order: IdempotentCall,
    call: Callable[[], T],
    recorded: Callable[[Mapping[str, Any], Mapping[str, Any]], T],
) -> T:
    """Make the call once. `recorded` builds a result from the journal entries of its start and end.

    Raises:
        InvalidArgument: the key is not valid, or was used for another call.
        OutcomeUnknown: the call possibly ran, and the session cannot be reached any more.
        SessionError, GuestError: the call failed; it can be tried again with the same key.
    """
    if not 0 < len(order.key) <= MAX_KEY:
        raise InvalidArgument(f"cannot use this key: it must have 1 to {MAX_KEY} characters")
    present = _present(context, session)
    intents = Intents(context.home.intents / f"{session.id}.jsonl", timelines.rewound_at(present or session))
    before = intents.find(order.key)
    if before is not None and before.get("state") == "lost":
        raise OutcomeUnknown(
            f"cannot know the outcome of key '{order.key}': session {session.name} was recovered after the "
            "loss of its machine, from a copy of before this call",
            hint="look at what it was to do, and repeat it with a new key if it has not happened",
        )
    if before is not None and before.get("what") != order.digest and before.get("state") != "refused":
        raise InvalidArgument(
            f"cannot {order.op} under key '{order.key}': it was used for another call",
            hint="use a different key for each command",
        )
    # Nothing is sent to a session that does not run, so it gets no intent.
    runs = present is not None and present.state == "running"
    if runs and (before is None or before.get("state") == "refused"):
        intents.add(order, "intent")
    try:
        return call()
    except (SessionBusy, InvalidArgument, ShellNotFound, KernelNotFound):
        intents.add(order, "refused")
        raise
    except (SessionDead, SessionNotFound) as dead:
        begun = intents.find(order.key)
        return _look_up(context, session, order, dead, begun, recorded)


def _present(context: Context, session: SessionRow) -> SessionRow | None:
    """Return the session's present row; None if it was removed."""
    try:
        return context.session_row(session.id)
    except SessionNotFound:
        return None


def _look_up(
    context: Context,
    session: SessionRow,
    order: IdempotentCall,
    dead: SessionDead | SessionNotFound,
    intent: Mapping[str, Any] | None,
    recorded: Callable[[Mapping[str, Any], Mapping[str, Any]], T],
) -> T:
    """Return the journal's record of a key in a session that has ended."""
    from holdfast.runtime.journal import journal_query

    kinds = ("command_started", "command_ended", "cell_started", "cell_ended")
    entries = journal_query.read(context, session.id, journal_query.Filter(kinds=kinds))
    mine = [entry for entry in entries if entry.details.get("key") == order.key]
    starts = [entry for entry in mine if entry.kind.endswith("_started")]
    ends = [entry for entry in mine if entry.kind.endswith("_ended")]
    if starts and ends:
        return recorded(starts[-1].details, ends[-1].details)
    if starts or (intent is not None and intent.get("state") != "refused"):
        raise OutcomeUnknown(
            f"cannot know the outcome of key '{order.key}': session {session.name} ended in the meantime",
            hint="restore a snapshot from before the call, where the key is free, or check its effects",
        ) from dead
    raise dead


def count(entry: Mapping[str, Any], name: str) -> int:
    """Return a number of an entry, 0 if it is missing."""
    return wire_fields.optional_integer(entry, name) or 0


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot use a key: {path} cannot be used ({error.strerror or error})",
        hint="make room, or set HOLDFAST_HOME to a writable folder",
    )


def exec_once(
    context: Context,
    session: SessionRow,
    key: str,
    command: str,
    shell: str,
    call: Callable[[], ExecResult],
) -> ExecResult:
    """Run a command under a key; raises as `idempotency.run` does."""
    order = IdempotentCall(key, "exec", shell, command)
    return run(context, session, order, call, lambda began, ended: _exec(key, began, ended))


def cell_once(
    context: Context,
    session: SessionRow,
    key: str,
    code: str,
    kernel: str,
    call: Callable[[], CellResult],
) -> CellResult:
    """Run a cell under a key; raises as `idempotency.run` does."""
    order = IdempotentCall(key, "cell", kernel, code)
    return run(context, session, order, call, lambda _, ended: _cell(ended))


def _exec(key: str, began: Mapping[str, Any], ended: Mapping[str, Any]) -> ExecResult:
    """Rebuild a command's result; its output was lost with the session."""
    start, end = count(began, "offset"), count(ended, "end_offset")
    return ExecResult(
        exit_code=wire_fields.optional_integer(ended, "exit_code", -255),
        signal=wire_fields.optional_integer(ended, "signal"),
        output=b"",
        start_offset=start,
        end_offset=end,
        timed_out=wire_fields.flag(ended, "timed_out"),
        shell_exited=wire_fields.flag(ended, "shell_exited"),
        incomplete=wire_fields.flag(ended, "incomplete"),
        duration=wire_fields.number(ended, "duration"),
        lost=max(0, end - start),
        command_id=id_of(key),
        recorded=True,
    )


def _cell(ended: Mapping[str, Any]) -> CellResult:
    """Rebuild a cell's result from the journal's record."""
    shown = [item for item in ended.get("outputs") or [] if isinstance(item, dict)]
    texts = {"stdout": "", "stderr": ""}
    outputs = []
    for number, item in enumerate(shown, start=1):
        kind, data = item.get("output_type"), item.get("data")
        if kind == "stream" and item.get("name") in texts and isinstance(item.get("text"), str):
            texts[item["name"]] += item["text"]
        elif kind in ("execute_result", "display_data") and isinstance(data, dict):
            outputs.append(CellEvent(kind, number, data=data))
    return CellResult(
        status=wire_fields.choice(ended, "status", (*ENDS, "waiting")),
        execution_count=wire_fields.optional_integer(ended, "execution_count"),
        stdout=texts["stdout"],
        stderr=texts["stderr"],
        outputs=tuple(outputs),
        duration=wire_fields.number(ended, "duration"),
        recorded=True,
    )

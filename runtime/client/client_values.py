"""A server's answers, as the values of the library in process. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from holdfast.errors import ProtocolError
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_tree import ChangeKind, WatchedChange
from holdfast.runtime.files.session_file import FoundFile, SessionFile
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc import event as events
from holdfast.runtime.guest_rpc import wait_state, wire_fields
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.kernel_calls import DISPLAYS
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
from holdfast.runtime.guest_rpc.results import ENDS, CellError, CellEvent, CellResult, ExecResult, Screen

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.results import CellEventKind, CellStatus

Table = Mapping[str, Any]
CELL_EVENTS: tuple[CellEventKind, ...] = ("stream", *DISPLAYS, "error", "input_request")
CHANGES: tuple[ChangeKind, ...] = get_args(ChangeKind)
CELL_ENDS: tuple[CellStatus, ...] = (*ENDS, "waiting", "running")


def table(raw: Any) -> dict[str, Any]:
    """Return a value that must be a JSON object.

    Raises:
        ProtocolError: it is something else.
    """
    if not isinstance(raw, dict):
        raise ProtocolError("cannot understand the server: its answer has an unexpected form")
    return raw


def tables(raw: Any) -> list[dict[str, Any]]:
    """Return a value that must be a list of JSON objects."""
    if not isinstance(raw, list):
        raise ProtocolError("cannot understand the server: its answer has an unexpected form")
    return [table(each) for each in raw]


def texts(raw: Any) -> tuple[str, ...]:
    """Return a value that must be a list of texts; empty from a server that does not send them yet."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise ProtocolError("cannot understand the server: its answer has an unexpected form")
    return tuple(map(str, raw))


def data_in(raw: Table, name: str) -> bytes:
    """Return bytes that are sent as text, or in base64 if they are not UTF-8."""
    coded = raw.get(f"{name}_base64")
    try:
        return base64.b64decode(coded, validate=True) if coded is not None else str(raw[name]).encode()
    except (KeyError, TypeError, binascii.Error):
        raise ProtocolError("cannot understand the server: its answer has an unexpected form") from None


def state(raw: Any) -> State | None:
    """Return the activity of a shell, command or cell."""
    return None if raw is None else wait_state.state(raw)


def exec_result(raw: Table, output: bytes, dropped: int) -> ExecResult:
    """Return the result of a command, with the output received."""
    return wire_fields.value(
        ExecResult,
        raw,
        output=output,
        dropped=dropped,
        waiting=state(raw.get("waiting")),
        news=tuple(events.parse(each) for each in wire_fields.rows(raw, "news")),
        rows=wire_fields.integer(raw, "rows", 1),
        cols=wire_fields.integer(raw, "cols", 1),
    )


def interrupted(raw: Any) -> ExecResult | None:
    """Return the result of a command that was interrupted; None if there was none."""
    return None if raw is None else exec_result(raw, data_in(raw, "output"), raw["dropped"])


def event(raw: Table) -> Event:
    """Return an event of a session."""
    return events.parse({name: value for name, value in raw.items() if name != "event"})


def cell_error(raw: Any) -> CellError | None:
    """Return the exception of a cell."""
    return None if raw is None else wire_fields.value(CellError, table(raw))


def cell_event(raw: Table) -> CellEvent:
    """Return an output or a question of a cell."""
    kind: CellEventKind = wire_fields.choice(raw, "event", CELL_EVENTS)
    text = wire_fields.text(raw, "prompt" if kind == "input_request" else "text", "")
    error = cell_error(raw) if kind == "error" else None
    return wire_fields.value(CellEvent, raw, kind=kind, text=text, error=error)


def cell_result(
    raw: Table, streams: Mapping[str, bytes], outputs: tuple[CellEvent, ...], dropped: int
) -> CellResult:
    """Return the result of a cell, with the output received."""
    return wire_fields.value(
        CellResult,
        raw,
        status=wire_fields.choice(raw, "status", CELL_ENDS),
        stdout=streams["stdout"].decode("utf-8", "replace"),
        stderr=streams["stderr"].decode("utf-8", "replace"),
        outputs=outputs,
        error=cell_error(raw.get("error")),
        waiting=state(raw.get("waiting")),
        dropped=dropped,
    )


def program_result(raw: Table, streams: Mapping[str, bytes], dropped: int) -> ProgramResult:
    """Return the end of a program, with the output received."""
    info = ProgramInfo.of(table(raw.get("info")))
    return wire_fields.value(ProgramResult, raw, info=info, dropped=dropped, **streams)


def job_info(raw: Any) -> JobInfo:
    """Return a command that runs outside the shell."""
    told = table(raw)
    return JobInfo.of({**told, "started_at": moment(told.get("started_at")).timestamp()})


def screen(raw: Any) -> Screen:
    """Return a terminal's screen."""
    told = table(raw)
    row, column = wire_fields.integers(told, "cursor")[:2]
    rows, cols = wire_fields.integer(told, "rows", 1), wire_fields.integer(told, "cols", 1)
    return wire_fields.value(Screen, told, rows=rows, cols=cols, cursor=(row, column))


def session_file(raw: Any) -> SessionFile:
    """Return a file of a session."""
    told = table(raw)
    return SessionFile.of(
        {**told, "mode": int(wire_fields.text(told, "mode"), 8), "target": told.get("target") or ""}
    )


def found_file(raw: Any) -> FoundFile:
    """Return the results of a search."""
    return FoundFile.of(table(raw))


def watched_change(raw: Any) -> WatchedChange:
    """Return a change of a file that is watched."""
    told = table(raw)
    file = told.get("file")
    return wire_fields.value(
        WatchedChange,
        told,
        kind=wire_fields.choice(told, "kind", CHANGES),
        file=None if file is None else session_file(file),
    )


def copied(raw: Any) -> Copied:
    """Return the counts of a copy."""
    return wire_fields.value(Copied, table(raw))


def count(raw: Any) -> int:
    """Return the number of matches."""
    return wire_fields.integer(table(raw), "count")


def moment(raw: Any) -> datetime:
    """Return a time, in UTC."""
    try:
        return datetime.fromisoformat(str(raw)).astimezone(UTC)
    except ValueError:
        raise ProtocolError("cannot understand the server: a time has an unexpected form") from None

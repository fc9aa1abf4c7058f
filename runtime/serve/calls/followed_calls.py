"""Calls that follow work to its end: commands, jobs, cells, programs, events, changes of files.

The result of a watch tells whether the watched path was removed (`ended`), or the waiting was ended
(`left`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.runtime.api import results_as_json
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import watched
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.watch_budget import SERVED
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.event import Event as SessionEvent
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult, ExecResult
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.call_threads import Parked
from holdfast.runtime.serve.calls.event_feeds import FollowedEvents, followed_events
from holdfast.runtime.serve.event_format import Event
from holdfast.runtime.serve.models.command_models import (
    AnswerRequest,
    CellAnswerRequest,
    CellQuery,
    CellRequest,
    EventsQuery,
    ExecRequest,
    JobQuery,
    JoinQuery,
    ProgramQuery,
    RunRequest,
    WatchQuery,
)

Emit = Callable[[Event, int], None]
"""Passes on an event, and the bytes it counts for; waits while the reader is slow."""
ServedCall = Callable[[Session, Patience, Emit | None], dict[str, Any] | Parked]
"""Does the work in a thread, and returns the fields of its result, or when it is to be called again.

With `Emit` it reports what is shown as it comes, and leaves that out of the result.
"""
OVERHEAD = 200
"""Bytes that an event takes in addition to its content."""


def exec_call(asked: ExecRequest, key: str | None) -> ServedCall:
    """Run a command."""
    how = {name: value for name, value in asked if name not in ("command", "patience")} | {"key": key}

    def run(found: Session, patience: Patience, events: _CommandEvents) -> ExecResult:
        return found.exec(
            asked.command,
            patience=patience,
            on_start=events.begun,
            **how,
            **events.callbacks(wait=asked.wait),
        )

    return _followed_command(run)


def join_call(command_id: str, asked: JoinQuery) -> ServedCall:
    """Follow a command that was begun."""

    def run(found: Session, patience: Patience, events: _CommandEvents) -> ExecResult:
        return found.join(
            command_id,
            start=asked.start,
            patience=patience,
            shell=asked.shell,
            wait=asked.wait,
            **events.callbacks(wait=asked.wait),
        )

    return _followed_command(run)


def answer_call(asked: AnswerRequest) -> ServedCall:
    """Type text for the command that runs, and follow it."""

    def run(found: Session, patience: Patience, events: _CommandEvents) -> ExecResult:
        return found.answer(
            asked.text,
            shell=asked.shell,
            wait=asked.wait,
            patience=patience,
            on_start=events.begun,
            **events.callbacks(wait=asked.wait),
        )

    return _followed_command(run)


def job_call(job: str, asked: JobQuery) -> ServedCall:
    """Follow a job."""

    def run(found: Session, patience: Patience, events: _CommandEvents) -> ExecResult:
        return found.job(job).wait(
            start=asked.start,
            wait=asked.wait,
            raw=asked.raw,
            patience=patience,
            **events.callbacks(wait=asked.wait),
        )

    return _followed_command(run)


def exec_answer(result: ExecResult) -> dict[str, Any]:
    """Return the fields of an `ExecAnswer`."""
    return {
        **results_as_json.exec_result(result),
        "running": result.running,
        "rows": result.rows,
        "cols": result.cols,
        **event_format.text("output", result.output),
    }


class _CommandEvents:
    """Turns one call's reports into events, if they are wanted."""

    def __init__(self, emit: Emit | None) -> None:
        self._emit = emit
        self._piece = b""

    def begun(self, command_id: str) -> None:
        """Report that it has begun."""
        if self._emit is not None:
            self._emit({"event": "started", "command_id": command_id}, OVERHEAD)

    def callbacks(self, *, wait: bool) -> dict[str, Any]:
        """Return the callbacks for a call; without `wait` it returns when the command waits."""
        if self._emit is None:
            return {}
        given: dict[str, Callable[..., object]] = {"on_bytes": self._output, "on_offset": self._place}
        return given | {"on_waiting": self._waiting} if wait else given

    def ended(self, result: ExecResult) -> dict[str, Any]:
        """Return the fields of the result; without output that was already reported."""
        told = exec_answer(result)
        if self._emit is None:
            return told
        self._report(self._piece, result.end_offset)
        return told | {"output": "", "output_base64": None}

    def _output(self, data: bytes) -> None:
        self._piece += data

    def _place(self, following: int) -> None:
        piece, self._piece = event_format.cut(self._piece)
        self._report(piece, following - len(self._piece))

    def _report(self, piece: bytes, following: int) -> None:
        if piece and self._emit is not None:
            told = {"event": "output", **event_format.text("output", piece), "next": following}
            self._emit(told, len(piece) + OVERHEAD)

    def _waiting(self, state: State) -> None:
        if self._emit is not None:
            self._emit({"event": "waiting", "waiting": state.as_dict()}, OVERHEAD)


def _followed_command(run: Callable[[Session, Patience, _CommandEvents], ExecResult]) -> ServedCall:
    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        events = _CommandEvents(emit)
        return events.ended(run(found, patience, events))

    return call


def cell_call(asked: CellRequest, key: str | None) -> ServedCall:
    """Run a cell."""
    how = asked.model_dump(exclude={"code", "patience"}) | {"key": key}

    def run(found: Session, patience: Patience, emit: Emit | None) -> CellResult:
        def begun(cell_id: str) -> None:
            if emit is not None:
                emit({"event": "started", "cell_id": cell_id}, OVERHEAD)

        return found.cell(asked.code, patience=patience, on_start=begun, **how, **_cell_callbacks(emit))

    return _followed_cell(run)


def join_cell_call(cell_id: str, asked: CellQuery) -> ServedCall:
    """Follow a cell that was begun."""

    def run(found: Session, patience: Patience, emit: Emit | None) -> CellResult:
        return found.kernel.join(
            cell_id, after=asked.after, patience=patience, kernel=asked.kernel, **_cell_callbacks(emit)
        )

    return _followed_cell(run)


def answer_cell_call(cell_id: str, asked: CellAnswerRequest) -> ServedCall:
    """Answer a cell, and follow it."""

    def run(found: Session, patience: Patience, emit: Emit | None) -> CellResult:
        asking = CellResult("waiting", None, "", "", cell_id=cell_id, seq=asked.seq)
        return found.kernel.answer(
            asking, asked.text, kernel=asked.kernel, patience=patience, **_cell_callbacks(emit)
        )

    return _followed_cell(run)


def _followed_cell(run: Callable[[Session, Patience, Emit | None], CellResult]) -> ServedCall:
    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        told = results_as_json.cell_result(run(found, patience, emit))
        return told if emit is None else told | {"stdout": "", "stderr": "", "outputs": []}

    return call


def _cell_callbacks(emit: Emit | None) -> dict[str, Any]:
    if emit is None:
        return {}
    return {"on_event": lambda event: emit(*_cell_event(event))}


def _cell_event(event: CellEvent) -> tuple[dict[str, Any], int]:
    """Return an event of a cell, and the bytes it counts for."""
    told: dict[str, Any] = {"event": event.kind, "seq": event.seq}
    if event.kind == "stream":
        told |= {"name": event.name, "text": event.text}
    elif event.kind == "input_request":
        told |= {"prompt": event.text, "password": event.password}
    elif event.error is not None:
        told |= as_table(event.error)
    else:
        told |= as_table(event, "kind", "text", "name", "password", "error")
    size = len(event.text) + sum(len(str(each)) for each in event.data.values())
    return told, size + OVERHEAD


def run_call(asked: RunRequest) -> ServedCall:
    """Start a program, and follow it."""
    how = asked.model_dump(exclude={"input", "input_base64", "timeout"})
    given = asked.input if asked.input_base64 is None else _decoded(asked.input_base64)

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        program = found.programs.start(**how, input=given is not None)
        if emit is not None:
            emit({"event": "started", "id": program.id}, OVERHEAD)
        if given is not None:
            program.feed(given)
        result = program.wait(timeout=asked.timeout, patience=patience, **_stream_callbacks(emit))
        return _program_answer(result, reported=emit is not None)

    return call


def program_call(program: str, asked: ProgramQuery) -> ServedCall:
    """Follow a program that was started."""
    start = {"stdout": asked.stdout, "stderr": asked.stderr}

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        result = found.programs.get(program).wait(
            start=start, timeout=asked.timeout, patience=patience, **_stream_callbacks(emit)
        )
        return _program_answer(result, reported=emit is not None)

    return call


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidArgument("cannot give it that input: it is not base64") from error


def _stream_callbacks(emit: Emit | None) -> dict[str, Any]:
    if emit is None:
        return {}
    begin = 0

    def place(_stream: str, offset: int) -> None:
        nonlocal begin
        begin = offset

    def output(stream: str, data: bytes) -> None:
        told = {
            "event": "output",
            "stream": stream,
            **event_format.text("output", data),
            "next": begin + len(data),
        }
        emit(told, len(data) + OVERHEAD)

    return {
        "on_offset": place,
        "on_stdout": lambda data: output("stdout", data),
        "on_stderr": lambda data: output("stderr", data),
    }


def _program_answer(result: ProgramResult, *, reported: bool) -> dict[str, Any]:
    """Return the fields of a `ProgramResultAnswer`."""
    return {
        "id": result.id,
        "info": result.info.as_dict(),
        "exit_code": result.exit_code,
        "signal": result.signal,
        "running": result.info.state == "running",
        "timed_out": result.timed_out,
        **event_format.text("stdout", b"" if reported else result.stdout),
        **event_format.text("stderr", b"" if reported else result.stderr),
        "dropped": 0 if reported else result.dropped,
        "lost": result.lost,
        "duration": result.info.duration,
    }


EVENT_BYTES = 1000


def events_call(asked: EventsQuery) -> ServedCall:
    """Follow the events of a session."""

    following: list[FollowedEvents] = []

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any] | Parked:
        def told(event: SessionEvent) -> None:
            if emit is not None:
                emit({"event": event.kind, **event.as_dict()}, EVENT_BYTES)

        if not asked.follow:
            for event in found.events(asked.after, kinds=asked.kind, patience=patience):
                told(event)
            return {}
        if not following:
            following.append(followed_events(found, asked.after, asked.kind))
        return following[0].proceed(patience, told) or {}

    return call


def watch_call(asked: WatchQuery) -> ServedCall:
    """Follow the changes of a folder or a file."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        files = found.files if asked.user is None else found.files.as_user(asked.user)
        patience.begin()
        how: dict[str, Any] = {"recursive": asked.recursive, "timeout": patience.left(), "patience": patience}
        with SERVED.begin(found.id) as share, watched(files, asked.path, share, **how) as changes:
            if emit is not None:
                emit({"event": "watching", "path": changes.path}, EVENT_BYTES)
            for change in changes:
                if emit is not None:
                    emit({"event": "change", **_change(change)}, EVENT_BYTES)
            return {"ended": changes.ended, "left": patience.ended}

    return call


def _change(change: WatchedChange) -> dict[str, Any]:
    told = change.as_dict()
    if change.file is not None:
        told["file"]["version"] = change.file.version
    return told

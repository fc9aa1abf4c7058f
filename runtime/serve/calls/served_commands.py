"""Calls of shells and jobs: commands, followed to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.runtime.api import plain_tables
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.calls.served_call import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.models.command_models import AnswerRequest, ExecRequest, JobQuery, JoinQuery


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

    return _reported(run)


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

    return _reported(run)


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

    return _reported(run)


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

    return _reported(run)


def exec_answer(result: ExecResult) -> dict[str, Any]:
    """Return the fields of an `ExecAnswer`."""
    return {
        **plain_tables.exec_result(result),
        "running": result.running,
        "rows": result.rows,
        "cols": result.cols,
        **event_format.text("output", result.output),
    }


class _CommandEvents:
    """Turns what one call reports into events, if anyone wants them."""

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
        """Return the fields of the result; without the output, if that was reported."""
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


def _reported(run: Callable[[Session, Patience, _CommandEvents], ExecResult]) -> ServedCall:
    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        events = _CommandEvents(emit)
        return events.ended(run(found, patience, events))

    return call

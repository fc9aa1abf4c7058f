"""Calls of programs that are started directly, followed to their end."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.calls.served_call import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.models.command_models import ProgramQuery, RunRequest


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
        result = program.wait(timeout=asked.timeout, patience=patience, **_callbacks(emit))
        return _answer(result, reported=emit is not None)

    return call


def program_call(program: str, asked: ProgramQuery) -> ServedCall:
    """Follow a program that was started."""
    start = {"stdout": asked.stdout, "stderr": asked.stderr}

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        result = found.programs.get(program).wait(
            start=start, timeout=asked.timeout, patience=patience, **_callbacks(emit)
        )
        return _answer(result, reported=emit is not None)

    return call


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidArgument("cannot give it that input: it is not base64") from error


def _callbacks(emit: Emit | None) -> dict[str, Any]:
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


def _answer(result: ProgramResult, *, reported: bool) -> dict[str, Any]:
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

"""Executions: cells whose client is there. They wait for their turn, and are interrupted if it leaves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.interpreter import cell_environment, context_languages, execution_lines
from holdfast.runtime.e2b.interpreter import sandbox_contexts as contexts
from holdfast.runtime.e2b.interpreter.execution_lines import END, KEEPALIVE, ExecutionLines, Line, written
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.wire_bodies import WireBody
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellEvent
from holdfast.runtime.serve.calls.served_call import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.streamed_call import CallResponse, StreamedCall

TURN_SECONDS = 86_400.0
"""How long an execution waits for those before it, if its client does."""
KEEPALIVE_SECONDS = 5.0


class Execution(WireBody):
    """Code to be run, in a context or in the one that a language shares."""

    code: str
    context_id: str | None = None
    language: str | None = None
    env_vars: dict[str, str] | None = None


async def execute(caller: SandboxCaller, asked: Execution) -> CallResponse:
    """Return the answer to an execution: its lines, as they come.

    Raises:
        HoldfastError: it failed before it had any.
    """
    call = StreamedCall(caller, caller.sandbox, None, execution_call(asked, lambda: caller.all.stopping))
    await call.begin()
    return CallResponse(call, _lines(call), execution_lines.MEDIA_TYPE)


def execution_call(asked: Execution, stopping: Callable[[], bool]) -> ServedCall:
    """Run code; what it emits are the lines, written. `stopping`: the server ends, and no client has left."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        assert emit is not None
        context, language = contexts.chosen(found, asked.context_id, asked.language)
        before = _before(found, context, language, asked.env_vars or {})
        lines, begun = ExecutionLines(), list[str]()

        def send(told: Iterable[Line]) -> None:
            for each in told:
                data = written(each)
                emit({"line": data}, len(data) + OVERHEAD)

        def heard(event: CellEvent) -> None:
            send(lines.heard(event, time.time_ns()))

        def no_input(_prompt: str, _password: bool) -> str:
            lines.asked()
            raise EOFError

        try:
            result = found.cell(
                asked.code,
                kernel=context,
                before=before,
                busy_wait=TURN_SECONDS,
                patience=patience,
                on_start=begun.append,
                on_event=heard,
                on_input=no_input,
            )
        except HoldfastError as error:
            if not begun:
                raise
            _interrupt(found, context, begun[0])  # its client takes it for ended
            send(lines.failed(error))
            return {}
        if result.status == "running" and not stopping():
            _interrupt(found, context, result.cell_id)
        send(lines.ended(result))
        return {}

    return call


def _before(found: Session, context: str, language: str | None, passing: Mapping[str, str]) -> str | None:
    """Return what is to run before the cell, so that it has its environment."""
    facts = SandboxFacts.of(found.row)
    kept = facts.env if facts else {}
    if not kept and not passing:
        return None
    passing = cell_environment.checked(passing)
    if (language or contexts.language_in(found, context)) != context_languages.PYTHON:
        if passing:
            raise InvalidArgument(
                "cannot set variables for this code: that is possible in Python only",
                hint="set them in the code itself",
            )
        return None
    return cell_environment.source(kept, passing)


def _interrupt(found: Session, context: str, cell_id: str) -> None:
    """Interrupt a cell that its client follows no longer."""
    with suppress(HoldfastError):  # it has ended, or the session has
        found.kernel.interrupt(context, cell_id=cell_id)


async def _lines(call: StreamedCall) -> AsyncIterator[bytes]:
    async for event in call.events(KEEPALIVE_SECONDS):
        if event is None:
            yield written(KEEPALIVE)
        elif isinstance(event, HoldfastError):
            yield written(execution_lines.failure(event)) + written(END)
        elif "line" in event:
            yield event["line"]

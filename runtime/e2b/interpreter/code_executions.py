"""Executions: cells whose client is there. They wait for their turn, and are interrupted if it leaves."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.interpreter import cell_environment, execution_lines
from holdfast.runtime.e2b.interpreter import sandbox_contexts as contexts
from holdfast.runtime.e2b.interpreter.execution_lines import KEEPALIVE, ExecutionLines, Line, written
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.wire_bodies import WireBody
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellEvent
from holdfast.runtime.serve.calls.followed_calls import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.event_streams import CallResponse, StreamedCall

TURN_SECONDS = 86_400.0
"""How long an execution waits for those before it, if its client does."""
KEEPALIVE_SECONDS = 5.0
BEGIN_SECONDS = 30.0
"""How long an answer is not begun while the code has not: until then a refusal has a status of its own."""
_BEGUN, _CUT = {"event": "begun"}, {"cut": True}
logger = logging.getLogger("holdfast.serve")


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
    await call.begin(BEGIN_SECONDS)
    answer = CallResponse(call, _lines(call, lambda: answer.cut()), execution_lines.MEDIA_TYPE)
    return answer


def execution_call(asked: Execution, stopping: Callable[[], bool]) -> ServedCall:
    """Run code; what it emits are the lines, written, and before them that it has begun.

    `stopping`: the server ends, and no client has left.
    """

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        assert emit is not None
        context, language = contexts.chosen(found, asked.context_id, asked.language)
        before = _before(found, context, language, asked.env_vars or {})
        told = _ToldLines(emit)
        try:
            result = found.cell(
                asked.code,
                kernel=context,
                before=before,
                busy_wait=TURN_SECONDS,
                patience=patience,
                on_start=told.started,
                on_event=told.heard,
                on_input=told.no_input,
            )
        except HoldfastError as error:
            if not told.cell:
                raise
            _interrupt(found, context, told.cell)  # its client takes it for ended
            if (last := told.lines.failed(error)) is None:
                raise
            told.send(last)
            return {}
        if result.status != "running":
            told.send(told.lines.ended(result))
            return {}
        if not stopping():  # its client has left
            _interrupt(found, context, result.cell_id)
        return _CUT

    return call


class _ToldLines:
    """The lines of one execution on their way to its client."""

    def __init__(self, emit: Emit) -> None:
        self.lines, self.cell = ExecutionLines(), ""
        self._emit = emit

    def started(self, cell: str) -> None:
        """Note the id of the cell, which has begun."""
        self.cell = cell
        self._emit(_BEGUN, OVERHEAD)

    def heard(self, event: CellEvent) -> None:
        """Send the lines for an event."""
        self.send(self.lines.heard(event, time.time_ns()))

    def no_input(self, _prompt: str, _password: bool) -> str:
        """Give the code no input."""
        self.lines.asked()
        raise EOFError

    def send(self, lines: Iterable[Line]) -> None:
        """Send lines."""
        for each in lines:
            data = written(each)
            self._emit({"line": data}, len(data) + OVERHEAD)


def _before(found: Session, context: str, language: str | None, passing: Mapping[str, str]) -> str | None:
    """Return what is to run before the cell, so that it has its environment."""
    facts = SandboxFacts.of(found.row)
    return cell_environment.source(
        language or contexts.language_in(found, context),
        facts.env if facts else {},
        cell_environment.checked(passing),
    )


def _interrupt(found: Session, context: str, cell_id: str) -> None:
    """Interrupt a cell that its client follows no longer."""
    with suppress(HoldfastError):  # it has ended, or the session has
        found.kernel.interrupt(context, cell_id=cell_id)


async def _lines(call: StreamedCall, cut: Callable[[], None]) -> AsyncIterator[bytes]:
    async for event in call.events(KEEPALIVE_SECONDS):
        if event is None:
            yield written(KEEPALIVE)
        elif isinstance(event, HoldfastError):
            logger.warning("an execution failed: %s", plain(e2b_errors.sentence(event), 400))
            cut()
        elif event.get("cut"):
            cut()
        elif "line" in event:
            yield event["line"]

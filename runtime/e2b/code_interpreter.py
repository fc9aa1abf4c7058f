"""The code interpreter, one port of a sandbox as clients see it: contexts are kernels, executions are cells.

Executions wait for their turn, and are interrupted if their client leaves.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, KernelNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import code_execution, connect_wire
from holdfast.runtime.e2b.code_execution import KEEPALIVE, ExecutionLines, Line, written
from holdfast.runtime.e2b.connect_wire import WireBody
from holdfast.runtime.e2b.sandbox_access import SANDBOX_PORT
from holdfast.runtime.e2b.sandbox_caller import From, SandboxCaller
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellEvent
from holdfast.runtime.serve.calls.followed_calls import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.event_streams import CallResponse, StreamedCall
from holdfast.runtime.serve.routes.api_router import wire_router

PYTHON = "python"
SPECS = {
    PYTHON: ("python3",),
    "javascript": ("javascript", "jslab", "deno"),
    "typescript": ("deno", "tslab"),
    "r": ("ir", "r"),
    "bash": ("bash",),
    "java": ("java",),
}
"""Jupyter's names of kernels for a language; the first that a session's image has is used."""
_SHORT = {"js": "javascript", "ts": "typescript", "python3": PYTHON, "py": PYTHON}
_LANGUAGE = re.compile(r"[a-z0-9_+.#-]{1,40}")
_CONTEXT = re.compile(r"[A-Za-z0-9_-]{1,40}")


def language_named(given: str | None) -> str:
    """Return the language that a client means; Python if it does not name one.

    Raises:
        InvalidArgument: it cannot be one.
    """
    language = (given or PYTHON).strip().lower()
    if not _LANGUAGE.fullmatch(language):
        raise InvalidArgument("cannot run code: the language is not a valid name")
    return _SHORT.get(language, language)


def specs_of(language: str) -> tuple[str, ...]:
    """Return the kernels that can run a language."""
    return SPECS.get(language, (language,))


def language_of(kernel: KernelInfo) -> str:
    """Return the language of a context: the one its name begins with, since a kernel can run several."""
    named = kernel.name.partition("-")[0]
    if kernel.spec in SPECS.get(named, ()):
        return named
    if kernel.language:
        return kernel.language
    return next((name for name, specs in SPECS.items() if kernel.spec in specs), kernel.spec)


def shared_context(language: str) -> str:
    """Return the id of the default context for code of a language."""
    return defaults.MAIN if language == PYTHON else re.sub(r"[^a-z0-9_-]", "-", language)


def new_context(language: str) -> str:
    """Return the id of a context that is to be made, which contains its language."""
    return f"{language}-{secrets.token_hex(8)}" if language in SPECS else secrets.token_hex(8)


def context_named(given: str) -> str:
    """Return the id of a context.

    Raises:
        KernelNotFound: the id is malformed.
    """
    if not _CONTEXT.fullmatch(given):
        raise KernelNotFound("cannot find the context: its id is not valid")
    return given


def unavailable(language: str) -> InvalidArgument:
    """Return the error for a language without a kernel in the session's image."""
    wanted = " or ".join(specs_of(language))
    return InvalidArgument(
        f"cannot run code in {language}: the sandbox's image does not have a Jupyter kernel for it",
        hint=f"use an image that has one ({wanted}), or run a program of it as a command",
    )


SECOND = "javascript"
"""The language, and the id, of the other context that every sandbox of E2B's template has."""


def context_described(kernel: KernelInfo) -> dict[str, Any]:
    """Return a context for a client."""
    return {"id": kernel.name, "language": language_of(kernel), "cwd": kernel.cwd}


def contexts_listed(found: Session) -> list[dict[str, Any]]:
    """Return all contexts: the main one, then E2B's default, then the others.

    The latter's process is started by the first code for it.
    """
    kernels = found.kernels.list()
    facts = SandboxFacts.of(found.row)
    if facts is None or not _waits(found, SECOND, kernels):
        return [context_described(each) for each in kernels]
    waiting = {"id": SECOND, "language": SECOND, "cwd": facts.home or ""}
    return [context_described(kernels[0]), waiting, *map(context_described, kernels[1:])]


def _waits(found: Session, context: str, kernels: Iterable[KernelInfo]) -> bool:
    """Return whether to list a context that does not have a kernel yet."""
    facts = SandboxFacts.of(found.row)
    has = context == SECOND and facts is not None and facts.javascript
    return has and all(each.name != context for each in kernels)


def context_opened(found: Session, language: str, cwd: str | None, name: str | None = None) -> KernelInfo:
    """Open a context; its id is generated if none is given.

    Raises:
        InvalidArgument: the sandbox has no kernel for this language, or no such directory.
    """
    if name is not None:
        for kernel in found.kernels.list():
            if kernel.name == name:  # of whichever of these specs the image has
                return kernel
    for spec in specs_of(language):
        try:
            return found.kernels.open(name or new_context(language), spec=spec, cwd=cwd)
        except KernelNotFound:
            continue
    raise unavailable(language)


def remove_kernel(found: Session, context: str) -> None:
    """End a context, and its running code.

    Raises:
        KernelNotFound: there is no context with that id.
        InvalidArgument: it is the default one, which every sandbox has.
    """
    name = context_named(context)
    if name == defaults.MAIN:
        raise InvalidArgument(
            "cannot remove the context main: every sandbox has it", hint="restart it to clear it"
        )
    if not _waits(found, name, found.kernels.list()):
        found.kernels.close(name, force=True)


def restart_kernel(found: Session, context: str) -> None:
    """Restart a context.

    Raises:
        KernelNotFound: there is no context with that id.
    """
    name = context_named(context)
    if not _waits(found, name, found.kernels.list()):
        found.kernel.restart(name)


def context_chosen(found: Session, context: str | None, language: str | None) -> tuple[str, str | None]:
    """Return the context for an execution, and its language if that is known without asking the session.

    Raises:
        InvalidArgument: both are given, or the sandbox has no kernel for this language.
        KernelNotFound: there is no context with that id.
    """
    if context and language:
        raise InvalidArgument("cannot run code: it names a context and a language; name one of them")
    if context and context != SECOND:
        name = context_named(context)
        return name, PYTHON if name == defaults.MAIN else None
    wanted = language_named(context or language)
    name = shared_context(wanted)
    if name != defaults.MAIN:
        context_opened(found, wanted, None, name)
    return name, wanted


def language_in(found: Session, context: str) -> str:
    """Return the language of a context.

    Raises:
        KernelNotFound: there is no context with that id.
    """
    for each in found.kernels.list():
        if each.name == context:
            return language_of(each)
    raise KernelNotFound(
        f"cannot find the context {context}: the sandbox does not have a context with that id"
    )


TURN_SECONDS = 86_400.0
"""How long an execution waits for those before it, if its client does."""
KEEPALIVE_SECONDS = 5.0
BEGIN_SECONDS = 30.0
"""How long an answer is not begun while the code has not: until then a refusal has a status of its own."""
_BEGUN, _CUT = {"event": "begun"}, {"cut": True}
logger = logging.getLogger("holdfast.serve")


class Execution(WireBody):
    """Code to be run, in a named context or in a language's shared one."""

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
    answer = CallResponse(call, _lines(call, lambda: answer.cut()), code_execution.MEDIA_TYPE)
    return answer


def execution_call(asked: Execution, stopping: Callable[[], bool]) -> ServedCall:
    """Run code; `emits` get the lines, written, after a notice that it has begun.

    `stopping`: the server ends, and no client has left.
    """

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        assert emit is not None
        context, language = context_chosen(found, asked.context_id, asked.language)
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
    """Return the code to run before the cell for its environment."""
    facts = SandboxFacts.of(found.row)
    return code_execution.source(
        language or language_in(found, context),
        facts.env if facts else {},
        code_execution.checked(passing),
    )


def _interrupt(found: Session, context: str, cell_id: str) -> None:
    """Interrupt a cell that its client no longer follows."""
    with suppress(HoldfastError):  # it has ended, or the session has
        found.kernel.interrupt(context, cell_id=cell_id)


async def _lines(call: StreamedCall, cut: Callable[[], None]) -> AsyncIterator[bytes]:
    async for event in call.events(KEEPALIVE_SECONDS):
        if event is None:
            yield written(KEEPALIVE)
        elif isinstance(event, HoldfastError):
            logger.warning("an execution failed: %s", plain(connect_wire.sentence(event), 400))
            cut()
        elif event.get("cut"):
            cut()
        elif "line" in event:
            yield event["line"]


PORT = b"49999"


class InterpreterRoute(APIRoute):
    """A route matched only on the interpreter's port."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for it."""
        if dict(scope.get("headers", ())).get(SANDBOX_PORT) != PORT:
            return Match.NONE, {}
        return super().matches(scope)


router = wire_router("e2b.code", route_class=InterpreterRoute)
contexts_router = wire_router("e2b.contexts", prefix="/contexts", route_class=InterpreterRoute)
"""The paths for which some clients send the traffic token alone; none of them runs code that is sent."""


class NewContext(WireBody):
    """A context to be made."""

    language: str | None = None
    cwd: str | None = None


@router.get("/health")
async def health(who: From) -> Response:
    """Answer if the sandbox runs."""
    await who.in_session(who.sandbox, lambda found: found.id)
    return PlainTextResponse("OK")


@router.post("/execute")
async def run_code(who: From, body: Execution) -> Response:
    """Run code, and send its lines as they come. A client that leaves interrupts it."""
    return await execute(who, body)


@contexts_router.post("")
async def make_context(who: From, body: NewContext) -> dict[str, Any]:
    """Make a context."""
    language = language_named(body.language)
    return context_described(
        await who.in_session(who.sandbox, lambda found: context_opened(found, language, body.cwd or None))
    )


@contexts_router.get("")
async def list_contexts(who: From) -> list[dict[str, Any]]:
    """List the contexts."""
    return await who.in_session(who.sandbox, contexts_listed)


@contexts_router.delete("/{context}", status_code=204)
async def remove_context(who: From, context: str) -> Response:
    """End a context."""
    await who.in_session(who.sandbox, lambda found: remove_kernel(found, context))
    return Response(status_code=204)


@contexts_router.post("/{context}/restart", status_code=204)
async def restart_context(who: From, context: str) -> Response:
    """Restart a context."""
    await who.in_session(who.sandbox, lambda found: restart_kernel(found, context))
    return Response(status_code=204)

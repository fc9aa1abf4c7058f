"""The commands of a session over a URL: run, join, answer, interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import CommandCall
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.guest_rpc.shell_report import SyntaxCheck

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_calls import OnBytes, OnOffset, OnOutput, OnStart, OnWaiting


class AsyncShell:
    """Runs commands in the shells of one session, as `SessionShell` does."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        patience: float | Patience | None = None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        lease_wait: float | None = None,
        busy_wait: float | None = None,
        key: str | None = None,
        reason: str | None = None,
        on_waiting: OnWaiting | None = None,
        on_start: OnStart | None = None,
        on_offset: OnOffset | None = None,
        shell: str = defaults.MAIN,
    ) -> ExecResult:
        """Run a command in the shell, until it ends or waits for input. As `Session.exec`.

        A caller that is cancelled leaves it running; `join` follows it further.
        """
        call_arguments.command(command)
        args = {
            "command": command,
            "timeout": call_arguments.seconds(timeout, "timeout"),
            "wait": wait or on_waiting is not None,
            "lease_wait": call_arguments.seconds(lease_wait, "lease_wait"),
            "busy_wait": call_arguments.patience(busy_wait, "busy_wait"),
            "reason": reason,
            "shell": shell,
        }
        call = CommandCall(self._session, "exec", args, key=key, patience=patience)
        call.on_output, call.on_bytes, call.on_waiting = on_output, on_bytes, on_waiting
        call.on_start, call.on_offset = on_start, on_offset
        return await self._transport.result(call)

    async def join(
        self,
        command_id: str,
        *,
        start: int | None = None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        on_waiting: OnWaiting | None = None,
        on_offset: OnOffset | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
        shell: str = defaults.MAIN,
    ) -> ExecResult:
        """Follow a command that was started elsewhere, or before a restore. As `Session.join`."""
        waits = wait or on_waiting is not None
        args = {"command_id": command_id, "start": start, "wait": waits, "shell": shell}
        call = CommandCall(self._session, "join", args, patience=patience)
        call.on_output, call.on_bytes, call.on_waiting = on_output, on_bytes, on_waiting
        call.on_offset = on_offset
        return await self._transport.result(call)

    async def answer(
        self,
        text: str | bytes,
        *,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
        on_waiting: OnWaiting | None = None,
        on_start: OnStart | None = None,
        on_offset: OnOffset | None = None,
        shell: str = defaults.MAIN,
    ) -> ExecResult:
        """Type text for the command that runs, and follow it from there. As `Session.answer`."""
        typed = call_arguments.typed(text, "answer").decode()
        call = CommandCall(
            self._session,
            "answer",
            {"text": typed, "wait": wait or on_waiting is not None, "shell": shell},
            patience=patience,
        )
        call.on_output, call.on_bytes, call.on_waiting = on_output, on_bytes, on_waiting
        call.on_start, call.on_offset = on_start, on_offset
        return await self._transport.result(call)

    async def interrupt(
        self, *, command_id: str | None = None, patience: float = 10.0, shell: str = defaults.MAIN
    ) -> ExecResult | None:
        """Interrupt what runs in the shell, as Ctrl-C does; None if that was no command of `exec`."""
        told = await self._ask("interrupt", command_id=command_id, patience=patience, shell=shell)
        return (
            None
            if told is None
            else client_values.exec_result(told, client_values.data_in(told, "output"), told["dropped"])
        )

    async def check_syntax(self, text: str, *, shell: str = defaults.MAIN) -> SyntaxCheck:
        """Check whether bash could parse all of a text, without running any of it."""
        told = client_values.table(await self._ask("check-syntax", text=text, shell=shell))
        return SyntaxCheck(**{name: value for name, value in told.items() if name != "ok"})

    async def _ask(self, what: str, **fields: object) -> dict[str, Any] | None:
        call = HttpCall("POST", place("sessions", self._session, what), body=given(**fields))
        told = await self._transport.ask(call)
        return None if told is None else client_values.table(told)

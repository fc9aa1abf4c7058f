"""The shells of a session over a URL: commands, terminals, what they showed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import CommandCall
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult, Screen
from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo, SyntaxCheck

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_calls import OnBytes, OnOffset, OnOutput, OnStart, OnWaiting
    from holdfast.runtime.history.recording.cast import CastEvent


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


class AsyncRecording:
    """A part of what a terminal showed, as `Recording` is: `start` and `end` are offsets of its output."""

    def __init__(self, transport: AsyncTransport, path: str, told: Mapping[str, Any]) -> None:
        from holdfast.runtime.client import insight_values
        from holdfast.runtime.history.recording.recording import KeptRange

        self._transport, self._path = transport, path
        found = insight_values.recording_part(told)
        self.kept = KeptRange(found.kept_start, found.kept_end)
        self.start, self.end, self.missing = found.start, found.end, found.missing
        self.begun, self.rows, self.cols, self.title = found.begun, found.rows, found.cols, found.title

    async def events(self) -> AsyncIterator[CastEvent]:
        """Yield what happened, in order; first the screen it begins with, if anything was shown before."""
        from holdfast.runtime.client import insight_values

        rest = b""
        async with self._transport.bytes_of(self._call("events"), {}) as body:
            async for part in body:
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield insight_values.cast_event(line)

    async def write(self, file: IO[str], *, raw: bool = False) -> int:
        """Write it as asciicast v2 and return the number of events.

        Its output is filtered for the terminals it will be played on, and secrets that the server's rules
        find are removed, unless `raw`.
        """
        count, rest = -1, b""
        async with self._transport.bytes_of(self._call("cast", raw=raw), {}) as body:
            async for part in body:
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    file.write(line.decode("utf-8", "replace") + "\n")
                    count += 1
        return count

    def _call(self, what: str, **params: Any) -> HttpCall:
        # The part is named by offsets: a time ago, or the end, would be another one by now.
        places = {"start": str(self.start), "end": str(self.end)}
        return HttpCall("GET", f"{self._path}/{what}", {**places, **params})


def shell_told(told: Any) -> ShellInfo:
    """Return a shell as a server tells it."""
    return ShellInfo.model_validate(client_values.table(told), by_name=True)


class AsyncTerminal:
    """The terminal of a shell, as `SessionTerminal` is."""

    def __init__(self, transport: AsyncTransport, session: str, shell: str = defaults.MAIN) -> None:
        self._transport, self._session, self.shell = transport, session, shell

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    async def info(self) -> ShellInfo:
        """Return the state of the shell, as the supervisor reports it."""
        return shell_told(await self._ask("GET"))

    async def screen(self) -> Screen:
        """Return the current screen of the terminal."""
        return client_values.screen(await self._ask("GET", "screen"))

    async def send(self, text: str | bytes) -> None:
        """Type text into the terminal, as it is."""
        await self._ask("POST", "input", text=call_arguments.typed(text, "text").decode())

    async def send_keys(self, *names: str) -> None:
        """Press keys, such as `C-c`, `Enter`, `Up`."""
        await self._ask("POST", "input", keys=list(names))

    async def lease(self) -> Lease:
        """Return the holder of the shell, and the attached viewers."""
        return Lease.model_validate(await self._ask("GET", "lease"))

    async def take(self, seconds: float | None = None, *, force: bool = False) -> Lease:
        """Hold the shell for a time; others cannot type meanwhile."""
        return await self._lease(action="take", seconds=seconds, force=force)

    async def give_back(self) -> Lease:
        """Let anyone type again."""
        return await self._lease(action="return")

    async def give(self, to: str, seconds: float | None = None) -> Lease:
        """Hand the shell over to another actor."""
        return await self._lease(action="give", to=to, seconds=seconds)

    async def recording(self, start: str | None = None, end: str | None = None) -> AsyncRecording:
        """Return what it showed, to be played or written as a cast. As `SessionTerminal.recording`."""

        path = place("sessions", self._session, "shells", self.shell, "recording")
        told = await self._transport.ask(HttpCall("GET", path, {"start": start, "end": end}))
        return AsyncRecording(self._transport, path, client_values.table(told))

    async def attach(
        self,
        *,
        detach_key: str = "C-]",
        read_only: bool = False,
        take: bool = False,
        unfiltered: bool = False,
    ) -> str:
        """Connect this process's terminal to it until the detach key is pressed. As `SessionTerminal.attach`.

        What is typed while the connection to the server is lost may be lost.
        """
        from holdfast.runtime.client.aio import async_local

        how = {"detach_key": detach_key, "read_only": read_only, "take": take, "unfiltered": unfiltered}
        return await async_local.attached(self._transport, self._session, {"shell": self.shell, **how})

    async def _lease(self, **fields: Any) -> Lease:
        return Lease.model_validate(await self._ask("POST", "lease", **fields))

    async def _ask(self, method: str, *what: str, **fields: Any) -> Any:
        path = place("sessions", self._session, "shells", self.shell, *what)
        body = None if method == "GET" else given(**fields)
        return await self._transport.ask(HttpCall(method, path, body=body))


class AsyncShells:
    """The shells of one session, as `SessionShells` are."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def list(self) -> tuple[ShellInfo, ...]:
        """Return the shells, the main one first."""
        told = await self._transport.ask(HttpCall("GET", place("sessions", self._session, "shells")))
        return tuple(shell_told(each) for each in client_values.tables(told))

    async def open(self, name: str, *, rows: int | None = None, cols: int | None = None) -> ShellInfo:
        """Open a shell, or return the open shell with that name."""
        body = given(name=name, rows=rows, cols=cols)
        call = HttpCall("POST", place("sessions", self._session, "shells"), body=body)
        return shell_told(await self._transport.ask(call))

    async def close(self, name: str, *, force: bool = False) -> None:
        """End a shell and the processes on its terminal; with `force` also if a command runs in it."""
        path = place("sessions", self._session, "shells", name)
        await self._transport.ask(HttpCall("DELETE", path, {"force": force}))

"""Programs and jobs of a session over a URL: arguments and pipes, or a command on a terminal of its own."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio import async_local
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import CommandCall, ProgramCall
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_calls import OnBytes, OnStreamOffset
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
from holdfast.runtime.guest_rpc.results import ExecResult

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_calls import OnOffset, OnOutput, OnWaiting


MOST_INPUT = 1 << 20
"""Bytes of input that go with one request."""


class AsyncRunningProgram:
    """One program of a session, running or ended, as `RunningProgram` is."""

    def __init__(self, transport: AsyncTransport, session: str, id_: str) -> None:
        self._transport, self._session, self.id = transport, session, id_

    def __repr__(self) -> str:
        return f"<RunningProgram {self.id}>"

    async def info(self) -> ProgramInfo:
        """Return its current state, as the session reports it."""
        return ProgramInfo.of(client_values.table(await self._transport.ask(HttpCall("GET", self._place()))))

    async def wait(
        self,
        *,
        timeout: float | None = None,
        patience: float | Patience | None = None,
        on_stdout: OnBytes | None = None,
        on_stderr: OnBytes | None = None,
        on_offset: OnStreamOffset | None = None,
        start: Mapping[str, int] | None = None,
    ) -> ProgramResult:
        """Wait for the program's end, and return its output from the beginning."""
        args = {"program": self.id, "timeout": timeout, **(start or {})}
        call = ProgramCall(self._session, "program", args, patience=patience)
        call.on_stdout, call.on_stderr, call.on_offset = on_stdout, on_stderr, on_offset
        return await self._transport.result(call)

    async def write(self, data: bytes | str) -> int:
        """Give it input, if it was started with `input=True`; return how many bytes it took."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        before = (await self.info()).accepted
        after = before
        for at in range(0, len(content), MOST_INPUT):
            piece = content[at : at + MOST_INPUT]
            told = await self._transport.send(HttpCall("POST", self._place("input")), piece)
            after = int(client_values.table(told)["accepted"])
            if after < before + at + len(piece):
                break  # it takes no more
        return after - before

    async def feed(self, data: bytes | str | Iterable[bytes] | AsyncIterable[bytes]) -> None:
        """Give it input and then the end, while the caller follows what it writes."""
        given = [data.encode()] if isinstance(data, str) else data
        async_local.begin([given] if isinstance(given, bytes) else given, self.write, self.close_input)

    async def close_input(self) -> None:
        """Let it find the end of its input."""
        await self._transport.send(HttpCall("POST", self._place("input"), {"close": True}), b"")

    async def signal(self, name: str = "TERM") -> None:
        """Send a signal to it and to all that it started."""
        await self._transport.ask(HttpCall("POST", self._place("signal"), body={"signal": name}))

    def _place(self, *what: str) -> str:
        return place("sessions", self._session, "programs", self.id, *what)


class AsyncPrograms:
    """The programs of one session that callers started directly, as `SessionPrograms` are."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        input: bytes | str | Iterable[bytes] | AsyncIterable[bytes] | None = None,  # noqa: A002  (as subprocess.run names it)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        on_stdout: OnBytes | None = None,
        on_stderr: OnBytes | None = None,
    ) -> ProgramResult:
        """Run a program and wait for its end, much as `subprocess.run` does: no shell, no terminal."""
        data = input.encode() if isinstance(input, str) else input
        if data is not None and (not isinstance(data, bytes) or len(data) > MOST_INPUT):
            program = await self.start(argv, input=True, env=env, cwd=cwd, user=user)
            await program.feed(data)
            return await program.wait(timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)
        args = {
            "argv": call_arguments.words(argv),
            "input_base64": None if data is None else base64.b64encode(data).decode(),
            "env": dict(env or {}),
            "cwd": cwd,
            "user": user,
            "timeout": timeout,
        }
        call = ProgramCall(self._session, "run", args)
        call.on_stdout, call.on_stderr = on_stdout, on_stderr
        return await self._transport.result(call)

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        input: bool = False,  # noqa: A002  (as in `run`)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        name: str | None = None,
    ) -> AsyncRunningProgram:
        """Start a program and leave it running; with `input`, `write` gives it its standard input."""
        words = call_arguments.words(argv)
        body = given(argv=words, input=input, env=dict(env or {}), cwd=cwd, user=user, name=name)
        call = HttpCall("POST", place("sessions", self._session, "programs"), body=body)
        return self.get(ProgramInfo.of(client_values.table(await self._transport.ask(call))).id)

    async def list(self) -> list[ProgramInfo]:
        """Return the running programs and the last that ended, the oldest first."""
        told = await self._transport.ask(HttpCall("GET", place("sessions", self._session, "programs")))
        return [ProgramInfo.of(each) for each in client_values.tables(told)]

    def get(self, id_: str) -> AsyncRunningProgram:
        """Return the program of that id; whether there is one shows when it is used."""
        return AsyncRunningProgram(self._transport, self._session, id_)


class AsyncJob:
    """One job of a session, as `Job` is."""

    def __init__(self, transport: AsyncTransport, session: str, id_: str) -> None:
        self._transport, self._session, self.id = transport, session, id_

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    async def info(self) -> JobInfo:
        """Return its current state, as the session reports it."""
        return client_values.job_info(await self._transport.ask(HttpCall("GET", self._place())))

    async def wait(
        self,
        *,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        on_waiting: OnWaiting | None = None,
        on_offset: OnOffset | None = None,
        start: int | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
        raw: bool = False,
    ) -> ExecResult:
        """Wait until it ends, or waits for input, which `send` answers."""
        args = {"job": self.id, "start": start, "wait": wait or on_waiting is not None, "raw": raw}
        call = CommandCall(self._session, "job", args, patience=patience)
        call.on_output, call.on_bytes, call.on_waiting = on_output, on_bytes, on_waiting
        call.on_offset = on_offset
        return await self._transport.result(call)

    async def output(self, offset: int = 0) -> bytes:
        """Return its terminal output so far, from an offset; a negative one counts from the end."""
        pieces: list[bytes] = []
        await self.follow(on_bytes=pieces.append, offset=offset, follow=False)
        return b"".join(pieces)

    async def follow(
        self,
        on_output: OnOutput | None = None,
        *,
        on_bytes: OnBytes | None = None,
        offset: int = 0,
        follow: bool = True,
    ) -> None:
        """Pass on the job's output from an offset until it ends: as text, or as bytes."""
        found = await self.info()
        start = offset if offset >= 0 else max(found.start_offset, found.end_offset + offset)
        if follow or start < found.end_offset:
            patience = Patience()

            def heard(reached: int) -> None:
                if not follow and reached >= found.end_offset:
                    patience.end()

            await self.wait(
                on_output=on_output,
                on_bytes=on_bytes,
                on_offset=heard,
                start=start,
                wait=True,
                patience=patience,
            )

    async def send(self, text: str | bytes) -> None:
        """Type text into its terminal, as it is."""
        typed = call_arguments.typed(text, "text").decode()
        await self._transport.ask(HttpCall("POST", self._place("input"), body={"text": typed}))

    async def resize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal, in characters."""
        body = {"rows": rows, "cols": cols}
        await self._transport.ask(HttpCall("POST", self._place("size"), body=body))

    async def signal(self, name: str = "TERM") -> None:
        """Send a signal to all processes in its terminal; INT as Ctrl-C does."""
        await self._transport.ask(HttpCall("POST", self._place("signal"), body={"signal": name}))

    def _place(self, *what: str) -> str:
        return place("sessions", self._session, "jobs", self.id, *what)


async def started(
    transport: AsyncTransport,
    session: str,
    command: str,
    *,
    name: str | None,
    env: Mapping[str, str] | None,
    cwd: str | None,
    **how: Any,
) -> AsyncJob:
    """Start a command outside the shell."""
    body = given(command=command, name=name, env=dict(env or {}), cwd=cwd, **how)
    told = await transport.ask(HttpCall("POST", place("sessions", session, "jobs"), body=body))
    return AsyncJob(transport, session, client_values.job_info(told).id)


async def listed(transport: AsyncTransport, session: str) -> list[JobInfo]:
    """Return all jobs that a session knows, oldest first."""
    told = await transport.ask(HttpCall("GET", place("sessions", session, "jobs")))
    return [client_values.job_info(each) for each in client_values.tables(told)]

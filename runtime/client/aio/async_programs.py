"""Programs of a session over a URL: arguments instead of a shell's text, pipes instead of a terminal."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio import async_feeding
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import ProgramCall
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_calls import OnBytes, OnStreamOffset
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult

MOST_INPUT = 1 << 20
"""Bytes of input that go with one request."""


class AsyncRunningProgram:
    """One program of a session, running or ended, as `RunningProgram` is."""

    def __init__(self, transport: AsyncTransport, session: str, id_: str) -> None:
        self._transport, self._session, self.id = transport, session, id_

    def __repr__(self) -> str:
        return f"<RunningProgram {self.id}>"

    async def info(self) -> ProgramInfo:
        """Return what the session reports of it now."""
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
        async_feeding.begin([given] if isinstance(given, bytes) else given, self.write, self.close_input)

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

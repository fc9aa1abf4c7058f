"""Running work in a session over a URL: commands and terminals of its shells, programs and jobs, cells."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.job import Job
from holdfast.runtime.api.running_program import RunningProgram, SessionPrograms
from holdfast.runtime.api.session_kernels import SessionKernel, SessionKernels
from holdfast.runtime.api.session_shells import SessionShell, SessionShells
from holdfast.runtime.api.terminal_handle import SessionTerminal
from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio import async_local
from holdfast.runtime.client.aio.async_handle import AsyncSessionPart, requesting
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import Route, all_of, asking, each, like, nothing
from holdfast.runtime.client.channel_calls import CellCall, CommandCall, ProgramCall
from holdfast.runtime.client.http_call import HttpCall, place, typed_text
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
from holdfast.runtime.guest_rpc.results import CellResult, ExecResult
from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo, SyntaxCheck

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.program_calls import OnBytes
    from holdfast.runtime.history.recording.cast import CastEvent


class AsyncShell(AsyncSessionPart):
    """Runs commands in the shells of one session, as `SessionShell` does.

    A caller that is cancelled leaves a command running; `join` follows it further.
    """

    async def _followed(self, call: str, told: dict[str, Any]) -> ExecResult:
        return await self._transport.result(CommandCall.of(self._session, call, told))

    async def _checked(self, _verb: str, told: dict[str, Any]) -> SyntaxCheck:
        call_arguments.command(told["text"])
        found = client_values.table(await self._ask("POST", "check-syntax", body=told))
        return SyntaxCheck(**{name: value for name, value in found.items() if name != "ok"})

    exec = asking(SessionShell.exec, _followed)
    join = asking(SessionShell.join, _followed)
    answer = asking(SessionShell.answer, _followed)
    interrupt = requesting(SessionShell.interrupt, Route("POST", "interrupt"), client_values.interrupted)
    check_syntax = asking(SessionShell.check_syntax, _checked)


class AsyncRecording:
    """A part of a terminal's recorded output, as `Recording` is: `start` and `end` are offsets of its
    output."""

    def __init__(self, transport: AsyncTransport, path: str, told: Mapping[str, Any]) -> None:
        from holdfast.runtime.client import insight_values
        from holdfast.runtime.history.recording.recording import KeptRange

        self._transport, self._path = transport, path
        found = insight_values.recording_part(told)
        self.kept = KeptRange(found.kept_start, found.kept_end)
        self.start, self.end, self.missing = found.start, found.end, found.missing
        self.begun, self.rows, self.cols, self.title = found.begun, found.rows, found.cols, found.title

    async def events(self) -> AsyncIterator[CastEvent]:
        """Yield the events in order; first the initial screen, if there was earlier output."""
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
    """Return a shell, from a server's description."""
    return ShellInfo.model_validate(client_values.table(told), by_name=True)


def lease_told(told: Any) -> Lease:
    """Return the holder of a shell, from a server's description."""
    return Lease.model_validate(told)


class AsyncTerminal(AsyncSessionPart):
    """The terminal of a shell, as `SessionTerminal` is."""

    def __init__(self, transport: AsyncTransport, session: str, shell: str = defaults.MAIN) -> None:
        super().__init__(transport, session, "shells", shell)
        self.shell = shell

    def __repr__(self) -> str:
        return f"<SessionTerminal {self.shell}>"

    async def _typed(self, _verb: str, told: dict[str, Any]) -> None:
        await self._ask("POST", "input", body=typed_text(told["text"]))

    async def _pressed(self, _verb: str, told: dict[str, Any]) -> None:
        await self._ask("POST", "input", body={"keys": told["names"]})

    async def _held(self, action: str, told: dict[str, Any]) -> Lease:
        return lease_told(await self._ask("POST", "lease", body={"action": action, **told}))

    async def _recording(self, _verb: str, told: dict[str, Any]) -> AsyncRecording:
        path = place(*self._at, "recording")
        found = await self._transport.ask(HttpCall("GET", path, told))
        return AsyncRecording(self._transport, path, client_values.table(found))

    async def _attached(self, _verb: str, told: dict[str, Any]) -> str:
        from holdfast.runtime.client.aio import async_local

        return await async_local.attached(self._transport, self._session, {"shell": self.shell, **told})

    info = requesting(SessionTerminal.info, Route("GET"), shell_told)
    screen = requesting(SessionTerminal.screen, Route("GET", "screen"), client_values.screen)
    send = asking(SessionTerminal.send, _typed)
    send_keys = asking(SessionTerminal.send_keys, _pressed)
    lease = requesting(SessionTerminal.lease, Route("GET", "lease"), lease_told)
    take = asking(SessionTerminal.take, _held)
    give_back = asking(SessionTerminal.give_back, _held, "return")
    give = asking(SessionTerminal.give, _held)
    recording = asking(SessionTerminal.recording, _recording)
    attach = asking(SessionTerminal.attach, _attached)


class AsyncShells(AsyncSessionPart):
    """The shells of one session, as `SessionShells` are."""

    list = requesting(SessionShells.list, Route("GET", "shells"), all_of(shell_told))
    open = requesting(SessionShells.open, Route("POST", "shells"), shell_told)
    close = requesting(SessionShells.close, Route("DELETE", "shells/{name}"), nothing)


MOST_INPUT = 1 << 20
"""Bytes of input that go with one request."""


class AsyncRunningProgram(AsyncSessionPart):
    """One program of a session, running or ended, as `RunningProgram` is."""

    def __init__(self, transport: AsyncTransport, session: str, id_: str) -> None:
        super().__init__(transport, session, "programs", id_)
        self.id = id_

    def __repr__(self) -> str:
        return f"<RunningProgram {self.id}>"

    async def _followed(self, _verb: str, told: dict[str, Any]) -> ProgramResult:
        start = told.pop("start", {})
        call = ProgramCall.of(self._session, "program", {"program": self.id, **start, **told})
        return await self._transport.result(call)

    info = requesting(RunningProgram.info, Route("GET"), ProgramInfo.of)
    wait = asking(RunningProgram.wait, _followed)
    signal = requesting(RunningProgram.signal, Route("POST", "signal", {"name": "signal"}), nothing)

    @like(RunningProgram.write)
    async def write(self, data: bytes | str, *, patience: Patience | None = None) -> int:
        content = data.encode() if isinstance(data, str) else bytes(data)
        before = (await self.info()).accepted
        after = before
        for at in range(0, len(content), MOST_INPUT):
            piece = content[at : at + MOST_INPUT]
            told = await self._transport.send(self._call("POST", "input"), piece, patience)
            after = int(client_values.table(told)["accepted"])
            if after < before + at + len(piece):
                break  # it takes no more
        return after - before

    @like(RunningProgram.feed)
    async def feed(self, data: bytes | str | Iterable[bytes] | AsyncIterable[bytes]) -> None:
        given = [data.encode()] if isinstance(data, str) else data
        async_local.begin([given] if isinstance(given, bytes) else given, self.write, self.close_input)

    @like(RunningProgram.close_input)
    async def close_input(self) -> None:
        await self._transport.send(self._call("POST", "input", close=True), b"")


class AsyncPrograms(AsyncSessionPart):
    """The programs of one session that callers started directly, as `SessionPrograms` are."""

    @like(SessionPrograms.run)
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
            "timeout": call_arguments.seconds(timeout, "timeout"),
        }
        call = ProgramCall(self._session, "run", args)
        call.on_stdout, call.on_stderr = on_stdout, on_stderr
        return await self._transport.result(call)

    async def _started(self, _verb: str, told: dict[str, Any]) -> AsyncRunningProgram:
        told["argv"] = call_arguments.words(told["argv"])
        found = await self._ask("POST", "programs", body=told)
        return self.get(ProgramInfo.of(client_values.table(found)).id)

    start = asking(SessionPrograms.start, _started)
    list = requesting(SessionPrograms.list, Route("GET", "programs"), each(ProgramInfo.of))

    @like(SessionPrograms.get)
    def get(self, id_: str) -> AsyncRunningProgram:
        return AsyncRunningProgram(self._transport, self._session, id_)


class AsyncJob(AsyncSessionPart):
    """One job of a session, as `Job` is."""

    def __init__(self, transport: AsyncTransport, session: str, id_: str) -> None:
        super().__init__(transport, session, "jobs", id_)
        self.id = id_

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    async def _followed(self, _verb: str, told: dict[str, Any]) -> ExecResult:
        return await self._transport.result(CommandCall.of(self._session, "job", {"job": self.id, **told}))

    async def _output(self, _verb: str, told: dict[str, Any]) -> bytes:
        pieces: list[bytes] = []
        await self._read("", {"on_bytes": pieces.append, "follow": False, **told})
        return b"".join(pieces)

    async def _read(self, _verb: str, told: dict[str, Any]) -> None:
        offset, follow = told.pop("offset", 0), told.pop("follow", True)
        found = await self.info()
        start = offset if offset >= 0 else max(found.start_offset, found.end_offset + offset)
        if not follow and start >= found.end_offset:
            return
        patience = Patience()

        def heard(reached: int) -> None:
            if not follow and reached >= found.end_offset:
                patience.end()

        how = {"on_offset": heard, "start": start, "wait": True, "patience": patience}
        await self._followed("", {**told, **how})

    async def _typed(self, _verb: str, told: dict[str, Any]) -> None:
        await self._ask("POST", "input", body=typed_text(told["text"]), patience=told.get("patience"))

    info = requesting(Job.info, Route("GET"), client_values.job_info)
    wait = asking(Job.wait, _followed)
    output = asking(Job.output, _output)
    follow = asking(Job.follow, _read)
    send = asking(Job.send, _typed)
    resize = requesting(Job.resize, Route("POST", "size"), nothing)
    signal = requesting(Job.signal, Route("POST", "signal", {"name": "signal"}), nothing)


OF_KERNEL = "kernels/{kernel}"


class AsyncKernel(AsyncSessionPart):
    """Runs cells in the kernels of one session, as `SessionKernel` does."""

    async def _followed(self, call: str, told: dict[str, Any]) -> CellResult:
        kernel = told.get("kernel", defaults.MAIN)
        try:
            return await self._transport.result(CellCall.of(self._session, call, told))
        except EOFError:
            await self.interrupt(kernel)
            raise InvalidArgument(
                "cannot answer the cell: there are no more lines of input", hint="it was interrupted"
            ) from None

    async def _answered(self, call: str, told: dict[str, Any]) -> CellResult:
        waiting: CellResult = told.pop("waiting")
        return await self._followed(call, {"cell_id": waiting.cell_id, "seq": waiting.seq, **told})

    cell = asking(SessionKernel.cell, _followed)
    join = asking(SessionKernel.join, _followed, "join_cell")
    answer = asking(SessionKernel.answer, _answered, "answer_cell")
    interrupt = requesting(
        SessionKernel.interrupt, Route("POST", "kernels/{kernel}/interrupt", in_query=True), nothing
    )
    restart = requesting(
        SessionKernel.restart, Route("POST", "kernels/{kernel}/restart", in_query=True), nothing
    )


class AsyncKernels(AsyncSessionPart):
    """The kernels of one session, as `SessionKernels` are."""

    list = requesting(SessionKernels.list, Route("GET", "kernels"), all_of(KernelInfo.of))
    specs = requesting(SessionKernels.specs, Route("GET", "kernel-specs"), all_of(KernelSpecInfo.of))
    open = requesting(SessionKernels.open, Route("POST", "kernels"), KernelInfo.of)
    close = requesting(SessionKernels.close, Route("DELETE", "kernels/{name}"), nothing)

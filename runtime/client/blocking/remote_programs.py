# Made by setup/blocking from ../aio/async_programs.py; do not edit.
"""Programs and jobs of a session over a URL: arguments and pipes, or a command on a terminal of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.job import Job
from holdfast.runtime.api.running_program import RunningProgram, SessionPrograms
from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking import remote_local
from holdfast.runtime.client.blocking.remote_handle import RemoteSessionPart, requesting
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like, nothing
from holdfast.runtime.client.channel_calls import CommandCall, ProgramCall
from holdfast.runtime.client.http_call import typed_text
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
from holdfast.runtime.guest_rpc.results import ExecResult

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.program_calls import OnBytes


MOST_INPUT = 1 << 20
"""Bytes of input that go with one request."""


class RemoteRunningProgram(RemoteSessionPart):
    """One program of a session, running or ended, as `RunningProgram` is."""

    def __init__(self, transport: RemoteTransport, session: str, id_: str) -> None:
        super().__init__(transport, session, "programs", id_)
        self.id = id_

    def __repr__(self) -> str:
        return f"<RunningProgram {self.id}>"

    def _followed(self, _verb: str, told: dict[str, Any]) -> ProgramResult:
        start = told.pop("start", {})
        call = ProgramCall.of(self._session, "program", {"program": self.id, **start, **told})
        return self._transport.result(call)

    info = requesting(RunningProgram.info, Route("GET"), ProgramInfo.of)
    wait = asking(RunningProgram.wait, _followed)
    signal = requesting(RunningProgram.signal, Route("POST", "signal", {"name": "signal"}), nothing)

    @like(RunningProgram.write)
    def write(self, data: bytes | str, *, patience: Patience | None = None) -> int:
        content = data.encode() if isinstance(data, str) else bytes(data)
        before = (self.info()).accepted
        after = before
        for at in range(0, len(content), MOST_INPUT):
            piece = content[at : at + MOST_INPUT]
            told = self._transport.send(self._call("POST", "input"), piece, patience)
            after = int(client_values.table(told)["accepted"])
            if after < before + at + len(piece):
                break  # it takes no more
        return after - before

    @like(RunningProgram.feed)
    def feed(self, data: bytes | str | Iterable[bytes] | Iterable[bytes]) -> None:
        given = [data.encode()] if isinstance(data, str) else data
        remote_local.begin([given] if isinstance(given, bytes) else given, self.write, self.close_input)

    @like(RunningProgram.close_input)
    def close_input(self) -> None:
        self._transport.send(self._call("POST", "input", close=True), b"")


class RemotePrograms(RemoteSessionPart):
    """The programs of one session that callers started directly, as `SessionPrograms` are."""

    @like(SessionPrograms.run)
    def run(
        self,
        argv: Sequence[str | Path],
        *,
        input: bytes | str | Iterable[bytes] | Iterable[bytes] | None = None,  # noqa: A002  (as subprocess.run names it)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        on_stdout: OnBytes | None = None,
        on_stderr: OnBytes | None = None,
    ) -> ProgramResult:
        data = input.encode() if isinstance(input, str) else input
        if data is not None and (not isinstance(data, bytes) or len(data) > MOST_INPUT):
            program = self.start(argv, input=True, env=env, cwd=cwd, user=user)
            program.feed(data)
            return program.wait(timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)
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
        return self._transport.result(call)

    def _started(self, _verb: str, told: dict[str, Any]) -> RemoteRunningProgram:
        told["argv"] = call_arguments.words(told["argv"])
        found = self._ask("POST", "programs", body=told)
        return self.get(ProgramInfo.of(client_values.table(found)).id)

    start = asking(SessionPrograms.start, _started)
    list = requesting(SessionPrograms.list, Route("GET", "programs"), each(ProgramInfo.of))

    @like(SessionPrograms.get)
    def get(self, id_: str) -> RemoteRunningProgram:
        return RemoteRunningProgram(self._transport, self._session, id_)


class RemoteJob(RemoteSessionPart):
    """One job of a session, as `Job` is."""

    def __init__(self, transport: RemoteTransport, session: str, id_: str) -> None:
        super().__init__(transport, session, "jobs", id_)
        self.id = id_

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def _followed(self, _verb: str, told: dict[str, Any]) -> ExecResult:
        return self._transport.result(CommandCall.of(self._session, "job", {"job": self.id, **told}))

    def _output(self, _verb: str, told: dict[str, Any]) -> bytes:
        pieces: list[bytes] = []
        self._read("", {"on_bytes": pieces.append, "follow": False, **told})
        return b"".join(pieces)

    def _read(self, _verb: str, told: dict[str, Any]) -> None:
        offset, follow = told.pop("offset", 0), told.pop("follow", True)
        found = self.info()
        start = offset if offset >= 0 else max(found.start_offset, found.end_offset + offset)
        if not follow and start >= found.end_offset:
            return
        patience = Patience()

        def heard(reached: int) -> None:
            if not follow and reached >= found.end_offset:
                patience.end()

        how = {"on_offset": heard, "start": start, "wait": True, "patience": patience}
        self._followed("", {**told, **how})

    def _typed(self, _verb: str, told: dict[str, Any]) -> None:
        self._ask("POST", "input", body=typed_text(told["text"]), patience=told.get("patience"))

    info = requesting(Job.info, Route("GET"), client_values.job_info)
    wait = asking(Job.wait, _followed)
    output = asking(Job.output, _output)
    follow = asking(Job.follow, _read)
    send = asking(Job.send, _typed)
    resize = requesting(Job.resize, Route("POST", "size"), nothing)
    signal = requesting(Job.signal, Route("POST", "signal", {"name": "signal"}), nothing)

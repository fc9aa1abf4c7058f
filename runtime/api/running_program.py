"""Programs that were started directly: arguments instead of a shell's text, pipes instead of a terminal.

A handle holds an id and the channel to the session; the same id works in every session that was restored from
a snapshot taken while it ran.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base import ids
from holdfast.runtime.guest_rpc import call_arguments, program_calls
from holdfast.runtime.guest_rpc.program_calls import InputFeed, OnBytes, OnStreamOffset, ProgramFollowing
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel


class RunningProgram:
    """One program of a session, running or ended."""

    def __init__(self, line: SessionChannel, id_: str) -> None:
        self._line = line
        self.id = id_

    def __repr__(self) -> str:
        return f"<RunningProgram {self.id}>"

    def info(self) -> ProgramInfo:
        """Return its current state, as the session reports it.

        Raises:
            ProgramNotFound: the session does not know it.
        """
        return program_calls.info(self._line, self.id)

    @call_arguments.awaits_nothing
    def wait(
        self,
        *,
        timeout: float | None = None,
        patience: float | Patience | None = None,
        on_stdout: OnBytes | None = None,
        on_stderr: OnBytes | None = None,
        on_offset: OnStreamOffset | None = None,
        start: Mapping[str, int] | None = None,
    ) -> ProgramResult:
        """Wait for the program's end, and return its output from the beginning.

        Args:
            timeout: seconds after which it is ended, with all that it started: SIGTERM, then SIGKILL.
            patience: seconds after which the result says that it still runs, or a `Patience`.
            on_stdout: called with its output from the beginning, then as it comes; `on_stderr` likewise.
            on_stderr: see `on_stdout`.
            on_offset: called before each piece of output with the stream's name and the offset of the piece.
            start: offsets of the streams (`stdout`, `stderr`) to begin with, by default their beginnings.
        """
        following = ProgramFollowing(
            self._line,
            self.id,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=call_arguments.seconds(timeout, "timeout"),
            patience=patience,
            on_offset=on_offset,
            start=start,
        )
        return following.run()

    def write(self, data: bytes | str, *, patience: Patience | None = None) -> int:
        """Send input, if it was started with `input=True`; returns when the program's pipe has all of it.

        Returns the number of bytes that it took: fewer if it takes no more, or the patience was over.
        """
        content = data.encode() if isinstance(data, str) else bytes(data)
        offset = self.info().accepted
        after = program_calls.write(
            self._line, self.id, [content], close=False, offset=offset, patience=patience
        )
        return after - offset

    def feed(self, data: bytes | str | Iterable[bytes]) -> None:
        """Send input and then the end, from a thread of its own, while this thread follows the output."""
        given = [data.encode()] if isinstance(data, str) else data
        InputFeed(self._line, self.id, [given] if isinstance(given, bytes) else given).start()

    def close_input(self) -> None:
        """Close the program's input."""
        program_calls.write(self._line, self.id, [], close=True, offset=self.info().accepted)

    def signal(self, name: str = "TERM") -> None:
        """Send a signal to the program and all its children."""
        program_calls.signal(self._line, self.id, name)


class SessionPrograms:
    """The programs of one session that callers started directly."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    @call_arguments.awaits_nothing
    def run(
        self,
        argv: Sequence[str | Path],
        *,
        input: bytes | str | Iterable[bytes] | None = None,  # noqa: A002  (as subprocess.run names it)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        on_stdout: OnBytes | None = None,
        on_stderr: OnBytes | None = None,
    ) -> ProgramResult:
        """Run a program and wait for its end, much as `subprocess.run` does: no shell, no terminal.

        Args:
            argv: the program and its arguments.
            input: its standard input, at once or in parts; none if left out.
            env: variables to set beside those the shell exports.
            cwd: its directory, by default that of the shell.
            user: a user of the session, by default the session's; others have the environment of a login.
            timeout: seconds after which it is ended, with all that it started.
            on_stdout: called with its output as it comes, as bytes; `on_stderr` likewise.
            on_stderr: see `on_stdout`.

        Raises:
            InvalidArgument: the program, directory or user does not exist.
        """
        program = self.start(argv, input=input is not None, env=env, cwd=cwd, user=user)
        if input is not None:
            program.feed(input)
        try:
            return program.wait(timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)
        except KeyboardInterrupt:
            program.signal("INT")
            raise

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        input: bool = False,  # noqa: A002  (as in `run`)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        name: str | None = None,
    ) -> RunningProgram:
        """Start a program and leave it running; with `input`, `write` sends to its standard input.

        `name` is its name in lists: a line of at most 64 characters.

        Raises:
            InvalidArgument: the program, directory or user does not exist.
        """
        words, id_ = call_arguments.words(argv), ids.new_id()
        payload = json.dumps({"argv": words, "env": dict(env or {}), "cwd": cwd or ""}).encode()
        given = {"user": user, "name": name}
        args = {key: value for key, value in given.items() if value is not None}
        program_calls.request(
            self._line.begins(), "program_start", payload, uses=True, id=id_, input=input, **args
        )
        return RunningProgram(self._line, id_)

    def list(self) -> list[ProgramInfo]:
        """Return the running programs and the last that ended, the oldest first."""
        return program_calls.listed(self._line)

    def get(self, id_: str) -> RunningProgram:
        """Return the program of that id; whether it exists shows on use."""
        return RunningProgram(self._line, id_)

"""Commands that run outside the shell: started once, and followed by any caller.

A handle holds an id and the channel to the session; the same id works in every session that was restored from
a snapshot taken while it ran.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.base import ids
from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.guest_rpc import call_arguments, typing_input, wire_fields
from holdfast.runtime.guest_rpc.guest_client import MAX_ANSWER_BYTES
from holdfast.runtime.guest_rpc.shell_calls import Following, OnBytes, OnOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.job_info import JobInfo
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.guest_rpc.shell_calls import OnOffset, OnWaiting


class Job:
    """One job of a session."""

    def __init__(self, line: SessionChannel, id_: str) -> None:
        self._line = line
        self.id = id_

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def info(self) -> JobInfo:
        """Return its current state, as the session reports it.

        Raises:
            JobNotFound: the session does not know it.
        """
        return listed(self._line, self.id)[0]

    @call_arguments.awaits_nothing
    def wait(
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
        """Wait until the job ends or waits for input, which `send` answers. As `Session.join`.

        Args:
            on_output: called with the output from its beginning, then as it comes, as text; `on_bytes` as
                bytes.
            on_waiting: called each time it begins to wait for input, instead of ending the call.
            on_offset: called after each piece of output with the offset at which what follows begins.
            start: offset of the output to begin with, by default its beginning.
            wait: keep waiting while it waits for input.
            patience: seconds after which the result says that it still runs, or a `Patience`.
            raw: leave the ends of lines as the terminal has them: a carriage return before each newline.
        """
        with self._line.explained():
            following = _Following(self._line, self.id, on_output, on_bytes, wait=wait, patience=patience)
            if raw:
                following.leave_line_ends()
            following.on_waiting = on_waiting
            following.on_offset = on_offset
            return following.run(start)

    def output(self, offset: int = 0) -> bytes:
        """Return its terminal output so far, from an offset; a negative one counts from the end."""
        pieces: list[bytes] = []
        self.follow(on_bytes=pieces.append, offset=offset, follow=False)
        return b"".join(pieces)

    @call_arguments.awaits_nothing
    def follow(
        self,
        on_output: OnOutput | None = None,
        *,
        on_bytes: OnBytes | None = None,
        offset: int = 0,
        follow: bool = True,
    ) -> None:
        """Pass on the job's output from an offset until it ends: as text, or as bytes."""
        with self._line.explained():
            _Reading(self._line, self.id, on_output, on_bytes, offset, follow=follow).read()

    def send(self, text: str | bytes, *, patience: Patience | None = None) -> None:
        """Type text into its terminal, as it is; raises InvalidArgument as `Session.send` does.

        Raises:
            GuestDisconnected: what runs there does not read it, for half a minute or until the patience was
                over.
        """
        data = call_arguments.typed(text, "text")
        typing_input.send(self._line, "job_send", data, patience, id=self.id)

    def resize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal, in characters; the program there is notified.

        Raises:
            InvalidArgument: the size is not valid.
            GuestError: it has ended.
        """
        self._line.request("job_resize", id=self.id, rows=rows, cols=cols)

    def signal(self, name: str = "TERM") -> None:
        """Send a signal to all processes in its terminal; INT as Ctrl-C does.

        Raises:
            GuestError: it has ended.
        """
        self._line.request("job_signal", id=self.id, signal=name)


class _Following(Following):
    """Follows a job to its end, like a command."""

    def __init__(
        self,
        line: SessionChannel,
        id_: str,
        on_output: OnOutput | None,
        on_bytes: OnBytes | None,
        *,
        wait: bool = True,
        patience: float | Patience | None = None,
    ) -> None:
        super().__init__(
            line.client(),
            line.reconnection(),
            id_,
            shell="",
            on_output=on_output,
            on_bytes=on_bytes,
            wait=wait,
            patience=patience,
        )
        self._op, self._args = "job_wait", {"id": id_}


class _Reading(_Following):
    """Reads the output only."""

    def __init__(
        self,
        line: SessionChannel,
        id_: str,
        on_output: OnOutput | None,
        on_bytes: OnBytes | None,
        offset: int,
        *,
        follow: bool,
    ) -> None:
        super().__init__(line, id_, on_output, on_bytes)
        self._args |= {"offset": offset, "follow": follow}
        self._follow_on = follow
        self._got = 0

    def read(self) -> None:
        """Read to the end of the present output, or of the job."""
        self._reconnection.run(self._read)

    def _read(self) -> None:
        args = dict(self._args) if self._next is None else {**self._args, "offset": self._next}
        with self._client.open("job_read", **args) as connection:
            for frame in connection.events(bounded=not self._follow_on):
                before = self._next
                self._got += len(frame.payload)
                if not self._follow_on and self._got > MAX_ANSWER_BYTES:
                    raise ProtocolError("cannot understand the session: its answer does not end")
                kind = wire_fields.event(frame)
                if kind == "output":
                    self._take(frame)
                elif kind == "gap":
                    self._next = wire_fields.integer(frame, "offset") + wire_fields.integer(frame, "size")
                if self._next != before:
                    self._reconnection.heard()
        self._end_output()


def start(
    line: SessionChannel,
    command: str,
    *,
    name: str | None,
    env: Mapping[str, str] | None,
    cwd: str | None,
    lease_wait: float | None,
    how: Mapping[str, Any],
) -> Job:
    """Start a command, exactly once even if the connection is lost.

    `how` has further arguments as they are sent; unset ones are left out.
    """
    data = call_arguments.text(command, "command").encode("utf-8", "surrogateescape")
    lease_wait = call_arguments.seconds(lease_wait, "lease_wait")
    if not data.strip():
        raise InvalidArgument(
            "cannot start the job: its command is empty", hint="for example `holdfast exec --detach S make`"
        )
    args = {"id": ids.new_id(), "name": name, "env": dict(env or {}), "cwd": cwd, "lease_wait": lease_wait}
    wanted = {key: value for key, value in args.items() if value}
    wanted |= {key: value for key, value in how.items() if value is not None and value is not False}
    with line.explained():
        client = line.begins().client()
        frame = line.reconnection(wakes=True).run(lambda: client.request("job_start", payload=data, **wanted))
    return Job(line, wire_fields.text(frame, "id"))


def listed(line: SessionChannel, ref: str | None = None) -> list[JobInfo]:
    """Return all jobs that a session knows, oldest first, or only the job with an id or name."""
    from holdfast.runtime.api.job_info import JobList

    wanted: dict[str, Any] = {} if ref is None else {"id": ref}
    with line.explained():
        frame = line.reconnection().run(lambda: line.client().request("job_list", **wanted))
    return JobList.of(frame.head).jobs

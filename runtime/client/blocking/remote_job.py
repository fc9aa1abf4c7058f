# Made by setup/blocking from ../aio/async_job.py; do not edit.
"""Commands of a session that run outside the shell, over a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.channel_calls import CommandCall
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_calls import OnBytes, OnOffset, OnOutput, OnWaiting


class RemoteJob:
    """One job of a session, as `Job` is."""

    def __init__(self, transport: RemoteTransport, session: str, id_: str) -> None:
        self._transport, self._session, self.id = transport, session, id_

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def info(self) -> JobInfo:
        """Return what the session reports of it now."""
        return client_values.job_info(self._transport.ask(HttpCall("GET", self._place())))

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
        """Wait until it ends, or waits for input, which `send` answers."""
        args = {"job": self.id, "start": start, "wait": wait or on_waiting is not None, "raw": raw}
        call = CommandCall(self._session, "job", args, patience=patience)
        call.on_output, call.on_bytes, call.on_waiting = on_output, on_bytes, on_waiting
        call.on_offset = on_offset
        return self._transport.result(call)

    def output(self, offset: int = 0) -> bytes:
        """Return what it wrote to its terminal so far, from an offset; a negative one counts from the end."""
        pieces: list[bytes] = []
        self.follow(on_bytes=pieces.append, offset=offset, follow=False)
        return b"".join(pieces)

    def follow(
        self,
        on_output: OnOutput | None = None,
        *,
        on_bytes: OnBytes | None = None,
        offset: int = 0,
        follow: bool = True,
    ) -> None:
        """Pass on the job's output from an offset until it ends: as text, or as bytes."""
        found = self.info()
        start = offset if offset >= 0 else max(found.start_offset, found.end_offset + offset)
        if follow or start < found.end_offset:
            patience = Patience()

            def heard(reached: int) -> None:
                if not follow and reached >= found.end_offset:
                    patience.end()

            self.wait(
                on_output=on_output,
                on_bytes=on_bytes,
                on_offset=heard,
                start=start,
                wait=True,
                patience=patience,
            )

    def send(self, text: str | bytes) -> None:
        """Type text into its terminal, as it is."""
        typed = call_arguments.typed(text, "text").decode()
        self._transport.ask(HttpCall("POST", self._place("input"), body={"text": typed}))

    def resize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal, in characters."""
        body = {"rows": rows, "cols": cols}
        self._transport.ask(HttpCall("POST", self._place("size"), body=body))

    def signal(self, name: str = "TERM") -> None:
        """Send a signal to all processes in its terminal; INT as Ctrl-C does."""
        self._transport.ask(HttpCall("POST", self._place("signal"), body={"signal": name}))

    def _place(self, *what: str) -> str:
        return place("sessions", self._session, "jobs", self.id, *what)


def started(
    transport: RemoteTransport,
    session: str,
    command: str,
    *,
    name: str | None,
    env: Mapping[str, str] | None,
    cwd: str | None,
    **how: Any,
) -> RemoteJob:
    """Start a command outside the shell."""
    body = given(command=command, name=name, env=dict(env or {}), cwd=cwd, **how)
    told = transport.ask(HttpCall("POST", place("sessions", session, "jobs"), body=body))
    return RemoteJob(transport, session, client_values.job_info(told).id)


def listed(transport: RemoteTransport, session: str) -> list[JobInfo]:
    """Return all jobs that a session knows, oldest first."""
    told = transport.ask(HttpCall("GET", place("sessions", session, "jobs")))
    return [client_values.job_info(each) for each in client_values.tables(told)]

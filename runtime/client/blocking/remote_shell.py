# Made by setup/blocking from ../aio/async_shell.py; do not edit.
"""The shells of a session over a URL: commands, terminals, what they showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from holdfast.runtime.api.session_shells import SessionShell, SessionShells
from holdfast.runtime.api.terminal_handle import SessionTerminal
from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking.remote_handle import RemoteSessionPart, requesting
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.bound_methods import Route, all_of, asking, nothing
from holdfast.runtime.client.channel_calls import CommandCall
from holdfast.runtime.client.http_call import HttpCall, place, typed_text
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo, SyntaxCheck

if TYPE_CHECKING:
    from holdfast.runtime.history.recording.cast import CastEvent


class RemoteShell(RemoteSessionPart):
    """Runs commands in the shells of one session, as `SessionShell` does.

    A caller that is cancelled leaves a command running; `join` follows it further.
    """

    def _followed(self, call: str, told: dict[str, Any]) -> ExecResult:
        return self._transport.result(CommandCall.of(self._session, call, told))

    def _checked(self, _verb: str, told: dict[str, Any]) -> SyntaxCheck:
        call_arguments.command(told["text"])
        found = client_values.table(self._ask("POST", "check-syntax", body=told))
        return SyntaxCheck(**{name: value for name, value in found.items() if name != "ok"})

    exec = asking(SessionShell.exec, _followed)
    join = asking(SessionShell.join, _followed)
    answer = asking(SessionShell.answer, _followed)
    interrupt = requesting(SessionShell.interrupt, Route("POST", "interrupt"), client_values.interrupted)
    check_syntax = asking(SessionShell.check_syntax, _checked)


class RemoteRecording:
    """A part of what a terminal showed, as `Recording` is: `start` and `end` are offsets of its output."""

    def __init__(self, transport: RemoteTransport, path: str, told: Mapping[str, Any]) -> None:
        from holdfast.runtime.client import insight_values
        from holdfast.runtime.history.recording.recording import KeptRange

        self._transport, self._path = transport, path
        found = insight_values.recording_part(told)
        self.kept = KeptRange(found.kept_start, found.kept_end)
        self.start, self.end, self.missing = found.start, found.end, found.missing
        self.begun, self.rows, self.cols, self.title = found.begun, found.rows, found.cols, found.title

    def events(self) -> Iterator[CastEvent]:
        """Yield what happened, in order; first the screen it begins with, if anything was shown before."""
        from holdfast.runtime.client import insight_values

        rest = b""
        with self._transport.bytes_of(self._call("events"), {}) as body:
            for part in body:
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield insight_values.cast_event(line)

    def write(self, file: IO[str], *, raw: bool = False) -> int:
        """Write it as asciicast v2 and return the number of events.

        Its output is filtered for the terminals it will be played on, and secrets that the server's rules
        find are removed, unless `raw`.
        """
        count, rest = -1, b""
        with self._transport.bytes_of(self._call("cast", raw=raw), {}) as body:
            for part in body:
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


def lease_told(told: Any) -> Lease:
    """Return the holder of a shell as a server tells it."""
    return Lease.model_validate(told)


class RemoteTerminal(RemoteSessionPart):
    """The terminal of a shell, as `SessionTerminal` is."""

    def __init__(self, transport: RemoteTransport, session: str, shell: str = defaults.MAIN) -> None:
        super().__init__(transport, session, "shells", shell)
        self.shell = shell

    def __repr__(self) -> str:
        return f"<SessionTerminal {self.shell}>"

    def _typed(self, _verb: str, told: dict[str, Any]) -> None:
        self._ask("POST", "input", body=typed_text(told["text"]))

    def _pressed(self, _verb: str, told: dict[str, Any]) -> None:
        self._ask("POST", "input", body={"keys": told["names"]})

    def _held(self, action: str, told: dict[str, Any]) -> Lease:
        return lease_told(self._ask("POST", "lease", body={"action": action, **told}))

    def _recording(self, _verb: str, told: dict[str, Any]) -> RemoteRecording:
        path = place(*self._at, "recording")
        found = self._transport.ask(HttpCall("GET", path, told))
        return RemoteRecording(self._transport, path, client_values.table(found))

    def _attached(self, _verb: str, told: dict[str, Any]) -> str:
        from holdfast.runtime.client.blocking import remote_local

        return remote_local.attached(self._transport, self._session, {"shell": self.shell, **told})

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


class RemoteShells(RemoteSessionPart):
    """The shells of one session, as `SessionShells` are."""

    list = requesting(SessionShells.list, Route("GET", "shells"), all_of(shell_told))
    open = requesting(SessionShells.open, Route("POST", "shells"), shell_told)
    close = requesting(SessionShells.close, Route("DELETE", "shells/{name}"), nothing)

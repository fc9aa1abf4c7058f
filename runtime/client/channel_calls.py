"""Calls over the WebSocket, each as the messages sent and the values made of the answers. Pure.

A call whose connection is lost is opened again at its place: it knows the id of its work, and how far it
has read. One that joins this process's terminal to a session's is painted again instead.
"""

from __future__ import annotations

import base64
import json
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Self, TypeVar

from holdfast.errors import OutcomeUnknown, ServerUnavailable, SessionElsewhere
from holdfast.runtime.client import client_values
from holdfast.runtime.client.client_errors import error_of
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.kernel_calls import KEEP_OUTPUTS, KEEP_TEXT
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult, ExecResult
from holdfast.runtime.guest_rpc.shell_calls import KEEP, KEEP_STREAMED
from holdfast.runtime.terminal.uncook import Tail

Result = TypeVar("Result")
CHANNEL = 1
"""The number of the channel: a connection carries one call at a time."""
CREDIT = 1 << 20
OVERHEAD = 200
"""Bytes that an event counts for in addition to its content."""


class ServerStopped(ServerUnavailable):
    """The server ends all calls because it is being stopped; a new server can take its place."""

    code = "server_stopped"


class ChannelCall(ABC, Generic[Result]):
    """One call, from its opening to its result."""

    checks: Mapping[str, Callable[[Any], Any]] = {}
    """Arguments that are checked as in process; the functions return the values to send."""

    def __init__(
        self,
        session: str,
        call: str,
        args: Mapping[str, Any],
        *,
        key: str | None = None,
        patience: float | Patience | None = None,
    ) -> None:
        self.session, self.call = session, call
        self.args = {name: value for name, value in args.items() if value is not None}
        self.key = key
        self.patience = Patience.of(patience)
        self.result: Result | None = None
        self.returned: list[Any] = []
        """Results of callbacks since they were last taken: an async caller's can be coroutines."""
        self.line: Any = None
        """The result of `on_input`, which is to be `answered`."""
        self.ended = False
        """True once the server has answered with a result or an error: nothing else will come."""
        self._unread = 0
        self._opened = False

    @classmethod
    def of(cls, session: str, call: str, told: Mapping[str, Any]) -> Self:
        """Return the call of a method with these arguments: callbacks, patience, key, others to be sent."""
        callbacks = {name: value for name, value in told.items() if name.startswith("on_")}
        sent = {name: value for name, value in told.items() if name not in callbacks}
        if "on_waiting" in callbacks:
            sent["wait"] = True
        key, patience = (sent.pop(name, None) for name in ("key", "patience"))
        for name, value in sent.items():
            if name in cls.checks:
                sent[name] = cls.checks[name](value)
        made = cls(session, call, sent, key=key, patience=patience)
        for name, callback in callbacks.items():
            setattr(made, name, callback)
        return made

    def opening(self) -> str:
        """Return the message that opens the call, or continues it over a new connection.

        Raises:
            OutcomeUnknown: it possibly began, and must not begin twice.
        """
        if self._opened:
            self._continue()
        told: dict[str, Any] = {"open": CHANNEL, "call": self.call, "session": self.session}
        told |= {"args": self.args, "credit": CREDIT}
        if self.key is not None:
            told["key"] = self.key
        if (seconds := self.patience.left()) is not None:
            told["patience"] = seconds
        return json.dumps(told)

    def opened(self) -> None:
        """Record that the call was sent."""
        self._opened = True

    def linked(self, connection: Any) -> None:
        """Record the connection that carries the call, for further messages."""

    def closing(self) -> str:
        """Return the message that ends the waiting."""
        return json.dumps({"close": CHANNEL})

    def receive(self, text: str | bytes) -> str | None:
        """Take a message; return the message to send in return, if any.

        Raises:
            HoldfastError: the error in which the call ended.
        """
        told = client_values.table(json.loads(text))
        if "error" in told:
            error = error_of(told)
            if isinstance(error, SessionElsewhere):  # nothing began: it is sent there as it is
                self._opened = False
            else:
                self.ended = True
            raise error
        if "result" in told:
            result = self._result(client_values.table(told["result"]))
            if self._asks(result):
                return None
            if self._goes_on(result) and not self.patience.over:
                raise ServerStopped("cannot continue: the server is being stopped")
            self.result, self.ended = result, True
            return None
        self.heard(told)
        self._unread += len(text) + OVERHEAD
        if self._unread < CREDIT // 2:
            return None
        unread, self._unread = self._unread, 0
        return json.dumps({"channel": CHANNEL, "credit": unread})

    @abstractmethod
    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""

    def answered(self, line: str) -> str:
        """Return the message that answers a question with a line, and by which the call continues."""
        raise NotImplementedError

    def _asks(self, result: Result) -> bool:
        """Return whether the caller was asked for a line, with which the call continues."""
        return False

    def _tell(self, callback: Callable[..., object] | None, *told: object) -> None:
        if callback is not None and (returned := callback(*told)) is not None:
            self.returned.append(returned)

    def _goes_on(self, result: Result) -> bool:
        """Return whether the followed work has neither ended nor asked for input."""
        return False

    @abstractmethod
    def _result(self, told: Mapping[str, Any]) -> Result:
        """Return the result."""

    @abstractmethod
    def _continue(self) -> None:
        """Change call and arguments into the ones that continue it."""

    def _begun_twice(self) -> None:
        if self.key is None:
            raise OutcomeUnknown(
                "cannot tell whether it began: the connection to the server was lost before it answered",
                hint="with a `key` it could be sent again",
            )


def _command(text: Any) -> str:
    call_arguments.command(text)
    return str(text)


def _typed(text: Any) -> str:
    return call_arguments.typed(text, "answer").decode()


class CommandCall(ChannelCall[ExecResult]):
    """A command or job, started or followed."""

    checks: Mapping[str, Callable[[Any], Any]] = {"command": _command, "text": _typed}
    on_output: Callable[[str], object] | None = None
    on_bytes: Callable[[bytes], object] | None = None
    on_waiting: Callable[[State], object] | None = None
    on_start: Callable[[str], object] | None = None
    on_offset: Callable[[int], object] | None = None
    _tail: Tail | None = None
    _next: int | None = None
    _id: str | None = None

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        if told["event"] == "started":
            first, self._id = self._id is None, str(told["command_id"])
            if first:
                self._tell(self.on_start, self._id)
        elif told["event"] == "output":
            self._shown(client_values.data_in(told, "output"), int(told["next"]))
        elif told["event"] == "waiting" and self.on_waiting is not None:
            found = client_values.state(told["waiting"])
            if found is not None:
                self._tell(self.on_waiting, found)

    def _shown(self, data: bytes, following: int) -> None:
        self._kept().feed(data)
        self._next = following
        self._tell(self.on_bytes, data)
        self._tell(self.on_output, data.decode("utf-8", "replace"))
        self._tell(self.on_offset, following)

    def _kept(self) -> Tail:
        if self._tail is None:
            self._tail = Tail(KEEP if self.on_output is None and self.on_bytes is None else KEEP_STREAMED)
        return self._tail

    def _result(self, told: Mapping[str, Any]) -> ExecResult:
        tail = self._kept()
        output = tail.value()
        if not output and not told["recorded"] and self._next is None:
            output = client_values.data_in(told, "output")
        if self._next is not None:
            told = {**told, "end_offset": self._next}
        return client_values.exec_result(told, output, tail.dropped)

    def _goes_on(self, result: ExecResult) -> bool:
        return result.running and result.waiting is None

    def _continue(self) -> None:
        if self.call in ("exec", "answer"):
            if self._id is None:
                self._begun_twice()
                return
            kept: dict[str, Any] = {name: self.args[name] for name in ("shell", "wait") if name in self.args}
            self.call, self.key, self.args = "join", None, {**kept, "command_id": self._id}
        if self._next is not None:
            self.args["start"] = self._next


class CellCall(ChannelCall[CellResult]):
    """A cell, started or followed."""

    checks: Mapping[str, Callable[[Any], Any]] = {
        name: partial(call_arguments.text, what=name) for name in ("code", "before")
    }
    on_event: Callable[[CellEvent], object] | None = None
    on_input: Callable[[str, bool], object] | None = None
    on_start: Callable[[str], object] | None = None
    _id: str | None = None
    _seq = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._streams = {"stdout": Tail(KEEP_TEXT), "stderr": Tail(KEEP_TEXT)}
        self._outputs: deque[CellEvent] = deque(maxlen=KEEP_OUTPUTS)
        self._question: CellResult | None = None

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        if told["event"] == "started":
            first, self._id = self._id is None, str(told["cell_id"])
            if first:
                self._tell(self.on_start, self._id)
            return
        event = client_values.cell_event(told)
        self._seq = max(self._seq, event.seq)
        if event.kind == "stream":
            self._streams["stderr" if event.name == "stderr" else "stdout"].feed(event.text.encode())
        elif event.kind not in ("error", "input_request"):
            self._outputs.append(event)
        self._tell(self.on_event, event)

    def _result(self, told: Mapping[str, Any]) -> CellResult:
        streams = {name: tail.value() for name, tail in self._streams.items()}
        dropped = sum(tail.dropped for tail in self._streams.values())
        return client_values.cell_result(told, streams, tuple(self._outputs), dropped)

    def _asks(self, result: CellResult) -> bool:
        if self.on_input is None or result.status != "waiting" or result.waiting is None:
            return False
        self._question = result
        self.line = self.on_input(result.waiting.prompt, result.waiting.detail == "password")
        return True

    def answered(self, line: str) -> str:
        """Return the message that answers the question of the cell."""
        question = self._question
        assert question is not None
        kept: dict[str, Any] = {name: self.args[name] for name in ("kernel",) if name in self.args}
        self.args = {**kept, "cell_id": question.cell_id, "seq": question.seq, "text": line}
        self.call, self.key, self._id, self._opened = "answer_cell", None, question.cell_id, False
        message = self.opening()
        self.opened()
        return message

    def _goes_on(self, result: CellResult) -> bool:
        return result.status == "running"

    def _continue(self) -> None:
        if self.call != "join_cell":
            if self.call == "answer_cell":
                self._id = str(self.args["cell_id"])
                self._seq = max(self._seq, int(self.args["seq"]))
            if self._id is None:
                self._begun_twice()
                return
            kept: dict[str, Any] = {name: self.args[name] for name in ("kernel",) if name in self.args}
            self.call, self.key, self.args = "join_cell", None, {**kept, "cell_id": self._id}
        self.args["after"] = max(self._seq, int(self.args.get("after", 0)))


class ProgramCall(ChannelCall[ProgramResult]):
    """A program, started or followed."""

    on_stdout: Callable[[bytes], object] | None = None
    on_stderr: Callable[[bytes], object] | None = None
    on_offset: Callable[[str, int], object] | None = None
    on_start: Callable[[str], object] | None = None
    _id: str | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tails: dict[str, Tail] = {}
        self._places = {name: int(self.args.get(name, 0)) for name in ("stdout", "stderr")}

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        if told["event"] == "started":
            self._id = str(told["id"])
            self._tell(self.on_start, self._id)
        elif told["event"] == "output":
            name = "stderr" if told["stream"] == "stderr" else "stdout"
            data, following = client_values.data_in(told, "output"), int(told["next"])
            self._tell(self.on_offset, name, following - len(data))
            self._tail(name).feed(data)
            self._places[name] = following
            self._tell(self.on_stdout if name == "stdout" else self.on_stderr, data)

    def _tail(self, name: str) -> Tail:
        if name not in self._tails:
            passed_on = self.on_stdout if name == "stdout" else self.on_stderr
            self._tails[name] = Tail(KEEP if passed_on is None else KEEP_STREAMED)
        return self._tails[name]

    def _result(self, told: Mapping[str, Any]) -> ProgramResult:
        streams = {name: self._tail(name).value() for name in ("stdout", "stderr")}
        dropped = sum(tail.dropped for tail in self._tails.values())
        return client_values.program_result(told, streams, dropped)

    def _goes_on(self, result: ProgramResult) -> bool:
        return result.info.state == "running" and not result.timed_out

    def _continue(self) -> None:
        if self.call == "run":
            if self._id is None:
                self._begun_twice()
            self.call, self.args = "program", {"program": self._id}
        self.args |= self._places


class WatchCall(ChannelCall[bool]):
    """The changes of a folder or a file as they happen; the result is whether it was removed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.path: str | None = None
        """The watched path, once that has begun."""
        self.found: deque[WatchedChange] = deque()

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        if told["event"] == "watching":
            self.path = str(told["path"])
        elif told["event"] == "change":
            self.found.append(client_values.watched_change(told))

    def _result(self, told: Mapping[str, Any]) -> bool:
        if told.get("left") and not self.patience.over:
            raise self._broken()
        return bool(told.get("ended"))

    def _continue(self) -> None:
        raise self._broken()

    @staticmethod
    def _broken() -> ServerUnavailable:
        return ServerUnavailable(
            "cannot continue to watch: the connection was lost, and changes since then are not known",
            hint="watch again, and list what is there",
        )


class EventsCall(ChannelCall[None]):
    """The events of a session, as they happen."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.found: deque[Event] = deque()

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        event = client_values.event(told)
        self.args["after"] = event.seq
        self.found.append(event)

    def _result(self, told: Mapping[str, Any]) -> None:
        return None

    def _continue(self) -> None:
        return


PIECE = 256 << 10
"""Bytes of input in one message."""


class AttachCall(ChannelCall[str]):
    """Output is passed on as it comes; the result is the reason of its end.

    Over another connection the terminal is painted again.
    """

    def __init__(self, session: str, how: Mapping[str, Any], show: Callable[[bytes], None]) -> None:
        super().__init__(session, "attach", how)
        self._show = show
        self.connection: Any = None
        self.begun = threading.Event()
        """Set once there is a connection by which something can be typed."""

    def linked(self, connection: Any) -> None:
        """Note the connection over which it was sent."""
        self.connection = connection
        self.begun.set()

    def typing(self, data: bytes) -> list[str]:
        """Return the messages that type bytes."""
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
        return [
            json.dumps({"channel": CHANNEL, "type_base64": base64.b64encode(each).decode()})
            for each in pieces
        ]

    def resizing(self, rows: int, cols: int) -> str:
        """Return the message that reports a new size, with which a call over a new connection begins."""
        self.args |= {"rows": rows, "cols": cols}
        return json.dumps({"channel": CHANNEL, "resize": [rows, cols]})

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        if told["event"] == "output":
            self._show(client_values.data_in(told, "output"))

    def _result(self, told: Mapping[str, Any]) -> str:
        return str(told.get("reason") or "closed")

    def _goes_on(self, result: str) -> bool:
        return result == "left"

    def _continue(self) -> None:
        self.args |= {"take": False}

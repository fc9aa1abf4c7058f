"""The front ends of one kernel: their messages, and the messages to them, kept while they are away.

Front ends share the supervisor's channels to the kernel. A reply goes to the front end that asked, by the
id of its parent; messages that the kernel publishes go to all. Code in a message is a cell, one after the
other. It knows messages of Jupyter; it does not know how other callers' cells are run, nor connections:
those read `messages` from where they were.
"""

from __future__ import annotations

import json
import os
import re
import time
from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.base.value_classes import dataclass
from holdfast.kernels.guest.cell_log import CellRecord
from holdfast.kernels.guest.messages import CellStatus
from holdfast.runtime.guest.identity.actor import Who
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.wire.kernel_messages import header_of, pack, parsed, unpack, written
from holdfast.runtime.guest.wire.protocol import MAX_PAYLOAD, Frame, FrameError, encode, frame_at

CAPACITY = 16 << 20
LARGEST = MAX_PAYLOAD - (64 << 10)
"""Bytes of a message, with room for the numbers before it; a larger one is replaced by a note."""
KEPT_CLIENTS = 64
KEPT_QUESTIONS = 4096
"""Requests of front ends whose replies are still addressed to them."""
MOST_HELD, MOST_HELD_BYTES = 256, 32 << 20
"""Messages that wait for the cell of another caller to end."""
_PARENT_LIMIT = 64 << 10
_LEAVES = re.compile(r"\s*(exit|quit)\s*(\(\s*\))?\s*;?\s*")
"""How a person leaves a terminal; run, it would end the kernel."""


class FrontEndRefused(Exception):
    """A message of a front end is refused; the text says why."""


@dataclass(frozen=True, slots=True)
class FrontMessage:
    """A message of a front end on its way to the kernel."""

    client: str
    who: Who
    channel: str
    parts: list[bytes]
    header: dict[str, Any]

    @classmethod
    def of(cls, client: str, who: Who, data: bytes) -> FrontMessage:
        """Return the message that a front end has sent.

        Raises:
            MessageMalformed: it is not a message.
        """
        channel, parts = unpack(data)
        return cls(client, who, channel, parts, header_of(parts))

    @property
    def id(self) -> str:
        """Its id, by which the kernel's answers name it."""
        return str(self.header["msg_id"])

    @property
    def kind(self) -> str:
        """Its type."""
        return str(self.header["msg_type"])

    def code(self) -> str | None:
        """Return the code that it has the kernel run; None without code, or for code that leaves no trace.

        Raises:
            MessageMalformed: its content is not JSON.
        """
        if self.channel != "shell" or self.kind != "execute_request":
            return None
        content = parsed(self.parts[3])
        code = content.get("code")
        return code if isinstance(code, str) and content.get("silent") is not True else None

    @property
    def leaves(self) -> bool:
        """True for a person's way to leave, which must not end the kernel for all. Raises as `code` does."""
        return _LEAVES.fullmatch(self.code() or "") is not None

    def answer(self) -> str | None:
        """Return the answer to a question of a cell; None if it is not one. Raises as `code` does."""
        if self.channel != "stdin" or self.kind != "input_reply":
            return None
        return str(parsed(self.parts[3]).get("value", ""))


class FrontEnds:
    """The messages for the front ends of a kernel, by offsets."""

    def __init__(self, folder: Path, send: Callable[[FrontMessage], None]) -> None:
        """Begin empty. `send` passes a message on to the kernel."""
        self._log = StreamLog(folder, CAPACITY)
        self._send = send
        self._offsets = array("Q")
        self._asked: OrderedDict[str, str] = OrderedDict()
        self._places: OrderedDict[str, int] = OrderedDict()
        self._taken: OrderedDict[str, int] = OrderedDict()
        self._held: deque[FrontMessage] = deque()
        self._cell_at = 0
        self._question: int | None = None
        self.connected = 0
        """How many read now."""

    @property
    def end(self) -> int:
        """The offset after the newest message."""
        return self._log.end

    @property
    def asks(self) -> bool:
        """True while a cell of a front end waits for an answer."""
        return self._question is not None

    def answered(self) -> None:
        """Note that its question was answered."""
        self._question = None

    def began(self) -> None:
        """Note that a cell begins: a new front end is sent its output from here on."""
        self._cell_at, self._question = self._log.end, None

    def heard(self, channel: str, message: dict[str, Any]) -> None:
        """Keep a message of the kernel for its recipients."""
        if channel == "iopub":
            self._add(channel, message["parts"], None)
            return
        client = self._asked.get(str(message["parent_header"].get("msg_id", "")))
        if client is not None:
            if channel == "stdin":
                self._question = self._log.end
            self._add(channel, message["parts"], client)

    def tell(self, kind: str, content: dict[str, Any], to: FrontMessage) -> None:
        """Answer a message in the kernel's place."""
        self._add(to.channel, [_header(kind), to.parts[0], b"{}", written(content)], to.client)

    def let_leave(self, message: FrontMessage, count: int) -> None:
        """Answer a person who leaves: the front end ends, and the kernel stays."""
        payload = [{"source": "ask_exit", "keepkernel": True}]
        content = {"status": "ok", "execution_count": count, "user_expressions": {}, "payload": payload}
        self.state("busy", message.parts[0])
        self.tell("execute_reply", content, message)
        self.state("idle", message.parts[0])

    def state(self, name: str, parent: bytes = b"{}") -> None:
        """Report the kernel's state to all front ends, perhaps because of a message."""
        self._add("iopub", [_header("status"), parent, b"{}", written({"execution_state": name})], None)

    def abandon(self, message: FrontMessage) -> None:
        """Answer a message that the kernel will not answer."""
        reason = "the kernel's process has ended, or takes no more messages"
        content = {"status": "error", "ename": "KernelDied", "evalue": reason, "traceback": [reason]}
        self.tell(message.kind.replace("_request", "_reply"), content, message)
        self.state("idle", message.parts[0])

    def pass_on(self, message: FrontMessage, *, held: bool, waiting: int) -> None:
        """Send a message to the kernel; shell messages wait while the shell is `held` by a different caller.

        `waiting` is the number of front ends' cells that the kernel has not begun.

        Raises:
            FrontEndRefused: too many wait.
        """
        if waiting >= MOST_HELD:
            raise FrontEndRefused(f"cannot take the message: {waiting} cells wait for the kernel")
        self._asked[message.id] = message.client
        while len(self._asked) > KEPT_QUESTIONS:
            self._asked.popitem(last=False)
        if message.channel == "shell" and held:
            size = sum(len(part) for each in (*self._held, message) for part in each.parts)
            if len(self._held) >= MOST_HELD or size > MOST_HELD_BYTES:
                raise FrontEndRefused("cannot take the message: too many wait for a cell to end")
            self._held.append(message)
        else:
            self._pass(message)

    def let_go(self) -> None:
        """Send the messages that waited for the end of a different caller's cell."""
        held, self._held = self._held, deque()
        for message in held:
            self._pass(message)

    def drop_held(self) -> None:
        """Answer the waiting messages: the kernel has a new process."""
        held, self._held = self._held, deque()
        for message in held:
            self.abandon(message)

    def _pass(self, message: FrontMessage) -> None:
        try:
            self._send(message)
        except BlockingIOError:
            self.abandon(message)

    def take(self, link: str, number: int) -> bool:
        """Return whether a message is new: a lost connection can repeat one."""
        last = self._taken.pop(link, 0)
        self._taken[link] = max(last, number)
        while len(self._taken) > KEPT_CLIENTS:
            self._taken.popitem(last=False)
        return number > last

    def place(self, client: str, after: int | None, *, running: bool) -> tuple[int, bool]:
        """Return a front end's starting offset, and whether messages it waits for are lost.

        `after` is the offset of the last message that it has; unknown, it is where it left off, and for a new
        front end the beginning of the cell that is `running`, if one is.
        """
        if after is not None and after >= self._log.end:
            return self._log.end, after > self._log.end  # the session was taken back to before that
        if after is not None:
            return self._next(after), False
        return self._places.get(client, self._cell_at if running else self._log.end), False

    async def messages(self, client: str, position: int) -> AsyncIterator[bytes]:
        """Yield the messages for a front end from an offset on, as encoded frames, without end."""
        while True:
            index = bisect_left(self._offsets, max(position, self._log.start))
            if index == len(self._offsets):
                await self._log.more()
                continue
            offset = self._offsets[index]
            if offset > position:
                yield encode(Frame({"event": "gap", "size": offset - position}))
            frame, position = self._frame(offset), self._next(offset)
            if frame is not None and self._is_for(client, offset, frame):
                yield encode(frame)
            self._places.pop(client, None)
            self._places[client] = position
            while len(self._places) > KEPT_CLIENTS:
                self._places.popitem(last=False)

    def close(self) -> None:
        """Remove the kept messages."""
        self._log.remove()

    def _is_for(self, client: str, offset: int, frame: Frame) -> bool:
        if frame.head.get("channel") == "stdin":  # any of them may answer
            return offset == self._question
        return frame.head.get("to") in (None, client)

    def _frame(self, offset: int) -> Frame | None:
        """Return the message at an offset; None if the disk was full."""
        try:
            found = frame_at(offset, self._log.read)
        except FrameError:
            return None
        return found[0] if found else None

    def _next(self, offset: int) -> int:
        index = bisect_left(self._offsets, offset + 1)
        return self._offsets[index] if index < len(self._offsets) else self._log.end

    def _add(self, channel: str, parts: Sequence[bytes], client: str | None) -> None:
        if sum(map(len, parts)) > LARGEST:
            parts = _left_out(channel, parts)
        at = self._log.end
        head = {"event": "message", "at": at, "channel": channel}
        if client is not None:
            head["to"] = client
        data = encode(Frame(head, pack(channel, parts)))
        self._offsets.append(at)
        self._log.append(data)
        gone = bisect_left(self._offsets, self._log.start)
        if gone > 100:
            del self._offsets[:gone]


class FrontKernel(Protocol):
    """The kernel that front ends share with other callers, as they need it."""

    execution_count: int

    @property
    def taken(self) -> bool:
        """True if a cell has it."""

    @property
    def state(self) -> str:
        """One of starting, idle, busy and dead."""

    @property
    def info(self) -> bytes:
        """The process's answer to a question about itself."""

    async def interrupt(self) -> None:
        """Interrupt the running cell."""

    async def ensure(self) -> None:
        """Start the process if there is none."""

    def pass_on(self, channel: str, parts: Sequence[bytes]) -> bool:
        """Send a message to the process; return False if there is none."""

    def open_sent(self, message: str, code: str, who: Who) -> CellRecord:
        """Return a new cell, whose code was sent to the process in that message."""

    def hold(self, record: CellRecord, message: str, code: str) -> None:
        """Give a cell the kernel."""

    def look(self, record: CellRecord) -> None:
        """Record a cell's end, if it has ended."""

    def note_answer(self, text: str, who: Who) -> None:
        """Note that the running cell was answered."""


class FrontCells:
    """The messages of front ends on their way to a kernel, and the cells that run the code in them.

    Cells are sent immediately and have the kernel one after the other, as its process runs them.
    """

    def __init__(self, kernel: FrontKernel, folder: Path) -> None:
        self._kernel = kernel
        self.fronts = FrontEnds(folder, self._pass_on)
        self._waiting: deque[tuple[CellRecord, FrontMessage]] = deque()
        """Cells that the process was sent, and that do not run yet."""
        self._current: FrontMessage | None = None
        """The message of the cell that has the kernel, if that is a front end's."""

    async def take(self, message: FrontMessage) -> None:
        """Accept a message: send it to the process, or answer messages that are not for the process.

        Raises:
            FrontEndRefused, MessageMalformed: it cannot be taken.
            KernelFailure: there is no process, and none could be started.
        """
        kernel, fronts, asked = self._kernel, self.fronts, (message.channel, message.kind)
        if asked[1] == "shutdown_request":
            # The agent's variables are in it: `kernel restart` ends it, or the end of the session.
            fronts.tell("shutdown_reply", {"status": "ok", "restart": False}, message)
        elif asked == ("control", "interrupt_request"):
            await kernel.interrupt()
            fronts.tell("interrupt_reply", {"status": "ok"}, message)
        elif message.leaves:
            fronts.let_leave(message, kernel.execution_count)
        else:
            if kernel.state in ("dead", "starting"):
                await kernel.ensure()
            if asked == ("shell", "kernel_info_request") and kernel.taken and kernel.info:
                fronts.tell("kernel_info_reply", json.loads(kernel.info), message)
                return
            if (text := message.answer()) is not None:
                if not fronts.asks:
                    return  # this front end or another has answered
                fronts.answered()
                kernel.note_answer(text, message.who)
            held = kernel.taken and self._current is None
            fronts.pass_on(message, held=held, waiting=len(self._waiting))

    def over(self) -> None:
        """Note that the cell that held the kernel is over."""
        self._current = None

    def go_on(self) -> None:
        """Give the kernel to the next cell if it is free; without one, send the messages that waited."""
        self._promote()
        if not self._kernel.taken:
            self.fronts.let_go()

    def _promote(self) -> None:
        while not self._kernel.taken and self._waiting:
            record, message = self._waiting.popleft()
            if record.cell.over:
                self._kernel.look(record)
                continue
            self._current = message
            self._kernel.hold(record, message.id, message.code() or "")

    def end(self, status: CellStatus) -> None:
        """End all cells with their process, and answer them."""
        left, self._waiting = self._waiting, deque()
        for record, message in left:
            record.cell.end(status)
            self._kernel.look(record)
            self.fronts.abandon(message)
        if self._current is not None:
            self.fronts.abandon(self._current)
        self.fronts.drop_held()

    def _pass_on(self, message: FrontMessage) -> None:
        """Send a message to the process; code in it is a cell from then on."""
        if not self._kernel.pass_on(message.channel, message.parts):
            return
        if (code := message.code()) is not None:
            self._waiting.append((self._kernel.open_sent(message.id, code, message.who), message))
            self._promote()


def _header(kind: str) -> bytes:
    now = time.time()
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    return written(
        {
            "msg_id": os.urandom(16).hex(),
            "msg_type": kind,
            "username": "holdfast",
            "session": "holdfast",
            "date": date,
            "version": "5.3",
        }
    )


def _left_out(channel: str, parts: Sequence[bytes]) -> list[bytes]:
    """Return the substitute for a message that is too large."""
    note = f"[an output of {sum(map(len, parts))} bytes was left out: the limit is {LARGEST}]"
    parent = parts[1] if len(parts[1]) <= _PARENT_LIMIT else b"{}"
    if channel == "iopub":
        content: dict[str, Any] = {"name": "stderr", "text": note + "\n"}
        return [_header("stream"), parent, b"{}", written(content)]
    header = parts[0] if len(parts[0]) <= _PARENT_LIMIT else _header("execute_reply")
    content = {"status": "error", "ename": "TooLarge", "evalue": note, "traceback": [note]}
    return [header, parent, b"{}", written(content)]

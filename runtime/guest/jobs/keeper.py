"""The supervisor's channel to its parent, the keeper, which holds the things that outlive a supervisor.

The keeper (`images/session/keeper.c`, which describes the messages) has a duplicate of each descriptor, and
a record for the next supervisor. It reports the ends of processes that are not this supervisor's children:
earlier supervisors' children, and orphans. `adoption.py` gives records their meaning.
"""

from __future__ import annotations

import array
import asyncio
import json
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.base.value_classes import dataclass

VARIABLE = "HOLDFAST_KEEPER"
SESSION = "session"
"""The key of the record of the session as a whole."""
LONGEST = 16 << 10
"""Bytes of a message, as in `keeper.c`."""
PATIENCE = 2.0
"""Seconds for an answer, which takes microseconds; a keeper that root has stopped gives none."""
_HEAD = struct.Struct("=ciB")
_STATUS = struct.Struct("=i")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """A record that the keeper holds, for process `pid` (0: for none), with its descriptor (-1: none).

    `status` is the wait status of a process that has ended, see wait(2).
    """

    key: str
    pid: int
    fields: dict[str, Any]
    descriptor: int = -1
    status: int | None = None


class Keeper:
    """The channel; without a keeper, as in sessions of older versions, records are dropped immediately."""

    def __init__(self, channel: socket.socket | None = None) -> None:
        self._channel = channel
        self.pid = os.getppid() if channel is not None else 0
        """The keeper's process; 0 if there is none."""
        self._sent: dict[str, bytes] = {}
        self._answered = False
        self.ended: Callable[[int, int], None] = lambda _pid, _status: None
        """Called with the pid and the wait status of each process that ended or was stopped."""

    @classmethod
    def of_environment(cls) -> Keeper:
        """Return the channel that the environment names, and remove it from there."""
        number = os.environ.pop(VARIABLE, "")
        if not number.isdecimal():
            return cls()
        try:
            os.set_inheritable(int(number), False)
            return cls(socket.socket(fileno=int(number)))
        except OSError:
            return cls()

    def hold(self, key: str, pid: int, fields: dict[str, Any], descriptor: int = -1) -> None:
        """Have a record held; a descriptor given earlier under the key stays."""
        data = json.dumps(fields, separators=(",", ":")).encode()
        message = _HEAD.pack(b"H", pid, len(key)) + key.encode() + data
        if len(message) > LONGEST or (descriptor < 0 and self._sent.get(key) == message):
            return
        if self._send(message, descriptor):
            self._sent[key] = message

    def drop(self, key: str) -> None:
        """Have a record dropped."""
        if self._sent.pop(key, None) is not None:
            self._send(_HEAD.pack(b"D", 0, len(key)) + key.encode())

    def inherited(self) -> list[HeldRecord]:
        """Return the legacy of earlier supervisors, with the descriptors, which are now ours."""
        found: dict[str, HeldRecord] = {}
        statuses: dict[int, int] = {}
        if not self._send(_HEAD.pack(b"L", 0, 0)):
            return []
        deadline = time.monotonic() + PATIENCE
        while (message := self._await(deadline)) is not None:
            letter, pid, key, data, descriptor = message
            if letter == b"Z":
                break
            if letter == b"X" and len(data) == _STATUS.size:
                statuses[pid] = _STATUS.unpack(data)[0]
            elif letter == b"E":
                found[key] = HeldRecord(key, pid, _fields(data), descriptor)
                self._sent[key] = b""
        return [
            HeldRecord(one.key, one.pid, one.fields, one.descriptor, statuses.get(one.pid))
            for one in found.values()
        ]

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report ends from now on."""
        if self._channel is not None:
            loop.add_reader(self._channel.fileno(), self._readable)

    def settle(self) -> None:
        """Wait until the keeper has received all messages: none may be in transit during a capture."""
        self._answered = False
        if not self._send(_HEAD.pack(b"S", 0, 0)):
            return
        deadline = time.monotonic() + PATIENCE
        while not self._answered and (message := self._await(deadline)) is not None:
            self._take(message)
        if not self._answered:
            logger.warning("the keeper does not answer")

    def _send(self, message: bytes, descriptor: int = -1) -> bool:
        if self._channel is None:
            return False
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            self._channel.sendmsg([message], rights if descriptor >= 0 else [], socket.MSG_NOSIGNAL)
        except OSError as error:  # a keeper that is gone takes the session with it
            logger.warning("cannot reach the keeper: %s", error)
            return False
        return True

    def _readable(self) -> None:
        message = self._receive()
        while message is not None:
            self._take(message)
            message = self._receive()

    def _take(self, message: tuple[bytes, int, str, bytes, int]) -> None:
        letter, pid, _, data, _ = message
        if letter == b"S":
            self._answered = True
        elif letter == b"X" and len(data) == _STATUS.size:
            self.ended(pid, _STATUS.unpack(data)[0])

    def _await(self, deadline: float) -> tuple[bytes, int, str, bytes, int] | None:
        assert self._channel is not None
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        while (left := deadline - time.monotonic()) > 0 and self._channel is not None:
            if poll.poll(1000 * left) and (message := self._receive()) is not None:
                return message
        return None

    def _receive(self) -> tuple[bytes, int, str, bytes, int] | None:
        """Return the next message: letter, pid, key, record, descriptor; None if there is none."""
        if self._channel is None:
            return None
        try:
            data, rights, _, _ = self._channel.recvmsg(
                LONGEST + 64, socket.CMSG_SPACE(4), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError:
            data, rights = b"", []
        if len(data) < _HEAD.size:
            self._end()
            return None
        letter, pid, length = _HEAD.unpack_from(data)
        at = _HEAD.size + length
        descriptor = array.array("i", rights[0][2][:4])[0] if rights else -1
        return letter, pid, data[_HEAD.size : at].decode("utf-8", "replace"), data[at:], descriptor

    def _end(self) -> None:
        """Stop: the keeper has ended, and the first process ends everything."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(channel.fileno())
            channel.close()


def _fields(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}

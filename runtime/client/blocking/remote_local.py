"""Calls that need more of their process than connections: its terminal, its threads, pexpect.

Written by hand, as `../aio/async_local.py` is.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed

from holdfast.base.delegation import late
from holdfast.base.home import Home
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.client import client_address
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.channel_calls import AttachCall
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.client.http_call import PartStream
from holdfast.runtime.files.copied import Copied

if TYPE_CHECKING:
    from holdfast.runtime.api.spawn import SessionSpawning
    from holdfast.runtime.attachment.own_terminal import OwnTerminal


def unpacked(body: Iterator[bytes], unpack: Callable[[IO[bytes]], Copied]) -> Copied:
    """Return the work's result for the body."""
    return unpack(BufferedReader(PartStream(lambda: next(body, None)), 1 << 18))


def begin(parts: Iterable[bytes], write: Callable[[bytes], object], close: Callable[[], None]) -> None:
    """Write the parts, and then the end. A program that does not want them ends the feeding."""

    def feed() -> None:
        try:
            for part in parts:
                write(part)
            close()
        except HoldfastError:
            return  # the caller that follows the program sees how it ended

    threading.Thread(target=feed, name="holdfast-input", daemon=True).start()


def _spawning() -> type[SessionSpawning]:
    from holdfast.runtime.api.spawn import SessionSpawning  # pexpect is loaded when it is used

    return SessionSpawning


spawn = late(lambda session: _spawning()(session), lambda: _spawning().spawn)


def attached(transport: RemoteTransport, session: str, how: Mapping[str, Any]) -> str:
    """Pass bytes until the person detaches (`detached`) or the shell is closed (its reason).

    Raises:
        InvalidArgument: this process has no terminal, or one that is not in UTF-8.
        SessionError: the session ended.
    """
    from holdfast.runtime.attachment.own_terminal import OwnTerminal

    with OwnTerminal.entered() as person:
        if person.encoding.lower() not in ("utf-8", "utf8"):
            raise InvalidArgument(
                f"cannot attach over a URL: this terminal is in {person.encoding}", hint="use one in UTF-8"
            )
        rows, cols = person.size()
        call = AttachCall(session, {**how, "rows": rows, "cols": cols}, person.write)
        with _Typist(person, call) as typist:
            reason = transport.result(call)
        if typist.interrupted:
            raise KeyboardInterrupt
        return "detached" if typist.hung_up and reason == "left" else reason


class _Typist:
    """Sends what is typed, and the size of the terminal, from a thread of its own."""

    def __init__(self, person: OwnTerminal, call: AttachCall) -> None:
        self._person, self._call = person, call
        self._end_in, self._end_out = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.hung_up = self.interrupted = False

    def __enter__(self) -> _Typist:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end_out)
        self._call.begun.set()
        self._thread.join()
        os.close(self._end_in)

    def _run(self) -> None:
        self._call.begun.wait()
        poll = select.poll()
        for descriptor in (self._end_in, *self._person.descriptors()):
            poll.register(descriptor, select.POLLIN)
        while self._end_in not in (ready := {each for each, _ in poll.poll()}):
            try:
                if self._person.resized(ready):
                    self._say(self._call.resizing(*self._person.size()))
            except KeyboardInterrupt:
                self.interrupted = True
            data = self._person.typed(ready)
            if self.interrupted or data == b"":
                self.hung_up = True
                self._call.patience.end()
                return
            for message in self._call.typing(data or b""):
                self._say(message)

    def _say(self, message: str) -> None:
        with suppress(ConnectionClosed):
            self._call.connection.send(message)


def opened(url: str | Path | Home | None, token: str | None) -> tuple[ClientAddress, Callable[[], None]]:
    """Return the address, and the function to call at the end.

    Raises:
        InvalidArgument: the URL is not valid, or there is no token.
    """
    return client_address.address_of(str(url), token), lambda: None

"""A person's terminal joined to a session's over a URL: the server shows, and gets what is typed."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed

from holdfast.errors import InvalidArgument
from holdfast.runtime.attachment.own_terminal import OwnTerminal
from holdfast.runtime.client.attach_call import AttachCall
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport


def attached(transport: RemoteTransport, session: str, how: Mapping[str, Any]) -> str:
    """Pass bytes until the person detaches (`detached`) or the shell is closed (its reason).

    Raises:
        InvalidArgument: this process has no terminal, or one that is not in UTF-8.
        SessionError: the session ended.
    """
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

"""The credit of one channel: a thread that has used it up waits, without affecting others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from holdfast.errors import HoldfastError, InvalidArgument, NotPermitted, SessionNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve import answer_forms, key_rules
from holdfast.runtime.serve.call_threads import Parked
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.calls.call_table import CALLS, KEYED, Made, Typed
from holdfast.runtime.serve.channels import channel_messages as messages
from holdfast.runtime.serve.channels.channel_messages import MOST_CREDIT, OpenMessage
from holdfast.runtime.serve.event_format import Event
from holdfast.runtime.serve.event_streams import EventBridge, Lull
from holdfast.runtime.serve.key_rules import AllowedCall


class CreditGate:
    """A limited number of characters of messages can pass; the last message can exceed it."""

    def __init__(self, credit: int) -> None:
        self._changed = threading.Condition()
        self._credit = credit
        self._left = False

    def pass_on(self, size: int) -> bool:
        """Wait until there is credit, and use it; false if the channel was closed in the meantime."""
        with self._changed:
            while self._credit <= 0 and not self._left:
                self._changed.wait()
            self._credit -= size
            return not self._left

    def grant(self, size: int) -> None:
        """Give credit, up to the limit of a channel."""
        with self._changed:
            self._credit = min(self._credit + size, MOST_CREDIT)
            self._changed.notify_all()

    def leave(self) -> None:
        """Let the thread continue; its further output is dropped."""
        with self._changed:
            self._left = True
            self._changed.notify_all()


MOST_CHANNELS = 256
"""Concurrent channels of one connection."""
ROOM = 4 << 20
"""Bytes of all channels together that can wait to be sent."""
PIECE = 200
_FAILED = "cannot answer: the server failed"
logger = logging.getLogger("holdfast.serve")
LULL_SECONDS = 0.01
"""For a call to end before its first event is sent: a brief command's goes with the result."""


class ChannelConnection:
    """The channels of one client."""

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller
        self._outbox = EventBridge[str](ROOM)
        self._channels: dict[int, _Channel] = {}

    @property
    def count(self) -> int:
        """The number of open channels."""
        return len(self._channels)

    async def send_all(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send messages as they come, until the connection is left."""
        async for message in self._outbox.items():
            await send(message)

    async def hear(self, text: str) -> None:
        """Process a message of the client; faults are answered, once there is room for that."""
        await self._outbox.room()
        channel: int | None = None
        message: messages.Message | None = None
        try:
            message = messages.parse(text)
            channel = getattr(message, "channel", None) or getattr(message, "open", None)
            self._obey(message)
        except HoldfastError as error:
            if isinstance(message, OpenMessage):
                self._audit(message, 0.0, answer_forms.status_of(error))
            self._tell(channel, answer_forms.body_of(error))

    def leave(self) -> None:
        """Leave all channels; the followed work continues."""
        for channel in list(self._channels.values()):
            channel.leave()
        self._outbox.leave()
        self._outbox.end()

    def _obey(self, message: messages.Message) -> None:
        if isinstance(message, OpenMessage):
            self._open(message)
        elif isinstance(message, messages.CloseMessage):
            if (closed := self._channels.get(message.close)) is not None:
                closed.leave()
        elif (channel := self._channels.get(message.channel)) is None:
            return  # it has just ended
        elif isinstance(message, messages.CreditMessage):
            channel.gate.grant(message.credit)
        elif isinstance(message, messages.ResizeMessage):
            rows, cols = message.resize
            channel.terminal().resize(rows, cols)
        else:
            channel.terminal().type(messages.typed(message))

    def _open(self, message: OpenMessage) -> None:
        if message.open in self._channels:
            raise InvalidArgument(f"cannot open channel {message.open}: it is open")
        if len(self._channels) >= MOST_CHANNELS:
            raise InvalidArgument(f"cannot open more than {MOST_CHANNELS} channels", hint="close some")
        caller = self._caller
        allowed = key_rules.permit_call(caller.all, caller.access_key, message)
        channel = _Channel(_made(message), message.credit, caller.all.patience(message.patience), allowed)
        self._channels[message.open] = channel
        lull = self._outbox.lull(LULL_SECONDS)

        def work() -> str | Parked:
            told = self._answer(message, channel, lull)
            return told if isinstance(told, Parked) else messages.written(message.open, told)

        began = time.monotonic()

        def finish(told: str | Parked | None, error: BaseException | None) -> None:
            self._forget(message.open, lull)
            self._audit(message, time.monotonic() - began, channel.status)
            if not isinstance(told, str):
                logger.error("the call of a channel failed", exc_info=error)
                told = messages.written(message.open, answer_forms.body("internal_error", _FAILED))
            self._outbox.put_now(told, PIECE)

        try:
            self._caller.all.waiting.begin(work, finish)
        except HoldfastError:
            self._forget(message.open, lull)
            raise

    def _answer(self, message: OpenMessage, channel: _Channel, lull: Lull) -> dict[str, Any] | Parked:
        """Make a call, in its thread; return its result or its error.

        A call that waits without a thread returns its `Parked`, and is made again.
        """

        def emit(event: Event, size: int) -> None:
            text = messages.written(message.open, dict(event))
            # A client gives credit for what it has read. It must not have read less than is counted here.
            if channel.gate.pass_on(len(text)):
                self._outbox.put(text, size, lull)

        begun = False
        try:
            try:
                if channel.session is None:
                    channel.session = self._caller.session(channel.allowed.session)
                begun = True
                result = channel.call(channel.session, channel.patience, emit)
                return result if isinstance(result, Parked) else {"result": result}
            except SessionNotFound as error:
                places = self._caller.all.places
                away = None if places is None else places.error(channel.allowed.session, begun=begun)
                raise away or error from error
        except HoldfastError as error:
            channel.status = answer_forms.status_of(error)
            return answer_forms.body_of(error)

    def _audit(self, message: OpenMessage, seconds: float, status: int) -> None:
        self._caller.audit(f"channel {message.call}", message.session, seconds, status)

    def _forget(self, number: int, lull: Lull) -> None:
        """Forget a channel whose call is over, and end its initial lull."""
        self._outbox.end_lull(lull)
        self._caller.all.done(self._channels.pop(number).patience)

    def _tell(self, channel: int | None, told: dict[str, Any]) -> None:
        self._outbox.put_now(messages.written(channel, told), PIECE)


class _Channel:
    """One call, and the messages it accepts."""

    def __init__(self, call: Made, credit: int, patience: Patience, allowed: AllowedCall) -> None:
        self.call, self.patience, self.allowed = call, patience, allowed
        self.session: Session | None = None
        self.gate = CreditGate(credit)
        self.status = 200
        """Of a request that has the same answer."""

    def terminal(self) -> Typed:
        """Return the call as one into which can be typed.

        Raises:
            InvalidArgument: the channel is not a terminal's.
            NotPermitted: the caller's key only permits watching it.
        """
        if self.allowed.is_seen_only:
            raise NotPermitted("cannot type there: the key only permits watching the terminal")
        if not isinstance(self.call, Typed):
            raise InvalidArgument("cannot type there: the channel is not a terminal's")
        return self.call

    def leave(self) -> None:
        """Let the call return, and drop its further reports."""
        self.gate.leave()
        self.patience.end()


def _made(message: OpenMessage) -> Made:
    """Return the call that a message asks for.

    Raises:
        InvalidArgument: the call does not exist, or its arguments are not valid.
    """
    if message.call not in CALLS:
        raise InvalidArgument(f"cannot call {message.call}: there are {', '.join(CALLS)}")
    form, make = CALLS[message.call]
    if message.key is not None and message.call not in KEYED:
        raise InvalidArgument(f"cannot call {message.call} with a key: only {' and '.join(KEYED)} accept one")
    try:
        return make(form.model_validate(message.args), message.key)
    except ValidationError as error:
        raise InvalidArgument(f"cannot call {message.call}: {messages.wrong(error)}") from error

"""One request: its checked arguments, and how to answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.identity.actor import AGENT, Actor, Who, id_of
from holdfast.runtime.guest.layout import MAIN
from holdfast.runtime.guest.wire.connection import ClientConnection, RequestRefused
from holdfast.runtime.guest.wire.protocol import Frame

if TYPE_CHECKING:
    from holdfast.runtime.guest.guest import Guest

MAX_ID = 128
MAX_REASON = 2000
MAX_KEY = 200
MAX_REQUEST = 64
MAX_USER = 64


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A request of a client."""

    connection: ClientConnection
    frame: Frame

    async def send(self, event: str, payload: bytes = b"", /, **head: Any) -> None:
        """Send an event."""
        await self.connection.send({"event": event, **head}, payload)

    async def finish(self, event: str, payload: bytes = b"", /, **head: Any) -> None:
        """Send the last event."""
        await self.connection.send({"event": event, **head, "end": True}, payload)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an argument that is text."""
        value = self.frame.head.get(name, default)
        if not isinstance(value, str) or not value:
            raise RequestRefused("invalid", f"cannot do {self.frame.op}: {name} must be text")
        return value

    def id(self) -> str:
        """Return the id the client chose for an operation, or its key's."""
        if (key := self.key()) is not None:
            return id_of(key)
        value = self.text("id")
        if len(value) > MAX_ID:
            raise RequestRefused("invalid", f"cannot do {self.frame.op}: the id is longer than {MAX_ID}")
        return value

    def actor(self) -> Actor:
        """Return the actor; an agent if the request names none."""
        text = self.optional("actor", MAX_REASON)
        if text is None:
            return AGENT
        try:
            return Actor.parse(text)
        except ValueError as error:
            raise RequestRefused("invalid", f"cannot do {self.frame.op} as that actor: {error}") from None

    def who(self) -> Who:
        """Return the attribution of a request."""
        return Who(str(self.actor()), self.reason(), self.key(), self.optional("request", MAX_REQUEST))

    def reason(self) -> str | None:
        """Return the caller's reason."""
        return self.optional("reason", MAX_REASON)

    def key(self) -> str | None:
        """Return the idempotency key."""
        return self.optional("key", MAX_KEY)

    def optional(self, name: str, limit: int) -> str | None:
        """Return an argument that is a text of limited length, or absent."""
        value = self.frame.head.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not 0 < len(value) <= limit:
            raise RequestRefused(
                "invalid", f"cannot do {self.frame.op}: {name} must have 1 to {limit} characters"
            )
        return value

    def account(self, default: UserAccount, name: str = "user") -> UserAccount:
        """Return the user of the session that an argument names, or the default."""
        user = self.optional(name, MAX_USER)
        try:
            return default if user is None else UserAccount.of(user)
        except LookupError as error:
            raise RequestRefused("invalid", str(error)) from None

    def target(self, name: str) -> str:
        """Return the name of the shell or kernel that the request refers to."""
        return self.text(name, MAIN)

    def integer(self, name: str, default: int | None = None, *, low: int, high: int = 2**53) -> int:
        """Return an argument that is an integer."""
        value = self.frame.head.get(name)
        if value is None:
            value = default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise RequestRefused("invalid", f"cannot do {self.frame.op}: {name} must be from {low} to {high}")
        return value

    def seconds(self, name: str) -> float | None:
        """Return an argument that is a number of seconds or null."""
        value = self.frame.head.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise RequestRefused(
                "invalid", f"cannot do {self.frame.op}: {name} must be a number of seconds or null"
            )
        return float(value)


Handler = Callable[["Guest", ClientCall], Awaitable[None]]
Operations = Mapping[str, Handler]

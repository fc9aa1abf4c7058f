"""The actors of pages: tickets that are used once, and the keys that pages get for them.

A link has a ticket, since links end up in places: the history of a browser, a chat. It opens one page, once,
and soon. The key stays in the tab. It is derived from the server's token, so that a page outlives a restart
of the server and ends with the token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections import OrderedDict

from holdfast.runtime.serve.keyed_requests import PageVisitor

TICKET_SECONDS = 300.0
"""From the command that prints a link until a person follows it."""
KEY_SECONDS = 12 * 3600.0
MOST_TICKETS = 100
_PARTS = 6
_FIRST = "page"


class PageKeys:
    """The tickets and keys of one server.

    Args:
        token: the server's own; its holders can make tickets, and holders of access keys can.
    """

    def __init__(self, token: str) -> None:
        self._secret = hmac.new(token.encode(), b"holdfast page", hashlib.sha256).digest()
        self._tickets: OrderedDict[str, tuple[PageVisitor, float, float]] = OrderedDict()

    def ticket(self, visitor: PageVisitor, now: float, ends: float = 0.0) -> str:
        """Return a ticket for one page of a visitor; of many unused ones, the oldest ends.

        Args:
            visitor: whose page it opens.
            now: seconds since 1970.
            ends: when the visitor's access key does; 0 for never.
        """
        made = secrets.token_urlsafe(24)
        self._tickets[made] = (visitor, now + TICKET_SECONDS, ends)
        while len(self._tickets) > MOST_TICKETS:
            self._tickets.popitem(last=False)
        return made

    def exchanged(self, ticket: str, now: float) -> str | None:
        """Return the key for a ticket, which it uses up; None if it was used, is too old, or never was."""
        visitor, until, ends = self._tickets.pop(ticket, (PageVisitor(""), 0.0, 0.0))
        return self.key(visitor, now, ends) if now < until else None

    def key(self, visitor: PageVisitor, now: float, ends: float = 0.0) -> str:
        """Return a key for a page of a visitor, whose access key ends at that time, or never."""
        until = int(min(now + KEY_SECONDS, ends or now + KEY_SECONDS))
        # The characters of a token in HTTP: it is sent as a subprotocol of a WebSocket too.
        named = base64.urlsafe_b64encode(visitor.actor.encode()).decode().rstrip("=")
        signed = f"{_FIRST}.{until}.{named}.{visitor.key}.{secrets.token_hex(8)}"
        return f"{signed}.{self._mark(signed.encode()).decode()}"

    def visitor(self, key: bytes, now: float) -> PageVisitor | None:
        """Return the visitor with a key; None if this server did not make it, or it has ended."""
        parts = key.split(b".")
        if len(parts) != _PARTS or parts[0] != _FIRST.encode() or not parts[1].isdigit():
            return None
        signed, _, mark = key.rpartition(b".")
        if not hmac.compare_digest(mark, self._mark(signed)):
            return None
        try:
            return PageVisitor(_decoded(parts[2]), parts[3].decode()) if now < int(parts[1]) else None
        except (ValueError, binascii.Error):
            return None

    def _mark(self, signed: bytes) -> bytes:
        return hmac.new(self._secret, signed, hashlib.sha256).hexdigest().encode()


def _decoded(text: bytes) -> str:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)).decode()

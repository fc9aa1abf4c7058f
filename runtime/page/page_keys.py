"""The keys of pages, and the tickets for which pages get them.

A link has a ticket, since links end up in places: the history of a browser, a chat. It opens one page, once,
and soon. The key stays in the tab. It is derived from the server's token, so that a page outlives a restart
of the server and ends with the token. Both begin with the id of the access key that they stand for, or with
an id for the token of one home, so that a server of several homes knows whose doors they are for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict

from holdfast.runtime.serve.access_key_requests import PageVisitor

TICKET_SECONDS = 300.0
"""From the command that prints a link until a person follows it."""
KEY_SECONDS = 12 * 3600.0
MOST_TICKETS = 100
_KEY = re.compile(rb"hp_([0-9a-f]{12})_([0-9]{10})_([A-Za-z0-9_-]*)_([0-9a-f]{64})")


class PageKeys:
    """The tickets and keys of one server.

    Args:
        token: the server's own; its holders can make tickets, and holders of access keys can.
    """

    def __init__(self, token: str) -> None:
        self._secret = hmac.new(token.encode(), b"holdfast page", hashlib.sha256).digest()
        self.token_id = self._mark(b"id of the token").decode()[:12]
        """In place of the id of an access key: the token of this home."""
        self._tickets: OrderedDict[str, tuple[PageVisitor, float, float]] = OrderedDict()

    def ticket(self, visitor: PageVisitor, now: float, ends: float = 0.0) -> str:
        """Return a ticket for one page of a visitor; of many unused ones, the oldest ends.

        Args:
            visitor: whose page it opens.
            now: seconds since 1970.
            ends: when the visitor's access key does; 0 for never.
        """
        made = f"ht_{visitor.key or self.token_id}_{secrets.token_urlsafe(24)}"
        self._tickets[made] = (visitor, now + TICKET_SECONDS, ends)
        while len(self._tickets) > MOST_TICKETS:
            self._tickets.popitem(last=False)
        return made

    def exchanged(self, ticket: str, now: float) -> str | None:
        """Return the key for a ticket, which it uses up; None if it was used, is too old, or never was."""
        visitor, until, ends = self._tickets.pop(ticket, (PageVisitor(""), 0.0, 0.0))
        return self.key(visitor, now, ends) if now < until else None

    def key(
        self, visitor: PageVisitor, now: float, ends: float = 0.0, *, seconds: float = KEY_SECONDS
    ) -> str:
        """Return a key for a page of a visitor, for some seconds and no longer than their access key.

        Args:
            visitor: whose page it is.
            now: seconds since 1970.
            ends: when the visitor's access key does; 0 for never.
            seconds: from now.
        """
        until = int(min(now + seconds, ends or now + seconds))
        # The characters of a token in HTTP: it is sent as a subprotocol of a WebSocket too.
        named = base64.urlsafe_b64encode(visitor.actor.encode()).decode().rstrip("=")
        signed = f"hp_{visitor.key or self.token_id}_{until:010}_{named}"
        return f"{signed}_{self._mark(signed.encode()).decode()}"

    def visitor(self, key: bytes, now: float) -> PageVisitor | None:
        """Return the visitor with a key; None if this server did not make it, or it has ended."""
        parts = _KEY.fullmatch(key)
        if parts is None or now >= int(parts[2]):
            return None
        if not hmac.compare_digest(parts[4], self._mark(key[: parts.start(4) - 1])):
            return None
        id_ = parts[1].decode()
        try:
            return PageVisitor(_decoded(parts[3]), "" if id_ == self.token_id else id_)
        except (ValueError, binascii.Error):
            return None

    def _mark(self, signed: bytes) -> bytes:
        return hmac.new(self._secret, signed, hashlib.sha256).hexdigest().encode()


def _decoded(text: bytes) -> str:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)).decode()

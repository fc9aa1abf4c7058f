"""Shared links: each opens the page of one session for its holders, to watch or to type, until it ends.

A link is an access key of a kind of its own, which opens pages and nothing else; each page that it opens is
counted, and noted in the journal of the session. Knows no server.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.base.text import plain, seconds
from holdfast.errors import InvalidArgument
from holdfast.runtime.access.access_keys import LINK, AccessKey, AccessKeys
from holdfast.runtime.journal import host_events

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

WATCH, TYPE = "watch", "type"
SCOPES: Mapping[str, tuple[str, ...]] = {
    WATCH: ("sessions:read",),
    TYPE: ("sessions:read", "sessions:exec", "lease:take"),
}
"""The rights of a visitor, by the purpose of a link."""
SECONDS = 2 * 3600.0
MOST_SECONDS = 30 * 86400.0


def may(link: AccessKey) -> str:
    """Return the scopes of a visitor with a link."""
    return TYPE if link.scopes.issuperset(SCOPES[TYPE]) else WATCH


def share(
    context: Context, keys: AccessKeys, session: str, what: str = WATCH, lasting: float = SECONDS
) -> tuple[AccessKey, str]:
    """Make a link to a session, by its id; return it with its text, which is not kept.

    Raises:
        InvalidArgument: it would last too long.
        StoreError: the home cannot be written.
    """
    if not 1 <= lasting <= MOST_SECONDS:
        raise InvalidArgument(f"cannot share for {seconds(lasting)}: a link lasts from 1 s to 30 days")
    name = f"guest-{secrets.token_hex(3)}"
    made, text = keys.create(name, SCOPES[what], kind=LINK, session=session, seconds=lasting)
    host_events.note(context, session, "shared", link=name, may=what)
    return made, text


def links(keys: AccessKeys) -> list[AccessKey]:
    """Return all links, the oldest first.

    Raises:
        StoreError: they cannot be read.
    """
    return [each for each in keys.list() if each.kind == LINK]


def revoke(context: Context, keys: AccessKeys, name: str) -> AccessKey:
    """End a link: pages that it opened are cut within a second.

    Raises:
        InvalidArgument: there is not a valid link with that name.
        StoreError: the home cannot be written.
    """
    if not any(name in (each.name, each.id) and not each.revoked_at for each in links(keys)):
        raise InvalidArgument(
            f"cannot revoke '{plain(name, 40)}': there is not a link with that name", hint="`holdfast share`"
        )
    gone = keys.revoke(name)
    host_events.note(context, gone.session, "unshared", link=gone.name)
    return gone

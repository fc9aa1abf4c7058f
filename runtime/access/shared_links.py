"""Shared links: each opens the page of one session for its holders, to watch or to type, until it ends.

A link is an access key of a kind of its own, which opens pages and nothing else; each page that it opens is
counted, and noted in the journal of the session. Knows no server.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain, seconds
from holdfast.base.value_classes import asdict, dataclass
from holdfast.errors import InvalidArgument
from holdfast.runtime.access.access_keys import LINK, AccessKey, AccessKeys
from holdfast.runtime.journal import host_events

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

WATCH, TYPE = "watch", "type"
SCOPES: Mapping[str, tuple[str, ...]] = {
    WATCH: ("sessions:read",),
    TYPE: ("sessions:read", "sessions:exec", "lease:take"),
}
"""The rights of a visitor, by the purpose of a link."""
SECONDS = 2 * 3600.0
MOST_SECONDS = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class SharedLink:
    """A link by which others see a session in their browser.

    Attributes:
        name: its name, by which it is revoked, and its visitors are shown.
        session: the id of the session.
        may: the right of its holders, `watch` or `type`.
        state: `valid`, `expired` or `revoked`.
        expires_at: when it ends, in seconds since 1970.
        visits: how many pages it has opened.
        url: the link itself, known when it is made; empty afterwards.
    """

    name: str
    session: str
    may: str
    state: str
    expires_at: float
    visits: int = 0
    url: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the link in its JSON form."""
        return asdict(self)


def may(link: AccessKey) -> str:
    """Return the scopes of a visitor with a link."""
    return TYPE if link.scopes.issuperset(SCOPES[TYPE]) else WATCH


def share(
    context: Context,
    keys: AccessKeys,
    row: SessionRow,
    server: str,
    *,
    typing: bool = False,
    lasting: float = SECONDS,
) -> SharedLink:
    """Make a link to a session at a server, by the URL of which browsers reach it.

    Raises:
        InvalidArgument: it would last too long.
        StoreError: the home cannot be written.
    """
    if not 1 <= lasting <= MOST_SECONDS:
        raise InvalidArgument(f"cannot share for {seconds(lasting)}: a link lasts from 1 s to 30 days")
    name, what = f"guest-{secrets.token_hex(3)}", TYPE if typing else WATCH
    made, text = keys.create(name, SCOPES[what], kind=LINK, session=row.id, seconds=lasting)
    host_events.note(context, row.id, "shared", link=name, may=what)
    return _told(made, f"{server}/#ticket={text}&session={row.name}")


def links(keys: AccessKeys, session: str | None = None) -> list[SharedLink]:
    """Return all links, or the links to a session by its id, the oldest first.

    Raises:
        StoreError: they cannot be read.
    """
    return [_told(each) for each in keys.list() if each.kind == LINK and session in (None, each.session)]


def revoke(context: Context, keys: AccessKeys, name: str, session: str | None = None) -> SharedLink:
    """End a link, of any session or of one: pages that it opened are cut within a second.

    Raises:
        InvalidArgument: there is not a valid link with that name.
        StoreError: the home cannot be written.
    """
    if not any(each.name == name and each.state != "revoked" for each in links(keys, session)):
        raise InvalidArgument(
            f"cannot revoke '{plain(name, 40)}': there is not a link with that name", hint="`holdfast share`"
        )
    gone = keys.revoke(name)
    host_events.note(context, gone.session, "unshared", link=gone.name)
    return _told(gone)


def _told(link: AccessKey, url: str = "") -> SharedLink:
    return SharedLink(
        link.name, link.session, may(link), link.state(time.time()), link.expires_at, link.visits, url
    )

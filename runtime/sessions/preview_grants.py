"""Grants of ports of a session: to the holders of links, and to everyone while a port is public.

A grant is kept with the session, with a key for the links of one port. So a link is worth nothing for another
port or session, copies of the session have none, and to forget the key revokes all links of that port. Knows
neither servers nor requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument, SessionNotFound

if TYPE_CHECKING:
    from holdfast.runtime.store.row_details import SessionDetails
    from holdfast.runtime.store.store import Store

PARAMETER = "_holdfast"
"""Of an address: the token of its link."""
DETAIL = "previews"
"""Its key among the details of a session."""
MOST = 64
"""Ports of a session that can be granted together."""
SECONDS = 8 * 3600.0
"""How long a link opens its port unless it says otherwise: a day of work."""
LONGEST = 30 * 86400.0
RESERVED = frozenset({49983, 49999})
"""Ports at which a server itself answers, by the name of a port, for clients of E2B."""
_TOKEN = re.compile(rb"([0-9]{1,12})\.([A-Za-z0-9_-]{43})")
_LABEL = 63
"""The longest part of a name: RFC 1035, section 2.3.4."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The grant of a port. Times are in seconds since 1970; 0 means never."""

    key: str
    links_until: float = 0.0
    public_until: float = 0.0

    def ends_at(self) -> float:
        """Return when the last part of it expires."""
        return max(self.links_until, self.public_until)

    def is_public(self, now: float) -> bool:
        """Return whether everyone can see the port."""
        return now < self.public_until

    def token(self, stamp: str, session: str, port: int, ends_at: int) -> str:
        """Return the token of a link that ends at a time."""
        said = f"{stamp}:{session}:{port}:{ends_at}".encode()
        digest = hmac.new(bytes.fromhex(self.key), said, hashlib.sha256).digest()
        return f"{ends_at}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    def admits(self, given: bytes, stamp: str, session: str, port: int, now: float) -> bool:
        """Return whether a token opens this port now."""
        found = _TOKEN.fullmatch(given)
        if found is None or not now < int(found[1]):
            return False
        expected = self.token(stamp, session, port, int(found[1]))
        return hmac.compare_digest(given, expected.encode())


def of(details: SessionDetails, port: int) -> Grant | None:
    """Return the grant of a port of a session with these details."""
    return _read(details.get(DETAIL)).get(str(port))


def grant(store: Store, session: str, port: int, *, seconds: float, public: bool, now: float) -> Grant:
    """Let holders of links see a port for some time, or everyone, and return all that is granted for it.

    Raises:
        InvalidArgument: the port or the time is out of range, or too many ports are granted.
        SessionNotFound: the session was removed.
    """
    _check_port(port)
    if not 1 <= seconds <= LONGEST:
        raise InvalidArgument(
            f"cannot preview port {port} for {seconds:.0f} s: a link lasts from 1 s to 30 days",
            hint="make a new link later",
        )
    made: list[Grant] = []

    def changed(detail: Any) -> Any:
        there = {name: each for name, each in _read(detail).items() if each.ends_at() > now}
        known = there.pop(str(port), None) or Grant(secrets.token_hex(32))
        if len(there) >= MOST:
            raise InvalidArgument(
                f"cannot preview port {port}: {MOST} ports of the session have links already",
                hint="`holdfast preview SESSION PORT --revoke` ends the links of one port",
            )
        until = now + seconds
        made[:] = [
            replace(known, public_until=max(known.public_until, until))
            if public
            else replace(known, links_until=max(known.links_until, until))
        ]
        return {name: asdict(each) for name, each in (there | {str(port): made[0]}).items()}

    store.change_detail(session, DETAIL, changed)
    if not made:
        raise SessionNotFound(f"cannot preview port {port}: session {session} was removed")
    return made[0]


def revoke(store: Store, session: str, port: int) -> None:
    """End all links of a port, and make it private; a port without any stays unchanged.

    Raises:
        InvalidArgument: the port is out of range.
    """
    _check_port(port)

    def changed(detail: Any) -> Any:
        there = _read(detail)
        return {name: asdict(each) for name, each in there.items() if name != str(port)}

    store.change_detail(session, DETAIL, changed)


def arriving(given: object, now: float) -> dict[str, dict[str, Any]]:
    """Return the valid grants that a session brings from another machine, in the form of a detail.

    The source is trusted with sessions of its own, so none lasts longer than it could have been given here.
    """
    found = {}
    for name, each in list(_read(given).items())[:MOST]:
        links, public = (min(until, now + LONGEST) for until in (each.links_until, each.public_until))
        if re.fullmatch("[1-9][0-9]{0,4}", name) and int(name) < 65536 and max(links, public) > now:
            found[name] = asdict(Grant(each.key, links, public))
    return found


def host_label(port: int, name: str, session: str) -> str:
    """Return the first part of the name of a port: `3000-work-6bd7a1f3c10e`.

    The session's name is for people. The id makes it a place of its own in a browser: service workers and
    storage of a session must not meet a later session of the same name.
    """
    room = _LABEL - len(f"{port}--{session}")
    shown = re.sub(r"[^a-z0-9]+", "-", name.lower())[:room].strip("-")
    return f"{port}-{shown}-{session}" if shown else f"{port}-{session}"


def _check_port(port: int) -> None:
    if not 0 < port < 65536:
        raise InvalidArgument(f"cannot preview port {port}: ports range from 1 to 65535")
    if port in RESERVED:
        raise InvalidArgument(
            f"cannot preview port {port}: `holdfast serve` itself answers there, for clients of E2B",
            hint="let the program listen at another port",
        )


def _read(detail: Any) -> dict[str, Grant]:
    """Return the valid grants in a detail."""
    found = {}
    for name, each in detail.items() if isinstance(detail, Mapping) else ():
        if isinstance(each, Mapping) and re.fullmatch(r"[0-9a-f]{64}", str(each.get("key"))):
            times = (each.get("links_until"), each.get("public_until"))
            links, public = (float(at) if isinstance(at, int | float) else 0.0 for at in times)
            found[str(name)] = Grant(str(each["key"]), links, public)
    return found

"""Tickets open one page, once and soon; keys act for one actor, for a while, until the token changes."""

from __future__ import annotations

import re

from holdfast.runtime.page.page_keys import KEY_SECONDS, MOST_TICKETS, TICKET_SECONDS, PageKeys
from holdfast.runtime.serve.access_key_requests import PageVisitor

TOKEN = "the-token-of-this-server"
NOW = 1_800_000_000.0


def key(keys: PageKeys, actor: str = "person:ann") -> str:
    """Return the key of a page that was opened now."""
    made = keys.exchanged(keys.ticket(PageVisitor(actor), NOW), NOW)
    assert made is not None
    return made


def test_a_ticket_is_exchanged_once_for_a_key_of_its_actor() -> None:
    keys = PageKeys(TOKEN)
    ticket = keys.ticket(PageVisitor("person:ann"), NOW)
    made = keys.exchanged(ticket, NOW + 1)
    assert made is not None
    assert keys.visitor(made.encode(), NOW + 1) == PageVisitor("person:ann")
    assert keys.exchanged(ticket, NOW + 2) is None


def test_a_ticket_ends_after_minutes_and_an_unknown_one_opens_nothing() -> None:
    keys = PageKeys(TOKEN)
    assert keys.exchanged(keys.ticket(PageVisitor("person"), NOW), NOW + TICKET_SECONDS) is None
    assert keys.exchanged("", NOW) is None
    assert keys.exchanged(TOKEN, NOW) is None


def test_only_so_many_tickets_wait() -> None:
    """A holder of the token who makes them endlessly takes no memory."""
    keys = PageKeys(TOKEN)
    made = [keys.ticket(PageVisitor("person"), NOW) for _ in range(MOST_TICKETS + 1)]
    assert keys.exchanged(made[0], NOW) is None
    assert keys.exchanged(made[1], NOW) is not None


def test_a_key_outlives_the_server_and_ends_with_its_time_or_with_the_token() -> None:
    made = key(PageKeys(TOKEN)).encode()
    assert PageKeys(TOKEN).visitor(made, NOW) == PageVisitor("person:ann")
    assert PageKeys(TOKEN).visitor(made, NOW + KEY_SECONDS) is None
    assert PageKeys("another-token-of-it").visitor(made, NOW) is None


def test_an_altered_key_is_refused() -> None:
    """Each of its parts: the end, the actor, the mark; and whatever else is sent as a key."""
    keys = PageKeys(TOKEN)
    made, other = key(keys), key(keys, "person:bob")
    parts, others = made.split("_"), other.split("_")
    later = [*parts[:2], str(int(parts[2]) + 1), *parts[3:]]
    renamed = [*parts[:3], others[3], *parts[4:]]
    stronger = [parts[0], "a" * 12, *parts[2:]]
    forged = ["hp", keys.token_id, "1900000000", "", ""]
    for changed in (later, renamed, stronger, parts[:-1], [*parts, ""], [*parts[:-1], others[-1]], forged):
        assert keys.visitor("_".join(changed).encode(), NOW) is None
    for odd in (b"", b"____", TOKEN.encode(), b"hp_0123456789ab_190000000\xb2_x_y", b"\xff" * 100):
        assert keys.visitor(odd, NOW) is None


def test_a_key_can_be_a_subprotocol() -> None:
    """Pages of browsers have no other way to send it with a WebSocket: token of RFC 9110, 5.6.2."""
    assert re.fullmatch(r"[A-Za-z0-9._-]+", key(PageKeys(TOKEN), "person:ann/ü?"))


def test_a_key_by_an_access_key_names_it_and_ends_with_it() -> None:
    """Its permissions are then looked up by that id, at each request."""
    keys, visitor = PageKeys(TOKEN), PageVisitor("person:ada", "0123456789ab")
    made = keys.exchanged(keys.ticket(visitor, NOW, NOW + 60), NOW)
    assert made is not None
    assert keys.visitor(made.encode(), NOW + 59) == visitor
    assert keys.visitor(made.encode(), NOW + 60) is None
    assert keys.visitor(keys.key(visitor, NOW, seconds=30).encode(), NOW + 30) is None
    without = made.replace("0123456789ab", keys.token_id)
    assert keys.visitor(without.encode(), NOW) is None

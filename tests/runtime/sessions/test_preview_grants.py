"""Grants of previews: the ports their tokens open, their duration, and their end."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.runtime.sessions import preview_grants
from holdfast.runtime.sessions.preview_grants import Grant
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.store import Store

KEY, ONE, TWO = "0f" * 32, "a" * 12, "b" * 12
GRANT = Grant(KEY, links_until=200.0)


def test_a_token_opens_its_port_until_it_ends() -> None:
    token = GRANT.token("stamp", ONE, 3000, 150).encode()
    assert GRANT.admits(token, "stamp", ONE, 3000, 149.9)
    for given, stamp, session, port, now in (
        (token, "stamp", ONE, 3000, 150.0),
        (token, "stamp", ONE, 3001, 100.0),
        (token, "stamp", TWO, 3000, 100.0),
        (token, "other", ONE, 3000, 100.0),
        (token.replace(b"150.", b"190."), "stamp", ONE, 3000, 100.0),
        (token[:-1], "stamp", ONE, 3000, 100.0),
        (token + b"\n", "stamp", ONE, 3000, 100.0),
        ("١٥٠.".encode() + token[4:], "stamp", ONE, 3000, 100.0),
        (b"", "stamp", ONE, 3000, 100.0),
    ):
        assert not GRANT.admits(given, stamp, session, port, now), given
    assert not Grant("1f" * 32).admits(token, "stamp", ONE, 3000, 100.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    home = Home(tmp_path).create()
    found = Store.open(home.database)
    found.add_session("work", "image", {}, session_id=ONE, state="running")
    return found


def details(store: Store) -> SessionDetails:
    return store.session(ONE).details


def test_links_and_everyone_are_granted_separately(store: Store) -> None:
    """A later link takes nothing back, and to be public is never by the way."""
    first = preview_grants.grant(store, ONE, 3000, seconds=100, public=False, now=0)
    assert not first.is_public(1)
    public = preview_grants.grant(store, ONE, 3000, seconds=50, public=True, now=0)
    assert (public.key, public.is_public(49), public.is_public(50)) == (first.key, True, False)
    again = preview_grants.grant(store, ONE, 3000, seconds=10, public=False, now=0)
    assert again == public == preview_grants.of(details(store), 3000)
    assert preview_grants.of(details(store), 3001) is None


def test_a_revoked_port_gets_another_key(store: Store) -> None:
    first = preview_grants.grant(store, ONE, 3000, seconds=100, public=True, now=0)
    other = preview_grants.grant(store, ONE, 3001, seconds=100, public=False, now=0)
    preview_grants.revoke(store, ONE, 3000)
    preview_grants.revoke(store, ONE, 3000)
    assert preview_grants.of(details(store), 3000) is None
    assert preview_grants.of(details(store), 3001) == other
    again = preview_grants.grant(store, ONE, 3000, seconds=100, public=False, now=0)
    assert again.key != first.key
    assert not again.is_public(1)


def test_ports_that_were_granted_are_few_and_forgotten_when_over(store: Store) -> None:
    for port in range(1, preview_grants.MOST + 1):
        preview_grants.grant(store, ONE, port, seconds=100, public=False, now=0)
    with pytest.raises(InvalidArgument, match="64 ports of the session have links"):
        preview_grants.grant(store, ONE, 100, seconds=100, public=False, now=50)
    preview_grants.grant(store, ONE, 100, seconds=100, public=False, now=101)
    assert list(details(store)[preview_grants.DETAIL]) == ["100"]


@pytest.mark.parametrize(
    ("port", "seconds", "said"),
    [
        (0, 10.0, "ports range from 1 to 65535"),
        (65536, 10.0, "ports range from 1 to 65535"),
        (49983, 10.0, "`holdfast serve` itself answers there"),
        (3000, 0.0, "a link lasts from 1 s to 30 days"),
        (3000, 31 * 86400.0, "a link lasts from 1 s to 30 days"),
        (3000, float("nan"), "a link lasts from 1 s to 30 days"),
    ],
)
def test_unavailable_scopes_are_refused(store: Store, port: int, seconds: float, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        preview_grants.grant(store, ONE, port, seconds=seconds, public=False, now=0)
    assert preview_grants.DETAIL not in details(store)


def test_a_removed_session_has_no_recording(store: Store) -> None:
    with pytest.raises(SessionNotFound):
        preview_grants.grant(store, TWO, 3000, seconds=10, public=False, now=0)


@pytest.mark.parametrize(
    "kept", [None, [], "x", {"3000": None}, {"3000": {"key": "x"}}, {"3000": {"key": ["0" * 64]}}]
)
def test_invalid_grants_grant_nothing(kept: Any) -> None:
    assert preview_grants.of(SessionDetails({preview_grants.DETAIL: kept}), 3000) is None


def test_a_grant_is_read_as_it_was_kept() -> None:
    assert preview_grants.of(SessionDetails({"previews": {"3000": asdict(GRANT)}}), 3000) == GRANT


def test_the_name_of_a_port_is_one_of_its_session_alone() -> None:
    """It is a part of a name of DNS whatever people call the session, and has the id at its end."""
    for name, label in (
        ("work", f"3000-work-{ONE}"),
        ("My_App.v2", f"3000-my-app-v2-{ONE}"),
        ("a" * 63, f"3000-{'a' * 45}-{ONE}"),
        ("a-" * 31, f"3000-{('a-' * 31)[:45]}-{ONE}"),
    ):
        found = preview_grants.host_label(3000, name, ONE)
        assert found == label
        assert len(found) <= 63

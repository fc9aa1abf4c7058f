"""Subscriptions in the file of a home."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.notices.subscriptions import MOST_OF_ACTOR, Subscriptions


def test_subscriptions_outlive_their_process_and_are_their_actors_own(tmp_path: Path) -> None:
    """The file is its owner's; an actor neither finds nor counts others' subscriptions."""
    first = Subscriptions(Home(tmp_path))
    made = first.add("person:ann", "token x", "webhook", "https://a.example/", "whsec_QQ==", kinds=("died",))
    first.close()
    again = Subscriptions(Home(tmp_path))
    assert again.list() == [made]
    assert again.list("person:bob") == []
    assert (tmp_path / "notices.db").stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidArgument, match="cannot find"):
        again.find(made.id, "person:bob")
    again.remove(again.find(made.id, "person:ann").id)
    assert again.list() == []


def test_a_browser_has_one_and_an_actor_some(tmp_path: Path) -> None:
    """A browser that subscribes again replaces its own; too many are refused."""
    kept = Subscriptions(Home(tmp_path))
    for _ in range(2):
        kept.add("person:ann", "token", "push", "https://push.example/1", "{}")
    assert len(kept.list()) == 1
    for number in range(MOST_OF_ACTOR - 1):
        kept.add("person:ann", "token", "webhook", f"https://a.example/{number}", "whsec_")
    with pytest.raises(InvalidArgument, match="at most"):
        kept.add("person:ann", "token", "webhook", "https://a.example/more", "whsec_")
    kept.add("person:bob", "token", "webhook", "https://a.example/more", "whsec_")


def test_the_key_for_push_services_is_made_once(tmp_path: Path) -> None:
    """Browsers would have to subscribe again to a new one."""
    first, second = Subscriptions(Home(tmp_path)), Subscriptions(Home(tmp_path))
    assert first.signer().public == second.signer().public
    assert (tmp_path / "notices.key").stat().st_mode & 0o077 == 0

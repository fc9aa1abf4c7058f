"""The records of a sandbox, and the effects of requests on its life."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.e2b import sandbox_lives
from holdfast.runtime.e2b.sandbox_lives import (
    DETAIL,
    MAKING_SECONDS,
    WOKEN_SECONDS,
    SandboxFacts,
    being_made,
    woken,
)
from holdfast.runtime.e2b.sandbox_making import copied, copied_life
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.store import Store


def test_a_request_gives_a_paused_sandbox_its_timeout_or_more() -> None:
    paused = Lifetime().given(7200, 1000).suspended()
    assert not paused.due("suspended", 1e12)
    assert woken(paused, 5000).ends_at == 5000 + 7200
    assert woken(Lifetime().given(1, 1000).suspended(), 5000).ends_at == 5000 + WOKEN_SECONDS


def test_a_copy_has_an_end_of_its_own_and_no_key() -> None:
    parent = SandboxFacts(metadata={"a": "b"}, env={"C": "d"}, key="k", asked="a")
    copy = copied(parent)
    assert (copy.key, copy.asked, copy.metadata, copy.env) == (None, None, {"a": "b"}, {"C": "d"})
    life = copied_life(Lifetime(ended=True, wakes=False).given(600, 1000), 15, 2000)
    assert life == Lifetime(life=15, wakes=False)


def test_a_copy_without_a_timeout_lives_as_long_as_its_parent() -> None:
    """The rest of the parent's life; its whole timeout where the parent has no end."""
    parent = Lifetime().given(600, 1000)
    assert copied_life(parent, None, 1150).life == 450
    assert copied_life(parent, None, 9999).life == 0
    assert copied_life(parent.suspended(), None, 1150).life == 600
    assert copied_life(Lifetime(), None, 1150).life == 300


def test_a_life_begins_when_the_sandbox_is_handed_over() -> None:
    """However long it takes to make, it is not ended in the meantime; a sandbox that its server leaves
    unfinished is, later."""
    made = being_made(Lifetime(life=15, then="remove"), 1000)
    assert not made.due("running", 1000 + 15 + MAKING_SECONDS - 1)
    assert made.due("running", 1000 + 15 + MAKING_SECONDS)
    assert made.given(made.life, 1400).ends_at == 1415


def test_facts_and_lives_are_changed_in_the_store_and_other_sessions_get_none_here(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "db")
    for session_id in ("a" * 12, "b" * 12):
        store.add_session(f"s-{session_id[0]}", "image", {}, session_id=session_id)
    store.keep_details("a" * 12, sandbox=SandboxFacts().model_dump())

    def opened(facts: SandboxFacts) -> SandboxFacts:
        return facts.model_copy(update={"public_ports": True})

    changed = sandbox_lives.change_facts(store, "a" * 12, opened)
    assert changed is not None
    assert changed.public_ports
    assert SandboxFacts.of(store.session("a" * 12)) == changed
    life = sandbox_lives.change_life(store, "a" * 12, lambda kept: kept.given(5, 100))
    assert life is not None
    assert life.ends_at == 105
    for other in ("b" * 12, "c" * 12):
        assert sandbox_lives.change_facts(store, other, opened) is None
        assert sandbox_lives.change_life(store, other, lambda kept: kept.given(5, 100)) is None
    assert not {DETAIL, "lifetime"} & store.session("b" * 12).details.keys()


def test_details_of_an_unexpected_form_are_not_facts() -> None:
    for detail in (None, 3, "x", {"metadata": [1]}, {"env": {"A": 1}}):
        assert SandboxFacts.kept(detail) is None


def test_the_life_of_a_sandbox_of_an_earlier_version_is_known(tmp_path: Path) -> None:
    """Until it is changed it is where that version kept it; a change of its facts leaves it there."""
    store = Store.open(tmp_path / "db")
    store.add_session("old", "image", {}, session_id="a" * 12)
    earlier = {"template": "base", "ends_at": 500.0, "at_end": "pause", "seconds": 60.0, "auto_resume": True}
    store.keep_details("a" * 12, sandbox={**earlier, "keeps_memory": False, "ended": False})
    expected = Lifetime(life=60, then="suspend", ends_at=500, keeps_memory=False, wakes=True)
    assert Lifetime.of(store.session("a" * 12).details) == expected
    sandbox_lives.change_facts(store, "a" * 12, lambda facts: facts.model_copy(update={"home": "/x"}))
    assert Lifetime.of(store.session("a" * 12).details) == expected
    sandbox_lives.change_life(store, "a" * 12, lambda kept: kept.given(90, 1000))
    assert Lifetime.of(store.session("a" * 12).details).ends_at == 1090
    killed = {"seconds": 60.0, "ended": True, "at_end": "kill"}
    assert Lifetime.kept(None, killed) == Lifetime(life=60, then="remove", wakes=False, ended=True)

"""What is kept of a sandbox, and when its time is over."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.e2b import sandbox_facts
from holdfast.runtime.e2b.control.sandbox_making import copied
from holdfast.runtime.e2b.sandbox_facts import DETAIL, MAKING_SECONDS, WOKEN_SECONDS, SandboxFacts
from holdfast.runtime.store.store import Store


def test_an_end_is_moved_and_by_who_connects_only_to_later() -> None:
    facts = SandboxFacts().given(60, 1000)
    assert (facts.ends_at, facts.due(1059), facts.due(1060)) == (1060, False, True)
    assert facts.given(10, 1000).ends_at == 1010
    assert facts.given(10, 1000, longer=True).ends_at == 1060
    assert facts.given(90, 1000, longer=True).ends_at == 1090


def test_the_time_of_a_paused_sandbox_stands_still_and_a_request_gives_it_some() -> None:
    paused = SandboxFacts().given(7200, 1000).paused()
    assert not paused.due(1e12)
    assert paused.woken(5000).ends_at == 5000 + 7200
    assert SandboxFacts().given(1, 1000).paused().woken(5000).ends_at == 5000 + WOKEN_SECONDS


def test_a_copy_has_an_end_of_its_own_and_no_key() -> None:
    parent = SandboxFacts(metadata={"a": "b"}, env={"C": "d"}, key="k", asked="a", ended=True).given(
        600, 1000
    )
    copy = copied(parent, 15, 2000)
    assert (copy.seconds, copy.ends_at, copy.key, copy.asked, copy.ended) == (15, None, None, None, False)
    assert (copy.metadata, copy.env) == ({"a": "b"}, {"C": "d"})


def test_a_copy_without_a_timeout_lives_as_long_as_its_parent() -> None:
    """What is left of the parent's life; its whole timeout where the parent has no end."""
    parent = SandboxFacts().given(600, 1000)
    assert copied(parent, None, 1150).seconds == 450
    assert copied(parent, None, 9999).seconds == 0
    assert copied(parent.paused(), None, 1150).seconds == 600


def test_a_life_begins_when_the_sandbox_is_handed_over() -> None:
    """However long it is made, it is not ended meanwhile; what its server leaves unfinished is, later."""
    made = SandboxFacts(seconds=15).being_made(1000)
    assert not made.due(1000 + 15 + MAKING_SECONDS - 1)
    assert made.due(1000 + 15 + MAKING_SECONDS)
    assert made.given(made.seconds, 1400).ends_at == 1415


def test_facts_are_changed_in_the_store_and_other_sessions_never_get_any(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "db")
    for session_id in ("a" * 12, "b" * 12):
        store.add_session(f"s-{session_id[0]}", "image", {}, session_id=session_id)
    store.keep_details("a" * 12, sandbox=SandboxFacts().model_dump())
    changed = sandbox_facts.change(store, "a" * 12, lambda facts: facts.given(5, 100))
    assert changed is not None
    assert SandboxFacts.of(store.session("a" * 12)) == changed
    assert sandbox_facts.change(store, "b" * 12, lambda facts: facts.given(5, 100)) is None
    assert DETAIL not in store.session("b" * 12).details
    assert sandbox_facts.change(store, "c" * 12, lambda facts: facts.given(5, 100)) is None


def test_details_of_another_form_are_no_facts(tmp_path: Path) -> None:
    for detail in (None, 3, "x", {"ends_at": "soon"}, {"metadata": [1]}, {"at_end": "explode"}):
        assert SandboxFacts.kept(detail) is None

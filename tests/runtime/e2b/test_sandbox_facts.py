"""What is kept of a sandbox, and when its time is over."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.e2b import sandbox_facts
from holdfast.runtime.e2b.control.sandbox_making import copied
from holdfast.runtime.e2b.sandbox_facts import DETAIL, WOKEN_SECONDS, SandboxFacts
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
    assert (copy.ends_at, copy.key, copy.asked, copy.ended) == (2015, None, None, False)
    assert (copy.metadata, copy.env) == ({"a": "b"}, {"C": "d"})


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

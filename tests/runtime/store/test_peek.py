"""The store is read where it is, whatever the folder is called."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.runtime.store import peek
from holdfast.runtime.store.store import Store


@pytest.mark.parametrize("name", ["a b", "50%", "x?mode=rw#y", "Ünï", "100%25", "a&b=c"])
def test_any_name_of_a_folder_is_read(tmp_path: Path, name: str) -> None:
    """The database is named by an address, in which some characters have a meaning."""
    home = Home.at(tmp_path / name).create()
    made = Store.open(home.database).add_session("work", "image", {})

    assert peek.session(home.below("holdfast.db"), "work") == made
    assert peek.session(home.database, "work") == made
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("ref", ["abc", "0123", "é", "\udcff", "", "z\x00"])
def test_a_session_is_found_by_indexes(tmp_path: Path, ref: str) -> None:
    """However many there are: no query reads all of them."""
    home = Home.at(tmp_path / "home").create()
    Store.open(home.database).add_session("work", "image", {})

    with closing(peek.opened(home.database)) as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN {peek.MATCHES}", peek.bounds(ref)).fetchall()

    assert [step for *_, step in plan if step.startswith("SCAN")] == []
    assert sum("INDEX" in step for *_, step in plan) >= 3


def test_references_mean_the_same_by_either_way(tmp_path: Path) -> None:
    """An exact id, a name, a prefix of one id, and none of a removed session's."""
    home = Home.at(tmp_path / "home").create()
    store = Store.open(home.database)
    first = store.add_session("abc1", "image", {}, session_id="abc111111111")
    second = store.add_session("other", "image", {}, session_id="abc222222222")
    gone = store.add_session("gone", "image", {}, session_id="def333333333")
    store.update_session(gone.id, state="removed")
    again = store.add_session("gone", "image", {}, session_id="fff333333333")
    means = {
        "abc111111111": first,
        "abc1": first,  # a name, and the beginning of an id
        "abc2": second,
        "other": second,
        "gone": again,
        "f": again,
    }

    for ref, meant in means.items():
        assert peek.session(home.database, ref) == store.session(ref) == meant
    for ref in ("abc", "def", "", "é", "\udcff", "a\x00"):
        with pytest.raises((SessionNotFound, InvalidArgument)):
            peek.session(home.database, ref)
        with pytest.raises((SessionNotFound, InvalidArgument)):
            store.session(ref)
    assert store.session_named("other") == second
    assert store.session_named("abc") is None
    assert store.session_named("gone") == again

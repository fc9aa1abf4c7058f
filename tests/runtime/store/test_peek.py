"""The store is read where it is, whatever the folder is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base.home import Home
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

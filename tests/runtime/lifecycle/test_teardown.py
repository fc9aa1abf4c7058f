"""Which container is removed with a session whose own is not known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.runtime.lifecycle import teardown
from holdfast.runtime.operations.context import Context


class _Engine:
    """An engine with one container, which bears the name of the session's."""

    def __init__(self, home: str) -> None:
        self._home = home
        self.removed: list[str] = []

    def inspect(self, name: str) -> Any:
        found = SimpleNamespace(id="there", labels={"holdfast.home": self._home})
        return found if name == "holdfast-0123456789ab" else None

    def kill_remove(self, container: str) -> bool:
        self.removed.append(container)
        return True


@pytest.mark.parametrize(
    ("known", "ours", "removed"),
    [(None, True, ["there"]), (None, False, []), ("known", False, ["known"])],
)
def test_the_session_itself_in_another_home_is_left(
    tmp_path: Path, known: str | None, ours: bool, removed: list[str]
) -> None:
    """It has moved to a home of the same engine, with its id; its container has the name that ours had."""
    home = Home(tmp_path).create()
    engine = _Engine(home.digest if ours else "another")
    context = cast("Context", SimpleNamespace(engine=engine, home=home))
    teardown._end_container(context, "0123456789ab", known)
    assert engine.removed == removed

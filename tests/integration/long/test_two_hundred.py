"""Two hundred copies of a session under every kind of write, each restored and asked: none may be torn."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.runtime.controller import Holdfast

pytestmark = pytest.mark.engine

COPIES = int(os.environ.get("HOLDFAST_TEST_COPIES", "200"))


def test_two_hundred_copies_are_not_torn(hf: Holdfast, witnesses: Any, tell: Callable[[str], None]) -> None:
    """Each copy is restored and its programs compare all they have, twice at least; so does the parent."""
    session = hf.new("torn")
    witnesses.start(hf, session)
    torn: dict[int, dict[str, str]] = {}
    frozen: list[float] = []
    for number in range(COPIES):
        snapshot = session.snapshot()
        frozen.append(snapshot.row.details["frozen_seconds"])
        copy = snapshot.restore(f"copy-{number}")
        said = witnesses.ask(copy)
        if wrong := {kind: each["first"] for kind, each in said.items() if each["wrong"]}:
            torn[number] = wrong
        copy.remove()
        snapshot.remove()
        if number % 20 == 19:
            tell(f"{number + 1} of {COPIES}, {len(torn)} torn")
    said = witnesses.ask(session)
    tell(
        f"{COPIES} copies restored, {len(torn)} torn; frozen {statistics.median(frozen) * 1000:.0f} ms "
        f"(median), {max(frozen) * 1000:.0f} ms at most; comparisons in the parent: "
        + ", ".join(f"{kind} {each['rounds']}" for kind, each in sorted(said.items()))
    )
    assert torn == {}
    assert {kind: each["first"] for kind, each in said.items() if each["wrong"]} == {}

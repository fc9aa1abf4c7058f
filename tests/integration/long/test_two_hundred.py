"""Two hundred copies of a session under every kind of write, each restored and checked: none is torn."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import Any

from holdfast.errors import CaptureFailed
from holdfast.runtime.api.controller import Holdfast

COPIES = int(os.environ.get("HOLDFAST_TEST_COPIES", "200"))


def test_two_hundred_copies_are_not_torn(hf: Holdfast, witnesses: Any, tell: Callable[[str], None]) -> None:
    """Each copy is restored and its programs compare all their data, twice at least; so does the parent."""
    session = hf.new("torn")
    witnesses.start(hf, session)
    torn: dict[int, dict[str, str]] = {}
    frozen: list[float] = []
    refused = number = 0
    while number < COPIES:
        try:
            snapshot = session.snapshot()
        except CaptureFailed:  # the machine has too much else to do: nothing was taken
            refused += 1
            assert refused <= COPIES
            continue
        number += 1
        frozen.append(snapshot.row.details["frozen_seconds"])
        copy = snapshot.restore(f"copy-{number}")
        with hf.engine.paused(str(session.row.container_id)):  # or both have half of the machine
            said = witnesses.ask(copy)
        if wrong := {kind: each["first"] for kind, each in said.items() if each["wrong"]}:
            torn[number] = wrong
            tell(f"copy {number} is torn: {wrong}")
        copy.remove()
        snapshot.remove()
        if number % 20 == 0:
            tell(f"{number} of {COPIES}, {len(torn)} torn")
    said = witnesses.ask(session)
    compared = ", ".join(f"{kind} {each['rounds']}" for kind, each in sorted(said.items()))
    tell(
        f"{COPIES} copies restored, {len(torn)} torn; {refused} captures refused; "
        f"frozen {statistics.median(frozen) * 1000:.0f} ms (median), {max(frozen) * 1000:.0f} ms at most; "
        f"comparisons in the parent: {compared}"
    )
    assert torn == {}
    assert {kind: each["first"] for kind, each in said.items() if each["wrong"]} == {}

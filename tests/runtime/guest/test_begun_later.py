"""A supervisor that waits in a pool: ready, without a history, an ordinary session once it begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import SESSION, Guest, Refused


def facts(guest: Guest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((guest.folder / "state" / "identity" / "identity.json").read_text())
    return found


def journal(guest: Guest) -> list[dict[str, Any]]:
    return [json.loads(frame.payload) for frame in guest.ask("journal")[:-1]]


def waits(marks: Path) -> Guest:
    return Guest(marks, session=SESSION, name=SESSION, generation=-1, waiting="shell")


@pytest.fixture
def waiting(marks_library: Path) -> Iterator[Guest]:
    running = waits(marks_library)
    yield running
    running.stop()


def test_a_waiting_session_begins_with_its_given_name(waiting: Guest) -> None:
    """The shell was ready before, and takes name and number before its first command."""
    waiting.exec("true")
    waiting.ask("begin", name="work", generation=0)
    made = waiting.exec("echo $HOLDFAST_NAME $HOLDFAST_GENERATION $HOLDFAST_SESSION")
    assert made.output.split() == [b"work", b"0", SESSION.encode()]
    assert (facts(waiting)["name"], facts(waiting)["generation"], facts(waiting)["event"]) == (
        "work",
        0,
        "started",
    )
    assert waiting.ask("hello")[0].head["name"] == "work"


def test_the_journal_of_a_waiting_session_begins_with_it(waiting: Guest) -> None:
    """Nothing is recorded while it waits; then what a session begins with."""
    assert journal(waiting) == []
    waiting.ask("begin", name="work", generation=0)
    assert [(each["seq"], each["kind"], each["event"]) for each in journal(waiting)] == [
        (1, "woken", "started")
    ]


def test_a_waiting_session_begins_once(waiting: Guest) -> None:
    """Neither a second caller nor a program in the session can rename it."""
    waiting.ask("begin", name="work", generation=0)
    with pytest.raises(Refused, match="it has begun"):
        waiting.ask("begin", name="other", generation=0)
    assert facts(waiting)["name"] == "work"


def test_an_ordinary_session_cannot_begin_again(guest: Guest) -> None:
    """Only a session that was made for a pool waits for a name."""
    with pytest.raises(Refused, match="it has begun"):
        guest.ask("begin", name="other", generation=0)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": 3}, {"name": "a", "generation": -1}])
def test_a_wrong_beginning_changes_nothing(waiting: Guest, wrong: dict[str, Any]) -> None:
    """It waits on, for a request that can be read."""
    with pytest.raises(Refused):
        waiting.ask("begin", **{"generation": 0, **wrong})
    waiting.ask("begin", name="work", generation=0)


def test_two_that_waited_draw_different_numbers(marks_library: Path) -> None:
    """They were never copies: seeds of their shells are their own."""
    drawn = set()
    for _ in range(2):
        guest = waits(marks_library)
        guest.ask("begin", name="work", generation=0)
        drawn.add(guest.exec("echo $RANDOM $RANDOM $RANDOM").output)
        guest.stop()
    assert len(drawn) == 2


def test_a_waiting_session_starts_its_kernel_only_when_it_begins(waiting: Guest) -> None:
    """A pool without kernels does not hold their memory."""
    assert waiting.ask("hello")[0].head["kernels"][0]["pid"] is None
    waiting.ask("begin", name="work", generation=0)
    (text,) = [
        frame.payload
        for frame in waiting.run_cell("import os; print(os.environ['HOLDFAST_NAME'])")
        if frame.event == "stream"
    ]
    assert text.strip() == b"work"

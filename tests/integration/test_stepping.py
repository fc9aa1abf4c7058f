"""Root in a session acts between any two system calls of a capture, a restore and a rewind.

A seed selects, for each command, the calls at which the checkpointer is held: `HOLDFAST_STEPPING_SEED`
gives a different choice. `tests/integration/long/test_all_steps.py` holds many more of them.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest
from tests import stepping
from tests.stepping import Stop
from tests.stepping_arena import Arena

from holdfast import Event
from holdfast.errors import HoldfastError

pytestmark = pytest.mark.thorough

SEED = int(os.environ.get("HOLDFAST_STEPPING_SEED", "1"))


def test_attacks_between_any_two_calls_do_not_reach_the_host(arena: Arena) -> None:
    """Links, signals, forks, descriptors, modes, timers: each command succeeds, or is refused in one line."""
    results: dict[str, int] = {}
    held = 0
    for words in (
        ("snapshot", "evil", "--kind", "filesystem"),
        ("restore", "before", "--name", "copy"),
        ("rewind", "evil", "before"),
        ("suspend", "evil"),
        ("resume", "evil"),
        ("new", "--name", "other"),
    ):
        if words[0] == "resume" and arena.hf.session("evil").state != "suspended":
            continue
        found, code = arena.step(*words)
        results[" ".join(words)] = code
        held += len(found.stops)
        state = arena.hf.session("evil").state
        if words[0] == "suspend" and code == 0:
            continue
        if words[0] == "resume" and code != 0:
            assert state == "suspended"
            arena.hf.session("evil").resume()  # what was refused lost nothing
        else:
            assert state == "running", (words, code)
        assert arena.alive(), words
        if words[0] == "restore" and code == 0:
            assert arena.alive("copy")
            arena.hf.session("copy").remove()
    arena.hf.session("other").remove()

    assert held > 20
    assert 0 in results.values(), results
    arena.works()
    arena.canary.assert_untouched()


def test_stopping_and_tracing_delay_nothing(arena: Arena) -> None:
    """A session that stops all its processes, or traces one, at each call, is captured or says why not."""
    hostile = arena.hostile()

    def act(stop: Stop) -> bool:
        hostile.order((stepping.STOP_EVERYTHING, stepping.TRACE)[stop.number % 2])
        return False

    arena.step("snapshot", "evil", at=act)
    hostile.close()

    assert arena.alive()
    arena.works()


def test_a_session_that_ends_itself_begins_again_and_says_so(arena: Arena) -> None:
    """And can be rewound to an earlier capture."""
    hostile = arena.hostile()
    turn = arena.dice.randrange(3, 10)

    def act(stop: Stop) -> bool:
        if stop.number == turn:
            hostile.order(stepping.END_EVERYTHING)
        return False

    found, _ = arena.step("snapshot", "evil", at=act)
    if len(found.stops) < turn:
        hostile.order(stepping.END_EVERYTHING)
    hostile.close()

    # It obeys once it runs again.
    deadline = time.monotonic() + 30
    found_again: list[Event] = []
    while not found_again and time.monotonic() < deadline:
        with suppress(HoldfastError):
            found_again = list(arena.hf.session("evil").events(kinds=["restarted"]))
    assert "its supervisor was ended by SIGKILL" in found_again[-1].text
    assert arena.hf.session("evil").exec("echo", timeout=10).ok
    arena.hf.session("evil").rewind("before", discard=True)
    assert arena.alive()


def test_a_checkpointer_killed_at_any_call_leaves_the_session_intact(arena: Arena) -> None:
    """The worker, its children and CRIU, in captures and restores, while the session is hostile."""
    for words in (
        ("snapshot", "evil"),
        ("restore", "before", "--name", "copy"),
    ):
        arena.kill_during(*words)
    arena.works()

"""Like tests/integration/test_stepping.py, with many more of the calls held.

`HOLDFAST_STEPPING_SEED` selects others.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.stepping_arena import Arena

SEED = int(os.environ.get("HOLDFAST_STEPPING_SEED", "1000"))
STRIDE = 100
"""In this many runs of a command each call of the worker is held once."""
MORE = 200_000
"""Per million: some hundred calls of CRIU and of what it makes, in each run."""
KILLS = 60
COMMANDS = {
    "snapshot": ("snapshot", "evil"),
    "filesystem": ("snapshot", "evil", "--kind", "filesystem"),
    "restore": ("restore", "before", "--name", "copy"),
    "rewind": ("rewind", "evil", "before"),
    "new": ("new", "--name", "copy"),
}


def tidy(arena: Arena) -> None:
    """Keep what the next round needs, and nothing else."""
    for session in arena.hf.sessions():
        if session.name != "evil":
            session.remove()
    for snapshot in reversed(arena.hf.snapshots()):
        if snapshot.label != "before":
            snapshot.remove()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_call_of_the_worker(arena: Arena, command: str, tell: Callable[[str], None]) -> None:
    """And a sample of the calls of CRIU, and of the tasks it restores."""
    held, failed = 0, 0
    for phase in range(STRIDE):
        found, code = arena.step(*COMMANDS[command], rate=MORE, stride=STRIDE, phase=phase)
        held += len(found.stops)
        failed += code != 0
        assert arena.alive(), (command, phase)
        tidy(arena)
    tell(f"{command}: {held} calls held, {failed} of {STRIDE} runs refused")
    arena.works()
    tidy(arena)


@pytest.mark.parametrize("command", ["snapshot", "restore", "rewind"])
def test_a_kill_at_any_call(arena: Arena, command: str, tell: Callable[[str], None]) -> None:
    """Whichever process makes it."""
    struck = 0
    for _ in range(KILLS):
        struck += arena.kill_during(*COMMANDS[command])
        tidy(arena)
    tell(f"{command}: {struck} of {KILLS} runs killed somebody")
    arena.works()
    tidy(arena)

"""A session that has all inotify instances of root: other sessions are captured, restored and watched.

Here, since what it takes is taken from all of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.machines.virtual import VirtualMachine

# Makes as many as there are, and reports the error at which it ends; the first one watches a folder.
GREEDY = """
import ctypes, os, pathlib, time
libc = ctypes.CDLL(None, use_errno=True)
made = []
while (one := libc.inotify_init1(0)) >= 0:
    made.append(one)
pathlib.Path("/workspace/took").write_text(f"{len(made)} {ctypes.get_errno()}")
libc.inotify_add_watch(made[0], b"/srv", 0xFFF)
time.sleep(100000)
"""
TRY = "import ctypes; print(ctypes.CDLL(None).inotify_init1(0))"


@pytest.fixture
def machine(booted: VirtualMachine) -> Iterator[VirtualMachine]:
    """A machine with the sessions `greedy` and `calm`, whose checkpointer is to be a new one."""
    booted.holdfast("new", "--name", "greedy")
    booted.holdfast("new", "--name", "calm")
    booted.run("docker rm -f $(docker ps -q -f label=holdfast.role=checkpointer)")
    yield booted
    for each in json.loads(booted.holdfast("ls", "--json")):
        booted.holdfast("rm", each["name"])


def test_a_session_that_has_all_keeps_no_other_from_being_captured_and_watched(
    machine: VirtualMachine,
) -> None:
    machine.holdfast("exec", "greedy", f"cat > greedy.py <<'END'\n{GREEDY}END\n(python3 greedy.py &)")
    machine.holdfast("exec", "greedy", "until test -s took; do sleep 0.1; done")
    count, number = map(int, machine.holdfast("exec", "greedy", "cat took").split())
    assert (count > 64, number) == (True, 24)  # EMFILE
    # No one else who is root gets any: the attack took place.
    assert machine.run(f"python3 -c '{TRY}'").stdout == "-1\n"
    assert machine.holdfast("exec", "calm", f"python3 -c '{TRY}'") == "-1\n"

    machine.holdfast("snapshot", "calm", "--label", "point")
    machine.holdfast("restore", "point", "--name", "copy")
    assert machine.holdfast("exec", "copy", "echo runs") == "runs\n"
    seen = machine.run(
        "holdfast watch copy /workspace --count 1 --for 5m > seen 2> begun &"
        " until grep -q watching begun; do sleep 0.2; done;"
        " holdfast exec copy 'touch /workspace/new'; wait; cat seen"
    )
    assert seen.stdout == "created   /workspace/new\n", seen
    # Its own copy has as many again, which are no more root's.
    machine.holdfast("fork", "greedy", "--name", "second")
    many = "ls -l /proc/[0-9]*/fd 2> /dev/null | grep -c anon_inode:inotify"
    assert int(machine.holdfast("exec", "second", many)) == count

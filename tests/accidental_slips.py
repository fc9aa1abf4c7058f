"""Slips of a person or an agent: actions that end, fill or cut off more than intended.

Each leaves the session usable: the space it filled is free again when it returns. Knows nothing of
captures, which run at the same time.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast import Holdfast, HoldfastError, Session
from holdfast.engine import networks

NAME = "storm"
PATIENCE = 120.0
MEMORY = "400m"
PROCESSES = 160

BOMB = """
import os, time
end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)
"""
GREEDY = """
held = []
while True:
    held.append(bytearray(b"x" * (1 << 20)))
"""
TYPED = {
    "pkill python": "pkill python",
    "pkill -9 python": "pkill -9 python",
    "pkill -f holdfast": "pkill -f holdfast",
    "pkill sleep": "pkill -9 sleep",
    "pkill bash": "pkill bash",
    "pkill -9 bash": "pkill -9 bash",
    "pkill -9 holdfast": "pkill -9 -x holdfast",
    "kill -15 -1": "kill -15 -1",
    "kill -HUP -1": "kill -HUP -1",
    "kill -9 -1": "kill -9 -1",
    "kill 1": "kill 1; kill -9 1",
    "kill -STOP -1": "kill -STOP -1; kill -CONT -1",
    "kill its shell": "kill -9 $$",
    "exit": "exit 3",
    "exec something": "exec sleep 0.2",
    "many processes": f"for i in {{1..{2 * PROCESSES}}}; do sleep 2 & done; wait",
    "fork bomb": f"python3 -c '{BOMB}'; sleep 4",
    "all memory": f"python3 -c '{GREEDY}'",
    "all of /dev/shm": "head -c 200M /dev/zero > /dev/shm/fill; sleep 0.5; rm /dev/shm/fill",
    "all of the shared folder": "cd /run/holdfast; head -c 200M /dev/zero > fill; sleep 0.5; rm fill; cd -",
    "all of its inodes": "cd /run/holdfast; seq 5000 | xargs touch; sleep 0.5; "
    "ls | grep '^[0-9]*$' | xargs rm; cd /workspace",
    "all descriptors": '(ulimit -n 20; for i in {10..40}; do eval "exec $i</dev/null"; done; sleep 0.3)',
    "a large output": "yes 0123456789abcdef | head -c 40M",
}
"""Commands in the session's shell, by name."""
CELLS = {
    "kernel without memory": "held = bytearray(b'x' * (1 << 30))",
    "kernel that exits": "import os; os._exit(3)",
    "kernel that is killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
}
"""Cells in its kernel."""
CLIENTS = {
    "client of exec": ("exec", NAME, "sleep 1"),
    "client of cell": ("cell", NAME, "import time; time.sleep(1)"),
    "client of snapshot": ("snapshot", NAME),
    "client of fork": ("fork", NAME, "--name", "lost"),
    "client of suspend": ("suspend", NAME),
}
"""Command lines that are killed at some moment, by name."""
ON_PURPOSE = ("docker kill", "docker restart")
"""Those with which the owner of the machine ends all processes of a session: its files must be left."""


@dataclass(frozen=True, slots=True)
class Place:
    """The session that is hit, and the disk with its home."""

    hf: Holdfast
    session: Session
    disk: Path


def _type(place: Place, command: str) -> None:
    with contextlib.suppress(HoldfastError):  # one that kills its own shell or supervisor
        place.session.exec(command, timeout=PATIENCE)


def _run(place: Place, code: str) -> None:
    with contextlib.suppress(HoldfastError):
        place.session.cell(code, timeout=PATIENCE)


def _shell_bomb(place: Place, dice: random.Random) -> None:
    """Let shell functions multiply until the limit, and end them all by means that need no process."""
    _type(place, "bomb() { bomb | bomb & }; bomb 2>/dev/null")
    time.sleep(dice.uniform(1, 3))
    _type(place, "kill -9 -1")


def _container(place: Place) -> str:
    return str(place.session.refresh().row.container_id)


def _network(place: Place, dice: random.Random) -> None:
    engine, container = place.hf.engine, _container(place)
    state = engine.inspect(container)
    assert state is not None
    networks.leave(engine, container)
    time.sleep(dice.uniform(0, 1))
    networks.join(engine, container, state.addresses)


def _paused(place: Place, dice: random.Random) -> None:
    container = place.hf.engine.client.containers.get(_container(place))
    with contextlib.suppress(Exception):  # a capture has it frozen just now
        container.pause()
    time.sleep(dice.uniform(0, 2))
    container.reload()
    if container.status == "paused":
        container.unpause()


def _full_home(place: Place, dice: random.Random) -> None:
    filler = place.disk / "filler"
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    time.sleep(dice.uniform(0, 1))
    filler.unlink()


def _client(place: Place, dice: random.Random, *words: str) -> None:
    """Start a command line, and kill it at some moment."""
    started = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.wait(dice.uniform(0, 1.5))
    started.send_signal(dice.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
    started.wait(PATIENCE)


def _checkpointer(place: Place) -> None:
    engine = place.hf.engine
    for found in engine.containers(holdfast_home=place.hf.home.digest, holdfast_role="checkpointer"):
        engine.kill_remove(found)


def _docker(place: Place, verb: str) -> None:
    container = place.hf.engine.client.containers.get(_container(place))
    with contextlib.suppress(Exception):
        getattr(container, verb)()


Slip = Callable[[Place, random.Random], None]


def all_slips() -> dict[str, Slip]:
    """Return the slips by name."""
    return {
        **{name: _typed(command) for name, command in TYPED.items()},
        **{name: _ran(code) for name, code in CELLS.items()},
        **{name: _cut(words) for name, words in CLIENTS.items()},
        "shell bomb": _shell_bomb,
        "network": _network,
        "docker pause": _paused,
        "full disk of the home": _full_home,
        "checkpointer": lambda place, _dice: _checkpointer(place),
        "docker kill": lambda place, _dice: _docker(place, "kill"),
        "docker restart": lambda place, _dice: _docker(place, "restart"),
    }


def _typed(command: str) -> Slip:
    return lambda place, _dice: _type(place, command)


def _ran(code: str) -> Slip:
    return lambda place, _dice: _run(place, code)


def _cut(words: tuple[str, ...]) -> Slip:
    return lambda place, dice: _client(place, dice, *words)

"""A hostile session, and commands about it; each of their system calls can be held."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import time
from pathlib import Path
from typing import Any

from tests import stepping
from tests.stepping import Canary, Hostile, Stepped, Stepper, Stop

from holdfast.runtime.api.controller import Holdfast

logger = logging.getLogger(__name__)

RATE = 40_000
"""Of a million: about 25 calls of a capture are held."""
SOON = 20.0
"""Seconds in which a worker has ended whose controller has been answered."""


def checkpointer(hf: Holdfast) -> int:
    """The first process of a home's checkpointer, in the host's numbers. It runs since the last capture."""
    found = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer")
    states = [hf.engine.inspect(container) for container in found]
    (pid,) = [state.pid for state in states if state is not None and state.running]
    return pid


class Arena:
    """A hostile session, and commands about it; each of their system calls can be held."""

    def __init__(self, hf: Holdfast, cli: Any, folder: Path, seed: int) -> None:
        self.hf = hf
        self.dice = random.Random(seed)
        self.canary = Canary(folder / "canary")
        self._cli = cli
        self._stepper = stepping.compiled(folder, "stepper")
        session = hf.new("evil")
        source = (stepping.ATTACKS / "hostile.c").read_text()
        made = session.exec(
            f"kept=yes; cat > /tmp/hostile.c <<'END'\n{source}\nEND\n"
            f"gcc -O2 '-DCANARY=\"{self.canary.folder}\"' -o /tmp/hostile /tmp/hostile.c &&\n"
            "{ setsid /tmp/hostile </dev/null >/dev/null 2>&1 & } &&\n"
            "until [ -e /workspace/hostile ]; do :; done",  # not sleep(1), which it would stop
            timeout=60,
        )
        assert made.ok, made.text
        session.snapshot("before")

    def hostile(self) -> Hostile:
        """Of the container that the session has now."""
        return Hostile(self.init())

    def init(self) -> int:
        """The first process of the session, in the host's numbers."""
        state = self.hf.engine.inspect(str(self.hf.session("evil").row.container_id))
        assert state is not None
        return state.pid

    def step(
        self, *words: str, rate: int = RATE, at: stepping.At | None = None, stride: int = 0, phase: int = 0
    ) -> tuple[Stepped, int]:
        """Run a command, hold some of the calls that it causes, and see that it has harmed no one.

        While CRIU is in the session's mounts to capture it, no process of the session must run.
        """
        running = self.hf.session("evil").state == "running"
        hostile = self.hostile() if running else None
        ran_in_freeze: list[Stop] = []

        def look(stop: Stop) -> bool:
            if hostile is None:
                return at(stop) if at is not None else False
            inside = [pid for pid in stepping.called("criu") if stepping.mounts_of(pid) == hostile.mounts]
            killed = at(stop) if at is not None else False
            if hostile.acts_meanwhile() and inside:
                ran_in_freeze.append(stop)
            return killed

        seed = self.dice.randrange(1 << 30)
        stepper = Stepper(
            self._stepper, checkpointer(self.hf), seed=seed, rate=rate, stride=stride, phase=phase
        )
        command = self._cli.start(*words, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        found = stepper.run(command, look)
        out, err = command.communicate()
        if hostile is not None:
            hostile.close()
        self.canary.assert_untouched()
        if command.returncode != 0:
            logger.warning("%s was refused: %s", " ".join(words), err)
            assert command.returncode == 1, (words, err)
            error = json.loads(err)["error"]
            assert error["code"] not in ("internal", "store_error"), error
            assert error["message"].startswith("cannot "), error
            assert "\n" not in error["message"], error
        elif words[0] in ("snapshot", "suspend", "rewind"):
            assert ran_in_freeze == [], (words, out)
        self._nothing_left()
        return found, command.returncode

    def _nothing_left(self) -> None:
        """No process of the checkpointer works on, none is in a session, and no session is paused."""
        deadline = time.monotonic() + SOON
        for session in self.hf.sessions():
            row = self.hf.session(session.name).row
            state = self.hf.engine.inspect(str(row.container_id)) if row.container_id else None
            if state is None or not state.running:
                continue
            mounts = stepping.mounts_of(state.pid)
            while (left := stepping.strangers(mounts, state.id)) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert left == []
            assert not stepping.is_frozen(state.pid)
        assert not self.hf.store.operations.open()
        assert not list(self.hf.home.staging.iterdir())

    def alive(self, name: str = "evil") -> bool:
        """Whether a session answers, with its shell's variables."""
        return self.hf.session(name).exec("echo well $kept", timeout=60).text == "well yes\n"

    def kill_during(self, *words: str) -> bool:
        """Run a command, kill who makes one of its calls, see that the session is well; whether one was."""
        role, turn = self.dice.choice(("worker", "criu", "task")), self.dice.randrange(1, 8)
        mine: list[Stop] = []
        killed: list[Stop] = []

        def kill(stop: Stop) -> bool:
            if stop.role == role:
                mine.append(stop)
            if killed or len(mine) != turn:
                return False
            killed.append(stop)
            return True

        _, code = self.step(*words, at=kill)
        assert self.alive(), (words, killed)
        copies = [session for session in self.hf.sessions() if session.name == "copy"]
        assert len(copies) == (code == 0 and words[0] == "restore"), (words, killed)
        for copy in copies:
            assert self.alive("copy")
            copy.remove()
        return bool(killed)

    def works(self) -> None:
        """With no one held, the session is captured, and its copy continues."""
        snapshot = self.hf.session("evil").snapshot()
        copy = snapshot.restore("copy")
        assert self.alive("copy")
        copy.remove()
        self.canary.assert_untouched()

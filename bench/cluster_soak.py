"""Agents' loops on a cluster of real machines whose parts fail, until the time is over.

    python -m bench.cluster_soak --minutes 120 --agents 20 --every 300
    python -m bench.cluster_soak --minutes 5 --agents 4 --every 45

Each agent counts in a shell over a URL, through nginx with the shipped file, and does not know the machines.
Every so often a machine is lost and replaced, cut off from the database, drained, or loses its agent or its
keeper. Fails if a number is lost that was acknowledged before the capture of a committed copy, if an agent
stays without an answer, or if a session is seen to run on two machines. Losses are judged by commits and not
by seconds: the work that one costs on a machine that is busy with other things is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.machines.nginx import Nginx
from tests.machines.nodes import TOKEN, Lab, Node

from holdfast.engine import frozen_groups
from holdfast.engine.engine import Engine
from holdfast.errors import HoldfastError
from holdfast.images import build
from holdfast.runtime.cluster.cluster_rows import LeaseTerms

STEP = "n=$((n+1)); echo $n"
SAMPLE_S = 2.0
PATIENCE_S = 240.0
NODES = 3


class Loop(threading.Thread):
    """One agent."""

    def __init__(self, lab: Lab, name: str, url: str) -> None:
        super().__init__(daemon=True)
        self.name_, self._lab, self._url = name, lab, url
        self.acknowledged: list[tuple[float, int]] = []
        self.samples: list[tuple[float, int, int]] = []
        self.lost: list[tuple[int, float]] = []
        self.errors: Counter[str] = Counter()
        self.faults: list[str] = []
        self.ends = threading.Event()

    def run(self) -> None:
        """Count until it is ended."""
        while not self.ends.is_set():
            try:
                with self._lab.client(self._url) as hf:
                    session = hf.session(self.name_)
                    while not self.ends.is_set():
                        self._note(int(session.exec(STEP, timeout=30, patience=20).text))
                        time.sleep(0.5)
            except (HoldfastError, OSError, ValueError) as error:
                self.errors[type(error).__name__] += 1
                time.sleep(0.5)

    def _note(self, number: int) -> None:
        now = time.monotonic()
        if self.acknowledged:
            last_at, last = self.acknowledged[-1]
            if now - last_at > PATIENCE_S:
                self.faults.append(f"{self.name_}: no answer for {now - last_at:.0f} s")
            if number <= last:
                self._fell(number, last)
        self.acknowledged.append((now, number))
        if not self.samples or now - self.samples[-1][0] > SAMPLE_S:
            copy = self._lab.store.session(self.name_).copy
            self.samples.append((now, number, copy.number if copy is not None else 0))

    def _fell(self, number: int, last: int) -> None:
        """Judge a loss: a copy that was committed two after the one that a number was seen with has it."""
        newest = max((copy for _, _, copy in self.samples), default=0)
        safe = max((known for _, known, copy in self.samples if copy + 2 <= newest), default=0)
        if number <= safe:
            self.faults.append(f"{self.name_}: {number} came after {safe}, which was in a committed copy")
        since = next((at for at, known in self.acknowledged if known >= number), self.acknowledged[-1][0])
        self.lost.append((last - number + 1, self.acknowledged[-1][0] - since))
        print(f"{self.name_}: lost {last - number + 1} commands of {self.lost[-1][1]:.0f} s", flush=True)
        self.samples = []


def running(node: Node) -> set[str]:
    """Return the sessions that run on a machine at this moment."""
    found = set()
    engine = node.machine.engine
    for container, labels in engine.containers(holdfast_role="session").items():
        state = engine.inspect(container)
        if state is None or not state.running or not state.pid:
            continue
        if not frozen_groups.is_frozen(container, state.pid):
            found.add(labels.get("holdfast.session", ""))
    return found


class Soak:
    """The cluster, its agents, and what happens to it."""

    def __init__(self, lab: Lab, agents: int, seed: int) -> None:
        self._lab, self._random, self._made = lab, random.Random(seed), 0
        self.faults: list[str] = []
        self.done: Counter[str] = Counter()
        for _ in range(NODES):
            self._add()
        self._proxy = self._fronted()
        self.loops = [Loop(lab, f"agent{number}", self._proxy.url) for number in range(agents)]
        for number, loop in enumerate(self.loops):
            lab.lead_to(self._alive[number % NODES])
            with lab.client() as hf:
                hf.new(loop.name_).exec("n=0", timeout=60)
        for loop in self.loops:
            lab.until(partial(self._copied, loop.name_), "a first copy")
            loop.start()

    @property
    def _alive(self) -> list[Node]:
        return [node for node in self._lab.nodes.values() if node.serves]

    def _copied(self, name: str) -> bool:
        return self._lab.store.session(name).copy is not None

    def _add(self) -> None:
        self._made += 1
        self._lab.node(f"rack{self._made}")

    def _fronted(self) -> Nginx:
        entries = [node.address.removeprefix("http://") for node in self._alive]
        return Nginx(self._lab.folder / f"nginx{self._made}", self._lab.proxy_port, entries, TOKEN)

    def trouble(self) -> None:
        """Have something fail."""
        node = self._random.choice(self._alive)
        kinds: list[Callable[[Node], None]] = [self.lose, self.cut, self.agent, self.keeper, self.drain]
        what = self._random.choice(kinds)
        print(f"{what.__name__} {node.name}", flush=True)
        what(node)
        self.done[what.__name__] += 1

    def lose(self, node: Node) -> None:
        """Lose a machine, and put another in its place."""
        node.lose()
        self._add()
        self._proxy.close()
        self._proxy = self._fronted()

    def cut(self, node: Node) -> None:
        """Cut a machine off from the database for longer than its lease."""
        node.cut(self._lab.postgres.port)
        time.sleep(2 * (self._lab.terms.ttl_s + self._lab.terms.margin_s))
        node.reach(self._lab.postgres.port)

    def agent(self, node: Node) -> None:
        """Kill the server of a node, and start it again."""
        node.kill_agent()
        node.start()

    def keeper(self, node: Node) -> None:
        """Kill the keeper of a node."""
        if (pid := node.keeper()) is not None:
            os.kill(pid, signal.SIGKILL)

    def drain(self, node: Node) -> None:
        """Drain a node, and take it back."""
        store = self._lab.store
        store.drain(node.name)
        self._lab.until(lambda: not store.sessions(node=node.name), f"{node.name} without sessions")
        store.undrain(node.name)

    def look(self) -> None:
        """Note sessions that run on two machines at one moment."""
        first = {node.name: running(node) for node in self._alive}
        again = {node.name: running(node) for node in self._alive}
        held = Counter(each for name in first for each in first[name] & again.get(name, set()))
        self.faults += [f"{session} ran on {count} machines" for session, count in held.items() if count > 1]

    def close(self) -> None:
        """End the agents."""
        for loop in self.loops:
            loop.ends.set()
        for loop in self.loops:
            loop.join(60)
            self.faults += loop.faults
            silent = time.monotonic() - loop.acknowledged[-1][0] if loop.acknowledged else PATIENCE_S
            if silent >= PATIENCE_S:
                self.faults.append(f"{loop.name_} is without an answer at the end")
        self._proxy.close()


def main() -> int:
    """Run it; return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--every", type=float, default=45, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loss", default="20s", help="the policy of the nodes")
    parser.add_argument("--ttl", type=float, default=15.0, help="seconds of a lease")
    options = parser.parse_args()
    terms = LeaseTerms(ttl_s=options.ttl, beat_s=options.ttl / 6, margin_s=options.ttl / 3)
    engine = Engine.connect()
    images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
    with (
        tempfile.TemporaryDirectory(prefix="hf-soak-", dir="/var/tmp") as folder,
        Lab(Path(folder), images, engine, terms=terms, loss=options.loss) as lab,
    ):
        soak = Soak(lab, options.agents, options.seed)
        began = time.monotonic()
        next_at = began + options.every
        while time.monotonic() - began < options.minutes * 60:
            soak.look()
            if time.monotonic() >= next_at:
                soak.trouble()
                next_at = time.monotonic() + options.every
            time.sleep(1)
        soak.close()
    acknowledged = sum(len(loop.acknowledged) for loop in soak.loops)
    errors = sum((loop.errors for loop in soak.loops), Counter())
    print(f"{acknowledged} commands acknowledged; faults made: {dict(soak.done)}; errors: {dict(errors)}")
    lost = [each for loop in soak.loops for each in loop.lost]
    print(f"losses (commands, seconds of work): {[(count, round(seconds)) for count, seconds in lost]}")
    for fault in soak.faults:
        print(fault)
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())

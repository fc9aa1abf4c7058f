"""The keeper of a node: a process of its own that freezes the node's sessions when their lease is over.

    python -m holdfast.runtime.node.lease_keeper HOME

It outlives the agent, whatever ends that, and depends neither on the database nor, once it knows the
containers, on an engine that answers. A frozen session continues only under a new lease that lists it as
the node's own. The keeper freezes a session again that anything else thaws, as a capture does at its end,
and does not thaw within one: for that it takes the lock of the session. It ends when the node's lease file
is missing.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import locks, node_lease
from holdfast.base.home import Home
from holdfast.base.node_lease import Frozen, LeaseFile
from holdfast.base.text import plain
from holdfast.engine import frozen_groups
from holdfast.engine.engine import Engine
from holdfast.errors import HoldfastError, InvalidArgument, SessionBusy

TICK_SECONDS = 0.2
"""Between two looks while the lease is over; one that something else has thawed runs for as long."""
CALM_SECONDS = 0.5
LIST_SECONDS = 2.0
FORGET_SECONDS = 30.0
"""For which a lease can be missing before the keeper ends: an agent that begins writes it first."""
_LOG = "keeper.log"
_LOCK = "keeper.lock"
_AGENT_LOCK = "agent.lock"
_URGENT = "-500"
logger = logging.getLogger("holdfast.keeper")


@dataclass(frozen=True, slots=True)
class FreezeDecision:
    """Containers that must not run now, and frozen ones that can run again."""

    stop: frozenset[str] = frozenset()
    go: frozenset[str] = frozenset()


def decide(
    lease: LeaseFile, boot: str, now: float, there: Mapping[str, str], frozen: Mapping[str, str]
) -> FreezeDecision:
    """Return the sessions to freeze and to thaw. Pure.

    `there` and `frozen` are sessions by container: the home's, and the ones that the keeper has frozen.
    """
    if not lease.holds(boot, now):
        return FreezeDecision(stop=frozenset(there))
    kept = {container for container in frozen if container in there}
    go = frozenset(container for container in kept if there[container] in lease.owned)
    return FreezeDecision(stop=frozenset(kept - go), go=go)


class ContainerList:
    """The containers of a home's sessions, asked for in a thread, so that nothing waits for the engine."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: dict[str, str] = {}
        self._pids: dict[str, int] = {}

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def sessions(self) -> Mapping[str, str]:
        """Sessions by container, as the engine last reported them."""
        return self._known

    def pid(self, container: str) -> int:
        """Return a container's first process; 0 if the engine did not tell."""
        return self._pids.get(container, 0)

    def _run(self) -> None:
        engine: Engine | None = None
        while True:
            try:
                engine = engine or Engine.connect()
                self._ask(engine)
            except (HoldfastError, OSError) as error:
                logger.warning("cannot list containers: %s", plain(str(error), 300))
            time.sleep(LIST_SECONDS)

    def _ask(self, engine: Engine) -> None:
        found = engine.containers(holdfast_home=self._home.digest, holdfast_role="session")
        known, pids = {}, {}
        for container, labels in found.items():
            state = engine.inspect(container)
            if state is not None and state.running:
                known[container], pids[container] = labels.get("holdfast.session", ""), state.pid
        self._pids, self._known = pids, known


class LeaseKeeper:
    """Does what `decide` says, again and again."""

    def __init__(self, home: Home, containers: ContainerList) -> None:
        self._home, self._containers = home, containers
        self._boot = node_lease.boot_id()
        self._frozen = node_lease.read_frozen(home)
        self._engine: Engine | None = None

    def run(self) -> None:
        """Keep the lease until there is none."""
        missing = 0.0
        while missing < FORGET_SECONDS:
            lease = node_lease.read_lease(self._home)
            pause = CALM_SECONDS if lease is None else self.look(lease)
            missing = missing + pause if lease is None else 0.0
            time.sleep(pause)

    def look(self, lease: LeaseFile) -> float:
        """Freeze and thaw what is due; return the seconds until the next look."""
        there = self._containers.sessions
        found = decide(lease, self._boot, node_lease.now(), there, self._frozen.containers)
        if found.stop:
            self._record(lease, {**self._frozen.containers, **{each: there[each] for each in found.stop}})
        for container in found.stop:
            self._freeze(container)
        thawed = {container for container in found.go if self._thaw(container, there[container])}
        left = {key: kept for key, kept in self._frozen.containers.items() if key in there}
        self._record(lease, {key: kept for key, kept in left.items() if key not in thawed})
        if not lease.holds(self._boot, node_lease.now()) or self._frozen.containers:
            return TICK_SECONDS
        return max(0.01, min(CALM_SECONDS, lease.until - node_lease.now()))

    def _record(self, lease: LeaseFile, containers: Mapping[str, str]) -> None:
        """Write which containers are frozen: before they are, and after they no longer are."""
        if containers == self._frozen.containers:
            return
        first = not self._frozen.containers
        since = time.time() if first else self._frozen.since
        contact = lease.contact if first else self._frozen.contact
        self._frozen = Frozen(since, contact, dict(containers))
        try:
            node_lease.write_frozen(self._home, self._frozen)
        except OSError as error:  # they must not run for that
            logger.error("cannot record what is frozen: %s", error.strerror or error)

    def _freeze(self, container: str) -> None:
        pid = self._containers.pid(container)
        if frozen_groups.is_frozen(container, pid):
            return
        try:
            frozen_groups.freeze(container, pid)
            logger.info("froze %s", container[:12])
        except OSError as error:
            logger.warning("cannot freeze %s: %s", container[:12], error.strerror or error)
            self._by_engine(container, pause=True)

    def _thaw(self, container: str, session: str) -> bool:
        """Let a container continue; False if an operation on its session is under way, as a capture is."""
        pid = self._containers.pid(container)
        try:
            with locks.exclusive(self._home.locks, session, "thaw"):
                if frozen_groups.is_frozen(container, pid):
                    frozen_groups.thaw(container, pid)
                else:
                    self._by_engine(container, pause=False)
        except SessionBusy:
            return False
        except (HoldfastError, OSError) as error:
            logger.warning("cannot thaw %s: %s", container[:12], plain(str(error), 300))
            return False
        logger.info("thawed %s", container[:12])
        return True

    def _by_engine(self, container: str, *, pause: bool) -> None:
        """Ask the engine instead, where this user cannot write to control groups."""
        try:
            self._engine = self._engine or Engine.connect()
            state = self._engine.inspect(container)
            if state is not None and state.running and state.paused != pause:
                (self._engine.pause if pause else self._engine.unpause)(container)
        except HoldfastError as error:
            logger.error("cannot stop or continue %s: %s", container[:12], plain(str(error), 300))


def at_work(home: Home) -> bool:
    """Return whether a home has a keeper."""
    with suppress(OSError):
        try:
            with locks.whole_file(_file(home, _LOCK), 0.0):
                return False
        except BlockingIOError:
            return True
    return False


@contextmanager
def only_agent(home: Home) -> Iterator[None]:
    """Let the block be the agent of a home: two would renew one lease, and undo each other's work.

    Raises:
        InvalidArgument: the home has an agent.
    """
    try:
        with locks.whole_file(_file(home, _AGENT_LOCK), 0.0):
            yield
    except BlockingIOError:
        raise InvalidArgument(
            f"cannot be the node of {home.root}: another `holdfast node` is",
            hint="end that one first; a second node on this machine needs a HOLDFAST_HOME of its own",
        ) from None


def start(home: Home) -> None:
    """Start a keeper that outlives this process, unless there is one. Raises OSError."""
    if at_work(home):
        return
    with _file(home, _LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(home.root)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, name="keeper", daemon=True).start()


def keep(home: Home) -> None:
    """Be the keeper of a home, unless there is one."""
    try:
        with locks.whole_file(_file(home, _LOCK), 0.0):
            with suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(_URGENT)
            containers = ContainerList(home)
            containers.start()
            LeaseKeeper(home, containers).run()
    except BlockingIOError:
        logger.info("a keeper is at work already")


def _file(home: Home, name: str) -> Path:
    folder = home.root / node_lease.FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / name


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    keep(Home(Path(sys.argv[1])))
    os._exit(0)  # the thread that lists may wait for an engine that hangs

"""One round: an operation starts, one of its processes is killed midway, and the session is checked."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.faults import victims
from holdfast import Holdfast, HoldfastError, Session

OPERATIONS = ("snapshot", "fork", "suspend")
NAME = "victim"
COPY = "copy"
_INSIDE = Path(__file__).parents[1] / "inside" / "keeper.py"
_PATIENCE = 120.0
_SOON = 20.0
_BAD = ("process_exited", "kernel_died", "shell_ended", "died", "unhealthy", "oom", "restarted")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one round.

    `lost` lists the differences in the session, `told` the messages the user gets about them, `left` the
    remains of the operation. `seconds` is how long it took to report that the session is well, or is not.
    """

    operation: str
    victim: str
    struck: bool
    succeeded: bool
    lost: str = ""
    told: str = ""
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def unhurt(self) -> bool:
        """True if the session continued as if nothing had happened."""
        return not self.lost

    @property
    def silent(self) -> bool:
        """True if something was lost without a report."""
        return bool(self.lost) and not self.told


class Storm:
    """Rounds in one home. A context manager that leaves nothing behind."""

    def __init__(self, holdfast: Holdfast, seed: int) -> None:
        self._holdfast = holdfast
        self._random = random.Random(seed)
        self._spans: dict[str, float] = {}

    def prepare(self) -> None:
        """Make a busy session, with a snapshot to return to; measure how long the operations take."""
        self.begin()
        for operation in OPERATIONS:
            started = time.monotonic()
            self._begin(operation).wait(_PATIENCE)
            self._spans[operation] = time.monotonic() - started
            self._clear()

    def round(self, operation: str, victim: str) -> Outcome:
        """Start an operation, kill a process in the middle, and check."""
        began = datetime.now(UTC)
        process = self._begin(operation)
        struck = self._strike(process, operation, victim)
        process.wait(_PATIENCE)
        started = time.monotonic()
        lost, told = self._judge(began)
        seconds = time.monotonic() - started
        if lost:
            self._replace()
        self._clear()
        left = self._left()
        return Outcome(operation, victim, struck, process.returncode == 0, lost, told, left, seconds)

    def _begin(self, operation: str) -> subprocess.Popen[bytes]:
        words = [operation, NAME] + (["--name", COPY] if operation == "fork" else [])
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            env={**os.environ, "HOLDFAST_HOME": str(self._holdfast.home.root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _strike(self, process: subprocess.Popen[bytes], operation: str, victim: str) -> bool:
        if victim == "controller":
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._random.uniform(0.1, self._spans[operation]))
            return process.poll() is None and victims.kill(process.pid)
        # A fork has two: that of the capture, and that of the restore.
        skipped: set[int] = set()
        skip = operation == "fork" and self._random.random() < 0.5
        while process.poll() is None:
            found = [pid for pid in victims.find(self._holdfast, victim) if pid not in skipped]
            if victim == "criu" and skip and found:
                skipped.update(found)
                skip = False
                continue
            if found:
                time.sleep(self._random.uniform(0, 0.2))
                return victims.kill(found[0])
            time.sleep(0.002)
        return False

    def _judge(self, began: datetime) -> tuple[str, str]:
        """Return the losses, and the messages about them."""
        try:
            with Holdfast(self._holdfast.home) as next_one:
                session = next_one.session(NAME)
                if session.state == "suspended":
                    session.resume()
                lost = look(session)
                for copy in next_one.sessions():
                    if copy.name == COPY and not lost and (found := look(copy)):
                        session, lost = copy, f"in the copy, {found}"
                if not lost:
                    return "", ""
                return lost, _told(session, began)
        except HoldfastError as error:
            return str(error), f"{error.code}: {error.hint}" if error.hint else ""

    def _left(self) -> list[str]:
        hf = self._holdfast
        found = [f"operation {row.kind}" for row in hf.store.operations.open()]
        found += [str(path) for folder in (hf.home.staging,) for path in folder.iterdir()]
        known = {row.container_id: row for row in hf.store.sessions()}
        for container in hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session"):
            state = hf.engine.inspect(container)
            if container not in known:
                found.append(f"container {container[:12]}")
            elif state is not None and state.running and (still := victims.traced(state.pid)):
                found.append(f"{still} tasks that stand still")
        needed = {row.image for row in hf.store.sessions()} | {row.image_id for row in hf.store.snapshots()}
        images = hf.engine.images.listed(holdfast_home=hf.home.digest)
        return found + [f"image {image.id[:19]}" for image in images if image.id not in needed]

    def _clear(self) -> None:
        hf = self._holdfast
        for session in hf.sessions():
            if session.name == COPY:
                session.remove()
            elif session.state == "suspended":
                session.resume()
        for snapshot in reversed(hf.snapshots()):
            if snapshot.label != "before":
                with suppress(HoldfastError):
                    snapshot.remove()

    def _replace(self) -> None:
        self._holdfast.session(NAME).remove()
        for snapshot in self._holdfast.snapshots():
            snapshot.remove()
        self.begin()

    def begin(self) -> None:
        """Begin with the session alone."""
        session = self._holdfast.new(NAME)
        session.exec(f"cat > keeper.py <<'END'\n{_INSIDE.read_text()}\nEND")
        session.exec("python3 keeper.py serve /tmp/keeper &")
        session.exec("MARK=here; (i=0; while :; do echo $((i++)) > /tmp/count; sleep 0.05; done) &")
        session.exec("until test -S /tmp/keeper; do sleep 0.05; done")
        session.cell("block = bytes(range(256)) * 40000; digest = hash(block)")
        session.snapshot("before")


def _told(session: Session, since: datetime) -> str:
    """Return the messages about it, at once or a little later."""
    deadline = time.monotonic() + _SOON
    while True:
        events = [event for event in session.events() if event.at >= since and event.kind in _BAD]
        if events or time.monotonic() > deadline:
            return "; ".join(event.text for event in events)
        time.sleep(0.05)


def look(session: Session) -> str:
    """Return the changes in a session; none if it continues as if nothing had happened."""
    told = session.exec("echo $MARK $(jobs -rp | wc -l)")
    if told.text.strip() != "here 2":
        return f"the shell says {told.text.strip()!r} instead of 'here 2'"
    counting = session.exec(
        "c=$(cat /tmp/count)\n"
        'for n in {1..600}; do [ "$(cat /tmp/count)" != "$c" ] && break; sleep 0.05; done\n'
        'test "$n" -lt 600'
    )
    if counting.exit_code != 0:
        return "a job stands still"
    asked = session.exec("python3 keeper.py ask /tmp/keeper")
    if asked.exit_code != 0:
        return f"a program says {asked.text.strip()[-200:]!r}"
    cell = session.cell("hash(block) == digest")
    return "" if cell.text == "True" else f"the kernel says {cell.text or cell.error!r}"

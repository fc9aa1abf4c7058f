"""Power is cut at random instants of verbs: reported results are whole after the boot.

The disk with engine and home is kept as it was at each instant (`tests.machines.power`), and each of those
disks is started afterwards by an engine and a controller that do not know the others. Sessions move to a
home on this machine's engine, whose power stays. HOLDFAST_POWER_CUTS sets the number of cuts on each file
system, HOLDFAST_POWER_SEED other instants.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.machines import loop_disk
from tests.machines.power import PowerDisk
from tests.machines.second import Machine

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.errors import HoldfastError, SessionDead
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.store.store import Store
from holdfast.snapshots.bundle.keys import Keys

CUTS = {"ext4": 50, "xfs": 20}
"""How often power is cut, by the file system of the disk."""
if _cuts_wanted := os.environ.get("HOLDFAST_POWER_CUTS"):
    CUTS = dict.fromkeys(CUTS, int(_cuts_wanted))
SEED = int(os.environ.get("HOLDFAST_POWER_SEED", "1"))
LONGEST = {"snapshot": 4.0, "suspend": 4.0, "rewind": 5.0, "import": 5.0, "gc": 1.5, "move": 9.0}
"""Seconds within which a cut is drawn, about as long as the verb takes on two processors."""

VERBS = ("snapshot", "import", "suspend", "move", "snapshot", "rewind", "gc")


@pytest.fixture(autouse=True, scope="module")
def _tools() -> None:
    assert os.geteuid() == 0, "loop devices need root"
    for name in ("btrfs", *CUTS):  # disks are cloned on btrfs
        assert shutil.which(loop_disk.MAKE[name][0]), f"install {loop_disk.PACKAGES[name]}"


@dataclass(frozen=True)
class Cut:
    """A disk at one instant, the verb under way, and the results reported by then: the text that each
    snapshot has."""

    disk: Path
    verb: str
    reported: dict[str, str]
    suspended: bool
    moved: str = ""
    """The session that was being moved, and may have to be asked for."""
    arrived: bool = False
    """It ran on the other machine already."""


class Workload:
    """Verbs one after the other; knows what each of them reported."""

    def __init__(self, machine: Machine, disk: PowerDisk, bundle: Path, elsewhere: Home) -> None:
        self._machine = machine
        self._elsewhere = elsewhere
        self._moved = ""
        self._disk = disk
        self._bundle = bundle
        self._draw = random.Random(SEED)
        self._number = 0
        self._suspended = False
        self.reported: dict[str, str] = {}
        self.cuts: list[Cut] = []
        self._exported = ""
        self._own: set[str] = set()
        self._does("new", "--name", "work")
        self.snapshot()
        self._exported = self.reported["s1"]
        self._does("export", "s1", str(bundle))
        self._ssh = f"sh {_entrance(bundle.parent, elsewhere)}"
        with machine.holdfast() as hf:
            Keys(elsewhere).trust(Keys(hf.home).sending()[0].public)

    def _does(self, *arguments: str, **environment: str) -> None:
        done = self._machine.cli(*arguments, **environment)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)

    def snapshot(self) -> None:
        """Take a snapshot of a file that no other snapshot has."""
        self._number += 1
        label, text = f"s{self._number}", f"{self._draw.random()}"
        # More than the engine syncs of itself: many small files, and a larger one.
        script = f"echo {text} > text; mkdir -p m; for i in {{1..200}}; do echo {text} > m/$i; done"
        self._does("exec", "work", script)
        self._does("snapshot", "work", "--label", label)
        self.reported[label] = text
        self._own.add(label)

    def _prepare(self, verb: str) -> str:
        """Make what the verb needs; return the latest snapshot there is."""
        if verb == "import":  # one that is here already is not imported again
            own = max(self._own & self.reported.keys(), key=_number)
            self._exported = self.reported[own]
            self._bundle.unlink()
            self._does("export", own, str(self._bundle))
        if verb == "move":
            self._number += 1
            self._moved = f"guest{self._number}"
            self._does("new", "--name", self._moved)
        latest = max(self.reported, key=_number, default="")
        if verb == "gc":
            self.reported.pop(latest)
        return latest

    def once(self, verb: str) -> None:
        """Run one verb while a disk is kept at a random instant of it, or right after its end."""
        latest = self._prepare(verb)
        cutting = Cutting(self._draw.uniform(0, LONGEST[verb]), lambda: self._cut(verb))
        cutting.start()
        try:
            match verb:
                case "snapshot":
                    self.snapshot()
                case "suspend":
                    self._does("suspend", "work")
                    self._suspended = True
                case "rewind":
                    self._does("rewind", "work", latest)
                case "gc":
                    self._does("rmi", latest)
                    self._does("gc")
                case "move":
                    command = f"{sys.executable} -m holdfast"
                    words = ("move", self._moved, "elsewhere", "--remote-command", command)
                    self._does(*words, HOLDFAST_SSH=self._ssh)
                case "import":
                    self._number += 1
                    self._does("import", str(self._bundle), "--label", f"s{self._number}")
                    self.reported[f"s{self._number}"] = self._exported
        finally:
            cutting.finish()
        self._suspended, self._moved = False, ""
        if verb == "suspend":
            self._does("resume", "work")

    def _cut(self, verb: str) -> None:
        reported, suspended = dict(self.reported), self._suspended
        arrived = bool(self._moved) and self._has_arrived()
        disk = self._disk.cut(f"cut{len(self.cuts)}")
        self.cuts.append(Cut(disk, verb, reported, suspended, self._moved, arrived))

    def _has_arrived(self) -> bool:
        rows = Store.open(self._elsewhere.database).sessions()
        return any(row.name == self._moved and row.state == "running" for row in rows)


def _number(label: str) -> int:
    return int(label[1:])


class Cutting:
    """A cut after some seconds, or as soon as the verb has ended; a failure of the verb is raised."""

    def __init__(self, seconds: float, cut: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._wait, self._seconds, self._cut = threading.Event(), seconds, cut

    def start(self) -> None:
        """Begin to wait."""
        self._future = self._pool.submit(self._run)

    def _run(self) -> None:
        self._wait.wait(self._seconds)
        self._cut()

    def finish(self) -> None:
        """Cut now if it has not been done: a later instant would be the same."""
        self._wait.set()
        self._future.result()
        self._pool.shutdown()


def _entrance(folder: Path, home: Home) -> Path:
    """Return a script in the place of ssh that leads from a machine to a home next to it."""
    script = folder / "entrance"
    script.write_text(
        f"shift\nexec nsenter --target={os.getpid()} --net --mount -- "
        f'env -u DOCKER_HOST HOLDFAST_HOME={home.root} sh -c "$*"\n'
    )
    return script


def found_wrong(machine: Machine, cut: Cut) -> list[str]:
    """Look at the machine after its boot; return every deviation."""
    wrong: list[str] = []
    with machine.holdfast() as hf:
        there = {snapshot.label for snapshot in hf.snapshots()}
        wrong += [f"{label} was reported and is gone" for label in cut.reported.keys() - there]
        wrong += [f"verify: {name}" for name in hf.verify().damaged]
        for label in sorted(cut.reported.keys() & there, key=_number)[-2:]:
            wrong += _not_restored(hf, label, cut.reported[label])
        if cut.suspended and (state := hf.session("work").state) != "suspended":
            wrong.append(f"the session was suspended and is {state}")
        wrong += _move_wrong(hf, cut) if cut.moved else []
        wrong += _session_wrong(hf)
        wrong += [f"open: {row.kind}" for row in hf.store.operations.open()]
        wrong += [f"staging: {path.name}" for path in hf.home.staging.iterdir()]
        known = {row.image_id for row in hf.store.snapshots(pending=True)}
        swept = machine.cli("gc")
        wrong += [f"gc: {swept.stderr}"] if swept.returncode else []
        images = {image.id for image in hf.engine.images.listed(holdfast_home=hf.home.digest)}
        used = {each["ImageID"] for each in hf.engine.client.api.containers(all=True)}
        wrong += [f"image {image} belongs to nothing" for image in images - known - used]
    return wrong


def _not_restored(hf: Holdfast, label: str, text: str) -> list[str]:
    try:
        with hf.snapshot(label).restore() as copy:
            found = copy.exec("cat text; cat m/* | sort | uniq -c", timeout=120).text.split()
            copy.remove()
    except HoldfastError as error:
        return [f"{label} was reported and cannot be restored: {error}"]
    return [] if found == [text, "200", text] else [f"{label} was reported and has {found}, not {text}"]


def _session_wrong(hf: Holdfast) -> list[str]:
    """Return which sessions neither answer, nor can be resumed, nor are reported lost."""
    wrong = []
    for session in hf.sessions():
        if session.name.startswith("guest") and session.row.details.moving is not None:
            continue  # only the other machine knows
        try:
            if session.refresh().state == "suspended":
                session.resume()
            answer = session.exec("echo here", timeout=120).text
            wrong += [] if answer == "here\n" else [f"{session.name} answers {answer!r}"]
        except SessionDead as error:
            wrong += [f"not one line: {error}"] if "\n" in str(error) else []
        except HoldfastError as error:
            wrong.append(f"{session.name}: {error}")
    return wrong


def _move_wrong(hf: Holdfast, cut: Cut) -> list[str]:
    """Check that a session which runs on the other machine does not continue here, and that none is lost."""
    row = next((row for row in hf.store.sessions() if row.name == cut.moved), None)
    asks = row is not None and row.details.moving is not None and row.details.moving.attempt is not None
    if row is not None and cut.arrived and not asks:
        return [f"{cut.moved} had arrived, and is {row.state} here"]
    return []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="power", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize("file_system", CUTS)
def test_power_cuts(folder: Path, hf: Holdfast, tell: Callable[[str], None], file_system: str) -> None:
    """All that was reported is whole, sessions live or are reported lost, nothing is left."""
    with PowerDisk(folder, file_system) as disk:
        cuts = _cuts(folder, disk, hf.home, CUTS[file_system])
        outcomes: Counter[str] = Counter()
        wrong: list[str] = []
        for number, cut in enumerate(cuts):
            disk.start(cut.disk)
            (folder / f"after{number}").mkdir()
            with (
                closing(Engine.connect()) as engine,
                Machine(folder / f"after{number}", of=engine, disk=disk.point) as machine,
            ):
                found = found_wrong(machine, cut)
            outcomes[f"{cut.verb}: {'wrong' if found else 'whole'}"] += 1
            wrong += [f"cut {number} of {cut.verb}: {line}" for line in found]
            tell(f"cut {number} of {cut.verb}: {found or 'whole'}")
    tell(f"{outcomes}")
    assert not wrong, "\n".join(wrong)


def _cuts(folder: Path, disk: PowerDisk, elsewhere: Home, count: int) -> list[Cut]:
    (folder / "before").mkdir()
    with closing(Engine.connect()) as engine, ExitStack() as stack:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        machine = stack.enter_context(Machine(folder / "before", images, of=engine, disk=disk.point))
        os.sync()  # the machine was installed long ago
        work = Workload(machine, disk, folder / "bundle", elsewhere)
        draw = random.Random(SEED)
        while len(work.cuts) < count:
            work.once(VERBS[len(work.cuts) % len(VERBS)] if len(work.reported) > 1 else "snapshot")
            time.sleep(draw.uniform(0, 0.5))
    return work.cuts

"""Exports and imports of an ordinary session: bytes beside its image, and speed over what is in it.

It is imported by an engine beside this machine's that has no image of a session; that needs root.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.machines.second import Machine

from bench.plan import Plan
from bench.rounds import timed
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Holdfast, Snapshot
from holdfast.images import build
from holdfast.runtime.storage import snapshot_image
from holdfast.snapshots import service
from holdfast.snapshots.bundle.keys import Keys

FAMILY = "artifacts"
COMPRESSIONS = ("gzip", "zstd")
SPEED = 200e6
"""Bytes a second."""
_BESIDE = Target(30 << 20, "value", "the first push of an idle session, next to its image")
_SPEED = Target(1.0, "ratio", "at least 200 MB of content in each second")


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure the first export of a session with a kernel, and its import elsewhere."""
    session = world.session("artifact")
    session.cell("kept = list(range(100_000))")
    snapshot = session.snapshot().pack()
    stored = int(snapshot.row.details["storage"]["raw"])
    content = (
        world.holdfast.engine.images.size(snapshot_image.obtain(world.holdfast.context, snapshot.row))
        + stored
    )
    enough = Series("at 200 MB/s", "s", (content / SPEED,))
    folder = Path(tempfile.mkdtemp(dir=world.home))
    sent = {
        name: [_export(world, snapshot, folder, name) for _ in range(plan.storage)] for name in COMPRESSIONS
    }
    thin = snapshot.export(folder / "thin.holdfast", thin=True)
    yield Row(
        FAMILY, "bytes next to its image", Series("Holdfast", "bytes", (float(thin.sent),)), target=_BESIDE
    )
    imported = _imports(world, folder, plan)
    for what, seconds in (("export", sent), ("import", imported)):
        for name, taken in seconds.items():
            series = Series("Holdfast", "s", tuple(taken))
            yield Row(FAMILY, f"{what}, {name}", series, baseline=enough, target=_SPEED)
    world.forget()


def _export(world: World, snapshot: Snapshot, folder: Path, compression: str) -> float:
    """Return the seconds of an export that remembers no layer of an earlier one."""
    shutil.rmtree(world.holdfast.home.root / "cache", ignore_errors=True)
    file = folder / f"{compression}.holdfast"
    return timed(lambda: snapshot.export(file, compression=compression))


def _imports(world: World, folder: Path, plan: Plan) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in COMPRESSIONS}
    toolbox = build.ensure(world.holdfast.engine.images, "toolbox")
    key = Keys(world.holdfast.home).sending()[0].public
    with ExitStack() as started:
        # The path of a socket has 108 bytes at most (unix(7)).
        place = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp")))
        world.tell("starting an engine without images")
        machine = started.enter_context(Machine(place, [toolbox], of=world.holdfast.engine))
        there = started.enter_context(machine.holdfast())
        started.callback(_clear, there)
        Keys(there.home).trust(key)
        for name in COMPRESSIONS:
            for turn in range(plan.storage):
                world.tell(f"importing: {turn + 1} of {plan.storage}")
                file = folder / f"{name}.holdfast"
                found[name].append(timed(lambda file=file: there.import_(file)))  # type: ignore[misc]
                _forget(there)
    return found


def _forget(there: Holdfast) -> None:
    for snapshot in there.snapshots():
        snapshot.remove()


def _clear(there: Holdfast) -> None:
    _forget(there)
    service.stop(there.engine, there.home)

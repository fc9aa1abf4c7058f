"""The disk space of snapshots, and the cost of packing, unpacking, and an unchanged session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bench.plan import Plan, heap_name
from bench.rounds import timed
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Session, Snapshot
from holdfast.snapshots import files, manifest, raw, raw_cache

FAMILY = "storage"
_SHARE = Target(0.05, "ratio", "1 % of the memory changed")
_NOTHING = Target(0.02, "value", "nothing is captured")
CHANGES = {
    "one after the other": "start = random.randrange(len(heap) * 99 // 100) // 4096 * 4096; "
    "heap[start:start + len(heap) // 100] = os.urandom(len(heap) // 100)",
    "scattered": "for page in random.sample(range(len(heap) // 4096), len(heap) // 409600): "
    "heap[page * 4096 + random.randrange(4096)] ^= 1 + random.randrange(255)",
}
_TRIES = 20
_REPEATED = 5


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure an ordinary session, then heaps of random bytes."""
    yield from _ordinary(world, plan.storage)
    for heap in plan.stored:
        yield from _heap(world, heap, plan.storage)


def _ordinary(world: World, rounds: int) -> Iterator[Row]:
    session = world.session("ordinary")
    session.cell("kept = 1")
    sizes: defaultdict[str, list[float]] = defaultdict(list)
    nothing: list[float] = []
    for turn in range(rounds):
        world.tell(f"an ordinary session: {turn + 1} of {rounds}")
        session.exec("true")
        sizes["raw"].append(_stored(session.snapshot())["raw"])
        own = _stored(world.holdfast.snapshots()[-1])["own"]
        sizes["later" if turn else "first"].append(own)
        if _rest(session):
            world.await_packer()
            nothing += [timed(session.snapshot) for _ in range(_REPEATED)]
    base = _bytes("as CRIU wrote it", sizes["raw"])
    yield Row(
        FAMILY, "first snapshot of an ordinary session", _bytes("Holdfast", sizes["first"]), baseline=base
    )
    if sizes["later"]:
        yield Row(FAMILY, "later ones of the same", _bytes("Holdfast", sizes["later"]), baseline=base)
    if nothing:
        yield Row(FAMILY, "snapshot, nothing happened", _seconds("Holdfast", nothing), target=_NOTHING)
    world.forget()


def _rest(session: Session) -> bool:
    """Check whether a snapshot was taken that knows the session was idle; the next one costs nothing then."""
    return any("note" in session.snapshot().row.details for _ in range(_TRIES))


def _heap(world: World, heap: int, rounds: int) -> Iterator[Row]:
    session, group = world.session("heap"), heap_name(heap)
    session.cell(f"import os, random; heap = bytearray(os.urandom({heap}))", timeout=300)
    found: defaultdict[str, list[float]] = defaultdict(list)
    session.snapshot()
    for turn in range(rounds):
        for name, change in CHANGES.items():
            world.tell(f"{group}: 1 % {name}, {turn + 1} of {rounds}")
            session.cell(change, timeout=300)
            snapshot = session.snapshot()
            found[name].append(_stored(snapshot)["own"])
            found["raw"].append(_stored(snapshot)["raw"])
        _restores(world, session.snapshot(), found)
    base = _bytes("as CRIU wrote it", found["raw"])
    for name in CHANGES:
        yield Row(
            FAMILY,
            f"1 % changed, {name}",
            _bytes("Holdfast", found[name]),
            group,
            baseline=base,
            target=_SHARE,
        )
    for name, against in (("checked", ""), ("unpacked", "checked"), ("from packs", "plain")):
        baseline = _seconds(against, found[against]) if against else None
        what = "restore from packs" if name == "from packs" else f"images {name}"
        yield Row(FAMILY, what, _seconds("Holdfast", found[name]), group, baseline=baseline)
    world.forget()


def _restores(world: World, snapshot: Snapshot, found: defaultdict[str, list[float]]) -> None:
    home, folder = world.holdfast.home, world.holdfast.home.snapshots / snapshot.pack().id
    world.await_packer()  # it keeps the images that it reads
    kept = manifest.read(folder)

    def restore() -> None:
        made = snapshot.restore()
        made.exec("true")
        made.remove()

    found["checked"].append(timed(lambda: files.verify(folder, kept)))
    found["plain"].append(timed(restore))
    raw_cache.evict(home.snapshots, 0)
    found["unpacked"].append(timed(lambda: raw.prepare(home.root, folder, kept)))
    raw_cache.evict(home.snapshots, 0)
    found["from packs"].append(timed(restore))


def _stored(snapshot: Snapshot) -> dict[str, int]:
    return dict(snapshot.pack().row.details["storage"])


def _bytes(who: str, samples: list[float]) -> Series:
    return Series(who, "bytes", tuple(samples))


def _seconds(who: str, samples: list[float]) -> Series:
    return Series(who, "s", tuple(samples))

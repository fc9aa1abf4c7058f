"""A live snapshot returns when it is durable; it is packed later, and can be used at every moment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from tests import packing
from tests.integration.conftest import Cli

from holdfast.base import locks, polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import background_packer, packing_request, snapshot_lock, snapshot_storage
from holdfast.snapshots import raw_cache, storage

HEAP = "import os; heap = bytearray(os.urandom({} << 20))"
DIGEST = "import hashlib; hashlib.sha256(heap).hexdigest()"


def stored(snapshot: Snapshot) -> dict[str, int]:
    return dict(snapshot.row.details["storage"])


def digest(session: Session) -> str | None:
    return session.cell(DIGEST, timeout=60).text


def test_a_snapshot_is_packed_after_it_has_returned(hf: Holdfast) -> None:
    """As long as none packs, plain images serve restore, fork, reuse, verify and export; then packs alone do.

    A second one, whose parent was not packed either, costs what it changed.
    """
    session = hf.new("parent")
    session.cell(HEAP.format(32), timeout=60)
    with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
        first = session.snapshot("first")
        session.cell("heap[9] ^= 1")
        second = session.snapshot("second")
        before = digest(session)
        folders = [hf.home.snapshots / each.id for each in (first, second)]
        assert [storage.packed(folder) for folder in folders] == [False, False]
        assert stored(second)["own"] == stored(second)["raw"] > 32 << 20
        assert second.size > 32 << 20
        assert hf.verify().findings == []
        assert digest(second.restore("plain")) == before
        assert len(first.fork(2, "forked")) == 2
        hf.diff("first", "second")
        assert [storage.packed(folder) for folder in folders] == [False, False]

    assert packing.settled(hf.home)
    assert [storage.packed(folder) for folder in folders] == [True, True]
    first, second = hf.snapshot("first"), hf.snapshot("second")
    assert stored(second)["own"] < 0.1 * stored(second)["raw"]
    assert second.size < 16 << 20
    raw_cache.evict(hf.home.snapshots, 0)
    assert digest(second.restore("unpacked")) == before
    assert hf.verify().findings == []


@pytest.mark.thorough
def test_a_snapshot_is_usable_while_it_is_packed(hf: Holdfast) -> None:
    """Verified, restored, exported and removed in the middle of it; nothing of a removed one is left."""
    session = hf.new("parent")
    session.cell(HEAP.format(128), timeout=60)
    for verb in ("verify", "restore", "remove"):
        session.cell("heap[:1 << 20] = os.urandom(1 << 20)")
        with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
            snapshot = session.snapshot()
        packing_request.start(hf.home)
        folder = hf.home.snapshots / snapshot.id
        assert polling.until(partial(begun, folder), packing.PATIENCE)
        if verb == "verify":
            assert hf.verify().findings == []
        elif verb == "restore":
            assert digest(snapshot.restore()) == digest(session)
        else:
            snapshot.remove()
        assert packing.settled(hf.home)
        assert not parts(hf.home)
        assert folder.exists() == (verb != "remove")


def test_a_snapshot_being_removed_is_not_a_failure(hf: Holdfast) -> None:
    """Some of its files have been removed, its folder and its row have not: the removal is waited for."""
    session = hf.new("parent")
    with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
        snapshot = session.snapshot()
    with (
        ThreadPoolExecutor(1) as worker,
        locks.exclusive(hf.home.locks, snapshot_lock.name(snapshot.id), "remove it"),
    ):
        shutil.rmtree(hf.home.snapshots / snapshot.id / "images")
        packing_request.mark(hf.home)
        packer = worker.submit(background_packer.run, hf.home)
        assert not polling.until(lambda: packing_request.trouble(hf.home) or packer.done(), 1.0)
        shutil.rmtree(hf.home.snapshots / snapshot.id)
        hf.engine.images.remove(snapshot_storage.image_ref(snapshot.id))
        hf.store.forget_snapshot(snapshot.id)
    assert packing_request.trouble(hf.home) == ""
    assert packing.settled(hf.home)


@pytest.mark.thorough
def test_among_many_snapshots_the_sweep_is_left_to_the_packer(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting one does not read the pages of all others; pages that only it needed are removed all the
    same."""
    monkeypatch.setattr(snapshot_storage, "SWEPT_AT_ONCE", 1)
    session = hf.new("parent")
    session.snapshot("small")
    session.cell(HEAP.format(96), timeout=60)
    large = session.snapshot("large")
    session.cell("del heap")
    session.snapshot("after")
    assert packing.settled(hf.home)
    before = pack_bytes(hf.home)
    with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
        large.remove()
        assert pack_bytes(hf.home) == before
    packing_request.start(hf.home)
    assert packing.settled(hf.home)
    assert before - pack_bytes(hf.home) > 90 << 20
    assert hf.verify().findings == []


def pack_bytes(home: Home) -> int:
    return sum(path.stat().st_size for path in (home.root / "chunks" / "packs").glob("*"))


def begun(folder: Path) -> bool:
    return bool(parts(Home(folder.parent.parent))) or storage.packed(folder)


def parts(home: Home) -> list[Path]:
    return list((home.root / "chunks" / "packs").glob(".*"))


def all_packed(hf: Holdfast) -> bool:
    return all(stored(each)["packed"] for each in hf.snapshots())


@pytest.mark.thorough
def test_a_caller_that_is_killed_leaves_the_rest_to_it(hf: Holdfast, cli: Cli) -> None:
    """Its whole process group, when the command has ended; a suspended session is also packed."""
    session = hf.new("parent")
    for verb in ("snapshot", "suspend"):
        process = cli.start(verb, "parent", stdout=subprocess.DEVNULL, start_new_session=True)
        assert process.wait(60) == 0
        with suppress(ProcessLookupError):  # it left no process in its group
            os.killpg(process.pid, signal.SIGKILL)
        assert polling.until(partial(all_packed, hf), packing.PATIENCE)
    assert session.resume().exec("echo back").text == "back\n"


@pytest.mark.thorough
def test_two_callers_at_once(hf: Holdfast, make_cli: Callable[[Home], Cli]) -> None:
    """Of two sessions of one home: both are packed, by one process at a time."""
    names = ("a", "b")
    for name in names:
        hf.new(name).cell(HEAP.format(16), timeout=60)
    cli = make_cli(hf.home)
    for _ in range(2):
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda name: cli("snapshot", name), names))
        assert [one.code for one in done] == [0, 0], done
    assert packing.settled(hf.home)
    assert [row.details["storage"]["packed"] for row in hf.store.snapshots()] == [True] * 4
    assert hf.verify().findings == []


@pytest.mark.thorough
def test_a_disk_too_full_to_pack_keeps_the_snapshot(
    tmp_path: Path, make_cli: Callable[[Home], Cli], clear: Callable[[Holdfast], None]
) -> None:
    """It stays as it is, later commands say why, and `gc` packs it when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "none", disk], check=True)
    try:
        with Holdfast(disk / "home") as hf, closing(Room(disk)) as room:
            session, cli = hf.new("a"), make_cli(hf.home)
            session.cell(HEAP.format(24), timeout=60)
            with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
                snapshot = session.snapshot("kept")
                room.leave(10 << 20)
            background_packer.run(hf.home)
            assert packing_request.trouble(hf.home) == "No space left on device"
            assert list((hf.home.root / "chunks" / "packs").iterdir()) == []
            said = cli("snapshots")
            assert (said.code, "No space left on device" in said.err) == (0, True), said.err
            assert digest(snapshot.restore("copy")) == digest(session)
            room.close()
            assert cli("gc").code == 0
            assert stored(hf.snapshot("kept"))["packed"]
            assert "No space" not in cli("snapshots").err
            clear(hf)
    finally:
        subprocess.run(["umount", disk], check=True)


class Room:
    """A neighbour on a disk who leaves little room."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "neighbour"

    def leave(self, size: int) -> None:
        found = os.statvfs(self._file.parent)
        with self._file.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - size)

    def close(self) -> None:
        self._file.unlink(missing_ok=True)


@pytest.mark.thorough
def test_early_packing_leaves_shared_pages_to_the_parent(hf: Holdfast) -> None:
    """`Snapshot.pack` packs those before it first, so that it counts what it changed."""
    session = hf.new("parent")
    session.cell(HEAP.format(16), timeout=60)
    with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
        session.snapshot("first")
        session.cell("heap[9] ^= 1")
        assert session.snapshot("second").pack().size < 8 << 20
        assert stored(hf.snapshot("first"))["own"] > 16 << 20


@pytest.mark.thorough
def test_a_quota_counts_packed_bytes(hf: Holdfast) -> None:
    """Three snapshots of a heap of 32 MiB, of which a page changed, fit where two plain ones would not."""
    session = hf.new("parent", policy={"quota": "120m"})
    session.cell(HEAP.format(32), timeout=60)
    for _ in range(3):
        session.cell("heap[9] ^= 1")
        session.snapshot()
    taken = hf.snapshots()
    assert len(taken) == 3
    assert sum(each.size for each in taken) < 120 << 20

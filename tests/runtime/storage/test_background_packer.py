"""Snapshots are packed after they have returned, whatever happens to the process that does it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests import packing_steps
from tests.packing import settled
from tests.runtime.storage.packing_home import PackingHome, changed

from holdfast.base import locks
from holdfast.runtime.storage import background_packer, packing_request
from holdfast.runtime.store import peek
from holdfast.runtime.store.rows import OperationKind
from holdfast.snapshots.chunks import pack_turn, pack_upkeep, packing
from holdfast.snapshots.chunks.chunks import Chunks
from holdfast.snapshots.chunks.pack_writer import PackWriter

PAGE = 4096
STEPS = 24
"""Points at which the packer is killed, spread over its calls that change the disk."""


@pytest.fixture
def made(tmp_path: Path) -> PackingHome:
    return PackingHome(tmp_path / "home")


def steps(made: PackingHome, at: int) -> subprocess.CompletedProcess[str]:
    """Run the packer as a process that is killed at one of its steps."""
    command = [sys.executable, packing_steps.__file__, str(made.home.root), str(at)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_unpacked_snapshots_are_packed_oldest_first(made: PackingHome) -> None:
    """So that the second costs only its changes; sizes are recorded, and the mark is removed."""
    first = made.add(os.urandom(200 * PAGE))
    second = made.add(changed(made.memory[first], 17), first)
    background_packer.run(made.home)

    assert (made.stored(first)["packed"], made.stored(second)["packed"]) == (True, True)
    assert made.stored(first)["own"] > 200 * PAGE
    assert made.stored(second)["own"] < 4 * PAGE
    row = made.store.snapshot(second)
    assert row.bytes == made.stored(second)["own"] + made.stored(second)["besides"]
    assert packing_request.mark_of(made.home) is None
    assert made.whole()


def test_killed_at_any_step_it_leaves_whole_snapshots(made: PackingHome) -> None:
    """By kill -9: each is plain or packed; the next run finishes the work, and nothing is left over."""
    total = 0
    for number in range(STEPS):
        base = made.add(os.urandom(90 * PAGE))
        last = made.add(changed(made.memory[base], number), base)
        if not total:
            probe = steps(made, 1 << 30)
            total = int(probe.stdout)
            assert total > STEPS, probe.stderr
            continue
        assert steps(made, 1 + number * total // STEPS).returncode == -signal.SIGKILL
        assert made.whole()
        background_packer.run(made.home)
        assert made.stored(last)["packed"], number
        assert made.stored(last)["own"] < 4 * PAGE, number
        assert made.whole()
        for gone in (base, last):
            shutil.rmtree(made.home.snapshots / gone)
            made.store.forget_snapshot(gone)
            del made.memory[gone]
    for snapshot in made.memory:
        assert {path.name for path in (made.home.snapshots / snapshot).iterdir()} == {
            "images", "manifest.json", "baseline", "recipe",
        }  # fmt: skip
    packing_request.mark_sweep(made.home)
    background_packer.run(made.home)
    with Chunks(made.home.root) as chunks:
        needed = set(pack_upkeep.mark(chunks, made.home.snapshots.iterdir()).needed)
    assert set(made.packs()) == {f"{name}.pack" for name in needed}


def test_a_snapshot_removed_meanwhile_leaves_nothing(
    made: PackingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its folder nor pages: the packer notices when it lets others have their turn."""
    gone = made.add(os.urandom(600 * PAGE))
    kept = made.add(os.urandom(10 * PAGE))
    asked = pack_turn.PackTurn.asked
    assert isinstance(asked, property)

    def removed(turn: pack_turn.PackTurn) -> bool:
        if gone in made.memory:
            shutil.rmtree(made.home.snapshots / gone)
            made.store.forget_snapshot(gone)
            del made.memory[gone]
            return True
        return bool(asked.fget(turn)) if asked.fget else False

    monkeypatch.setattr(pack_turn.PackTurn, "asked", property(removed))
    background_packer.run(made.home)
    assert [path.name for path in made.home.snapshots.iterdir()] == [kept]
    assert len(made.packs()) == 1
    assert made.stored(kept)["packed"]
    assert packing_request.mark_of(made.home) is None
    assert made.whole()


def test_pages_that_others_remove_meanwhile_are_stored_again(
    made: PackingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that the packer found in the parent's pack can be swept while it is not its turn."""
    parent = made.add(os.urandom(300 * PAGE))
    background_packer.run(made.home)
    child = made.add(changed(made.memory[parent], 5), parent)
    sound = packing._Packing.finish
    swept: list[int] = []

    def finish(self: packing._Packing) -> int:
        written = sound(self)
        if not swept:
            shutil.rmtree(made.home.snapshots / parent)
            made.store.forget_snapshot(parent)
            del made.memory[parent]
            with Chunks(made.home.root) as chunks:
                swept.append(pack_upkeep.sweep(chunks, made.home.snapshots.iterdir())[0].removed)
        return written

    monkeypatch.setattr(packing._Packing, "finish", finish)
    background_packer.run(made.home)
    assert swept == [1]
    assert made.stored(child)["own"] > 300 * PAGE
    assert made.whole()


def test_others_have_their_turn_in_between(made: PackingHome) -> None:
    """A process that wants to change the packs waits for a window of one mebibyte, not for the snapshot."""
    big = made.add(os.urandom(24 << 20))
    packing_request.start(made.home)
    with Chunks(made.home.root) as chunks, chunks.changing(60.0):
        assert not (made.home.snapshots / big / "recipe").exists()
    assert settled(made.home)
    assert made.whole()


def test_the_packer_pauses_while_a_caller_waits(made: PackingHome) -> None:
    """For a recent operation of a live process; others can change the packs in the meantime."""
    first = made.add(os.urandom(600 * PAGE))
    row = made.store.operations.begin(OperationKind.RESTORE)
    looks, turns = 0, 0

    def awaited() -> bool:
        nonlocal looks, turns
        looks += 1
        if looks == 3:
            with Chunks(made.home.root) as others, others.changing(1.0):
                turns += 1
            made.store.operations.end(row.id, "done")
        since = datetime.now(UTC) - timedelta(seconds=60)
        return peek.awaited(made.home.database, background_packer.AWAITED, since)

    pauses = background_packer.Pauses(awaited)
    folder = made.home.snapshots / first
    with Chunks(made.home.root) as chunks:
        packing.pack(chunks, folder, first, ["images/pages-1.img"], polite=True, pauses=pauses)

    assert (looks >= 3, turns) == (True, 1)
    assert (folder / "recipe").exists()


def test_the_packer_pauses_for_half_of_the_time_at_most() -> None:
    """So that a home in which something is always awaited is packed too; each pause has its limit."""
    now, paused, longest, begun = 0.0, 0.0, 0.0, 0.0
    pauses = background_packer.Pauses(lambda: True, lambda: now)
    while now < 100.0:
        was = pauses()
        now += 0.01
        paused += 0.01 if was else 0.0
        begun = begun if was else now
        longest = max(longest, now - begun)

    assert 40.0 < paused < 56.0
    assert longest < background_packer.PAUSE_SECONDS + 0.1


@pytest.mark.parametrize(
    ("kind", "begun", "is_alive", "expected"),
    [
        (OperationKind.RESTORE, 1, True, True),
        (OperationKind.RESTORE, 1, False, False),
        (OperationKind.RESTORE, 60, True, False),
        (OperationKind.CI, 1, True, False),
    ],
)
def test_only_a_new_operation_of_a_live_process_is_awaited(
    made: PackingHome, kind: OperationKind, begun: int, *, is_alive: bool, expected: bool
) -> None:
    """Abandoned operations, or ones that take minutes in any case, do not hold up the packer."""
    row = made.store.operations.begin(kind)
    started = datetime.now(UTC) - timedelta(seconds=begun)
    made.store.operations.update(row.id, started_at=started, **({} if is_alive else {"owner_start": "x"}))

    since = datetime.now(UTC) - timedelta(seconds=background_packer.PAUSE_SECONDS)
    assert peek.awaited(made.home.database, background_packer.AWAITED, since) is expected


def test_one_packer_works_in_a_home(made: PackingHome) -> None:
    """A second one returns immediately, and starts none; the mark stays for the one that works."""
    made.add(os.urandom(10 * PAGE))
    with locks.whole_file(packing_request.lock_of(made.home), 0.0):
        background_packer.run(made.home)
        assert packing_request.at_work(made.home)
        assert made.packs() == []
    assert packing_request.mark_of(made.home) is not None
    assert settled(made.home)
    assert len(made.packs()) == 1


def test_a_mark_made_meanwhile_is_not_removed(made: PackingHome) -> None:
    """It can be for a snapshot that the packer has not seen."""
    packing_request.mark(made.home)
    seen = packing_request.mark_of(made.home)
    packing_request.mark(made.home)
    assert not packing_request.clear(made.home, seen)
    assert packing_request.clear(made.home, packing_request.mark_of(made.home))


def test_a_failed_packing_is_reported_and_tried_again(
    made: PackingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot stays as it was; the next attempt is made a minute later, and no earlier."""
    plain = made.add(os.urandom(40 * PAGE))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PackWriter, "sync", full)
        background_packer.run(made.home)
    assert packing_request.trouble(made.home) == "No space left on device"
    assert not packing_request.due(made.home)
    assert made.packs() == []
    assert (made.stored(plain)["packed"], made.whole()) == (False, True)

    monkeypatch.setattr(packing_request, "AGAIN_SECONDS", 0.0)
    packing_request.postpone(made.home, "No space left on device")
    background_packer.run(made.home)
    assert (made.stored(plain)["packed"], packing_request.trouble(made.home)) == (True, "")


def test_a_removed_home_ends_the_packer(made: PackingHome) -> None:
    """Also in the middle: it writes nothing more."""
    made.add(os.urandom(10 * PAGE))
    shutil.rmtree(made.home.root)
    background_packer.run(made.home)
    assert not made.home.root.exists()


def test_the_packer_has_the_lowest_priority(made: PackingHome) -> None:
    """Nice 19, and the idle class of the disk, in a session of its own; `ionice` reports what is set."""
    code = (
        "from holdfast.runtime.storage import background_packer as one; import os, subprocess; "
        "one.stand_back(); print(os.nice(0), subprocess.check_output(['ionice', '-p', str(os.getpid())]))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("19 b'idle")


def test_it_has_the_lowest_priority_before_it_has_loaded_anything(
    made: PackingHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its start costs more than packing a little; where sessions of processes share first, its own has it.

    It also has the lock, so that the next command does not start a second one.
    """
    waits = tmp_path / "waits"
    waits.write_text("#!/bin/sh\nexec sleep 60\n")
    waits.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(waits))
    began: list[subprocess.Popen[bytes]] = []
    begin = subprocess.Popen

    def seen(*words: object, **how: object) -> subprocess.Popen[bytes]:
        began.append(begin(*words, **how))  # type: ignore[call-overload]
        return began[0]

    monkeypatch.setattr(subprocess, "Popen", seen)
    packing_request.mark(made.home)
    packing_request.start(made.home)
    packing_request.start(made.home)
    (packer,) = began
    assert packing_request.at_work(made.home)
    try:
        assert os.getpriority(os.PRIO_PROCESS, packer.pid) == packing_request.LOWEST
        group = Path(f"/proc/{packer.pid}/autogroup")
        assert not group.exists() or group.read_text().endswith(f"nice {packing_request.LOWEST}\n")
    finally:
        packer.kill()

"""Slow tests of rewinds and retention: a hundred generations, kills at random, rarer states."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, QuotaExceeded, SnapshotInUse
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import autosnapshot
from holdfast.runtime.retention import garbage
from holdfast.runtime.storage import snapshot_image
from holdfast.runtime.store.policy import Policy

INSIDE = Path(__file__).parents[2] / "inside"
GENERATIONS = 100
KILLS = 25
# An engine stacks no more layers than this (overlay2).
LAYERS = 125


def _address(hf: Holdfast, session: Session) -> Any:
    state = hf.engine.inspect(hf.context.session_row(session.id).container_id or "")
    assert state is not None
    return state.addresses


def test_a_hundred_generations(hf: Holdfast, capsys: pytest.CaptureFixture[str]) -> None:
    """Captured and rewound a hundred times: state and files are right each time, layers stay few."""
    work = hf.new("work")
    seconds: list[float] = []
    layers = 0
    for number in range(GENERATIONS):
        begin = time.monotonic()
        work.exec(f"generation={number}; echo {number} >> /srv/generations; mkdir -p /srv/d{number % 7}")
        taken = work.snapshot()
        work.exec("generation=lost; rm -r /srv/generations")
        work.rewind("@-1", discard=True)
        seconds.append(time.monotonic() - begin)
        image = hf.engine.client.images.get(snapshot_image.obtain(hf.context, taken.row))
        layers = max(layers, len(image.attrs["RootFS"]["Layers"]))
        assert work.exec("echo $generation; wc -l < /srv/generations").text == f"{number}\n{number + 1}\n"
    assert work.refresh().row.generation == GENERATIONS
    assert layers < LAYERS
    assert hf.snapshots()[GENERATIONS // 2].restore("half").exec("echo $generation").text == "50\n"
    tenth = GENERATIONS // 10
    parts = [sorted(seconds[at : at + tenth])[tenth // 2] for at in range(0, GENERATIONS, tenth)]
    with capsys.disabled():
        sys.stdout.write(f"\nseconds a generation, medians of tenths: {[round(part, 2) for part in parts]}\n")
        sys.stdout.write(f"layers at most: {layers}\n")


@pytest.mark.parametrize("step", ["restored", "proven", "switched", "killed"])
def test_a_killed_rewind_is_finished_or_undone(hf: Holdfast, cli: Any, step: str) -> None:
    """After each step, the next process finds the session unchanged, or rewound."""
    work = hf.new("work")
    address = _address(hf, work)
    work.exec("step=1")
    work.snapshot("first")
    work.exec("step=2")
    dying = [sys.executable, str(INSIDE / "dying_rewind.py"), step]
    assert subprocess.run(dying, env=cli.environment, check=False).returncode == -signal.SIGKILL

    assert cli("exec", "work", "echo $step").out == ("2\n" if step == "restored" else "1\n")
    assert _address(hf, work) == address
    assert len(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")) == 1


def test_garbage_collection_killed_anywhere_loses_nothing(hf: Holdfast, cli: Any) -> None:
    """Several branches, killed at random points again and again: all that should remain can be restored."""
    dice = random.Random(4)
    work = hf.new("work", policy={"keep": 100})
    wanted: dict[str, str] = {}
    for number in range(6):
        work.exec(f"value={number}; echo {number} > /srv/value")
        if number % 3 == 2:
            wanted[work.snapshot(f"manual-{number}").id] = str(number)
        else:
            autosnapshot.take(hf.context, work.id, Policy(keep=100), "every", "x")
        if number == 3:
            pinned = hf.snapshots()[-1].pin()
            wanted[pinned.id] = "3"
            side = pinned.restore("side")
            side.exec("value=side; echo side > /srv/value")
            wanted[side.snapshot("on-the-side").id] = "side"
            work.rewind(pinned)
    base = hf.snapshots()[0]
    user = base.restore("user")
    wanted[base.id] = "0"
    work.policy(keep=0)
    for _ in range(KILLS):
        dying = [sys.executable, str(INSIDE / "dying_gc.py"), str(dice.randrange(60))]
        done = subprocess.run(dying, env=cli.environment, check=False, capture_output=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
    garbage.collect(hf.context)

    there = {row.id for row in hf.store.snapshots()}
    assert set(wanted) <= there
    assert {row.id for row in hf.store.snapshots() if "auto" in row.details} <= set(wanted)
    for snapshot_id, value in wanted.items():
        copy = hf.snapshot(snapshot_id).restore()
        assert copy.exec("echo $value; cat /srv/value").text == f"{value}\n{value}\n"
        copy.remove()
    assert user.exec("echo $value").text == "0\n"
    assert list(garbage.find(hf.context)) == []


def test_a_dead_session_is_rewound(hf: Holdfast) -> None:
    """Its container has been removed; it comes back under its name and address."""
    work = hf.new("work")
    address = _address(hf, work)
    work.exec("step=1")
    work.snapshot("first")
    hf.engine.kill_remove(work.row.container_id or "")

    found = hf.session("work").rewind("@-1")

    assert found.session.exec("echo $step").text == "1\n"
    assert _address(hf, found.session) == address
    assert found.kept is None


def test_a_taken_address_is_reported(hf: Holdfast) -> None:
    """If another container has taken the address, the session gets a new one, and reports it."""
    work = hf.new("work")
    work.exec("step=1")
    work.snapshot("first")
    before = _address(hf, work)
    hf.engine.kill_remove(work.row.container_id or "")
    other = hf.new("other")
    while _address(hf, other) != before:  # the engine assigns the lowest free one
        other = hf.new()

    found = hf.session("work").rewind("first")

    assert _address(hf, found.session) != before
    assert "address" in found.deviations[0]
    assert found.session.exec("echo $step").text == "1\n"


def test_only_snapshots_of_its_lineage_unless_forced(hf: Holdfast) -> None:
    """A snapshot of another session is refused by name; with force it is restored there."""
    work, other = hf.new("work"), hf.new("other")
    other.exec("whose=others")
    foreign = other.snapshot("foreign")
    with pytest.raises(InvalidArgument, match="not in its lineage"):
        work.rewind(foreign)

    work.rewind("foreign", force=True, discard=True)

    assert work.exec("echo $whose $HOSTNAME").text.split()[0] == "others"
    assert other.exec("echo $whose").text == "others\n"
    assert work.snapshot().parent_id == foreign.id


def test_automatic_snapshots_make_room_and_manual_ones_do_not(hf: Holdfast) -> None:
    """The oldest automatic one goes; when only manual and pinned ones are left, the capture is refused."""
    work = hf.new("work")
    for _ in range(2):
        work.exec("head -c 3000000 /dev/urandom > /srv/data")
        autosnapshot.take(hf.context, work.id, Policy(kind="filesystem"), "every", "1 command")
    first, second = hf.snapshots()
    first.pin()
    work.exec("head -c 3000000 /dev/urandom > /srv/data")
    hf.keeping.quota = first.size + second.size + 1_000_000

    manual = work.snapshot("manual", "filesystem")
    assert [each.name for each in hf.snapshots()] == [first.name, "manual"]
    with pytest.raises(QuotaExceeded, match="this home") as refused:
        work.snapshot("more", "filesystem")

    assert "quota" in refused.value.hint
    assert [each.id for each in hf.snapshots()] == [first.id, manual.id]
    first.pin(pinned=False)
    assert work.snapshot("more", "filesystem").parent_id == manual.id
    assert [each.name for each in hf.snapshots()] == ["manual", "more"]


def test_a_snapshot_in_the_middle_of_a_tree_can_be_removed(hf: Holdfast) -> None:
    """Its successors follow its predecessor, and can be restored; a session restored from it continues."""
    work = hf.new("work")
    work.exec("step=1")
    first = work.snapshot("first")
    work.exec("step=2")
    middle = work.snapshot("middle")
    work.exec("step=3")
    work.snapshot("last")
    fork = middle.restore("fork")

    middle.remove()

    assert hf.snapshot("last").parent_id == first.id
    assert hf.snapshot("last").restore("again").exec("echo $step").text == "3\n"
    assert fork.exec("echo $step").text == "2\n"
    assert hf.session("fork").rewind("@-1", discard=True).snapshot.id == first.id
    assert fork.exec("echo $step").text == "1\n"


def test_a_snapshot_being_restored_is_not_removed(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal during a restore is refused, and garbage collection skips it."""
    from holdfast.runtime.restore.restore_session import ArrivedSession, Restoring

    work = hf.new("work", policy={"keep": 0})
    autosnapshot.take(hf.context, work.id, Policy(kind="filesystem"), "every", "x")
    assert hf.snapshots() == []  # its policy keeps none
    work.policy(keep=1)
    autosnapshot.take(hf.context, work.id, Policy(kind="filesystem"), "every", "x")
    taken = hf.snapshots()[0]
    work.policy(keep=0)
    real = Restoring.containers
    found: list[Any] = []

    def meanwhile(self: Restoring, *what: Any) -> list[ArrivedSession]:
        with pytest.raises(SnapshotInUse):
            taken.remove()
        found.extend(garbage.collect(hf.context))
        return real(self, *what)

    monkeypatch.setattr(Restoring, "containers", meanwhile)
    copy = taken.restore("copy")

    assert copy.exec("echo fine").text == "fine\n"
    assert [each.id for each in hf.snapshots()] == [taken.id]

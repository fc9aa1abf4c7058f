from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime.orchestration import context_of

from holdfast.base.background import Background
from holdfast.base.home import Home
from holdfast.engine.engine_images import ListedImage
from holdfast.errors import SnapshotInUse, SnapshotNotFound, StoreError
from holdfast.runtime.retention import garbage, prune
from holdfast.runtime.storage import snapshot_lock
from holdfast.runtime.store.row_details import SessionDetails, SnapshotDetails
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store
from holdfast.runtime.store.waiting import WaitingRow


def _image(*tags: str, created: float = 10.0, id_: str = "sha256:1") -> ListedImage:
    return ListedImage(id_, tags, {}, 5, created)


def _stale(image: ListedImage, needed: set[str] | None = None, used: set[str] | None = None) -> list[str]:
    return garbage.stale(image, frozenset(needed or ()), frozenset(used or ()), 100.0)


def test_an_unused_old_image_of_ours_can_be_removed() -> None:
    """All its names are ours, no container was made from it, this version wants another."""
    assert _stale(_image("holdfast/session:abc")) == ["holdfast/session:abc"]
    assert _stale(_image("holdfast/toolbox:abc", "holdfast/toolbox:def")) == [
        "holdfast/toolbox:abc",
        "holdfast/toolbox:def",
    ]


@pytest.mark.parametrize(
    ("image", "needed", "used"),
    [
        (_image("debian:13"), set(), set()),
        (_image("holdfast/sessions:abc"), set(), set()),
        (_image("me/holdfast/session:abc"), set(), set()),
        (_image("holdfast/snapshot:abc"), set(), set()),
        (_image("holdfast/session:abc", "mine:latest"), set(), set()),
        (_image(), set(), set()),
        (_image("holdfast/session:abc", created=200.0), set(), set()),
        (_image("holdfast/session:abc"), {"holdfast/session:abc"}, set()),
        (_image("holdfast/session:abc"), set(), {"holdfast/session:abc"}),
        (_image("holdfast/session:abc"), set(), {"sha256:1"}),
    ],
)
def test_any_other_image_stays(image: Any, needed: set[str], used: set[str]) -> None:
    """Foreign ones, differently named ones, young, wanted, or used ones."""
    assert _stale(image, needed, used) == []


def test_a_quota_is_set_and_lifted(home: Home) -> None:
    """There is none at first; an unreadable one does not count as none."""
    assert prune.quota(home) is None
    prune.set_quota(home, 5)
    assert prune.quota(home) == 5
    prune.set_quota(home, None)
    assert prune.quota(home) is None
    (home.root / prune.FILE).write_text("[")
    with pytest.raises(StoreError, match="cannot read"):
        prune.quota(home)
    (home.root / prune.FILE).write_text(json.dumps({"quota": "much"}))
    assert prune.quota(home) is None


@pytest.fixture
def controller(home: Home) -> Any:
    return SimpleNamespace(home=home, store=Store.open(home.database))


def _taken(controller: Any) -> Any:
    session = controller.store.add_session("work", "i", {})
    row = controller.store.add_snapshot(session.id, "live")
    return controller.store.update_snapshot(row.id, state="ready")


def test_expired_snapshots_are_found_in_one_pass(controller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions there are: each snapshot is read twice, of all and of its session."""
    auto = SnapshotDetails.of(auto={"trigger": "every"})
    expected = set()
    for number in range(12):
        session = controller.store.add_session(f"s{number}", "i", {})
        session = controller.store.update_session(session.id, details=SessionDetails(policy={"keep": 1}))
        taken = [controller.store.add_snapshot(session.id, "live") for _ in range(3)]
        for row in taken:
            details = auto if number % 2 else SnapshotDetails()
            controller.store.update_snapshot(row.id, state="ready", details=details)
        expected |= {row.id for row in taken[:2]} if number % 2 else set()
    read: list[int] = []
    snapshots = Store.snapshots

    def counted(*args: Any, **named: Any) -> Any:
        found = snapshots(*args, **named)
        read.append(len(found))
        return found

    monkeypatch.setattr(Store, "snapshots", counted)

    assert {row.id for _, row in prune.overdue(controller)} == expected
    assert sum(read) == 36 + 18


def test_a_snapshot_in_use_by_many_is_not_removed(controller: Any) -> None:
    """Restores do not wait for each other; a removal is refused during them, and succeeds afterwards."""
    row = _taken(controller)
    with ExitStack() as restores:
        for _ in range(3):
            restores.enter_context(snapshot_lock.used(controller, row))
        with pytest.raises(SnapshotInUse, match="restored"), snapshot_lock.removing(controller, row):
            raise AssertionError
    with (
        snapshot_lock.removing(controller, row),
        pytest.raises(SnapshotNotFound),
        snapshot_lock.used(controller, row),
    ):
        raise AssertionError
    assert list(controller.home.locks.iterdir()) == []


def test_removed_snapshots_cannot_be_used(controller: Any) -> None:
    """A caller that waited learns of the removal, and leaves no lock behind."""
    row = _taken(controller)
    controller.store.forget_snapshot(row.id)

    with pytest.raises(SnapshotNotFound), snapshot_lock.used(controller, row):
        raise AssertionError
    assert list(controller.home.locks.iterdir()) == []


def test_background_work_is_done_in_order() -> None:
    """Each job waits for earlier ones; `settle` waits for all, and from within a job for nothing."""
    background, done = Background(), []
    gate = threading.Event()

    def first() -> None:
        gate.wait(60)
        background.settle()
        done.append(1)

    background.start(first)
    threading.Timer(0, gate.set).start()
    background.start(lambda: done.append(2))
    background.settle()

    assert done == [1, 2]


AT_THE_END = """
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from holdfast.base.background import Background

def work():
    threading.Event().wait(0.5)  # the main thread has nothing more to do meanwhile
    with ThreadPoolExecutor(1) as pool:
        print(pool.submit(lambda: "whole").result())

Background().start(work)
"""


def test_background_work_at_the_end_of_a_process_is_completed() -> None:
    """A process with nothing more to do waits for it, and thread pools still take work."""
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.stdout, done.stderr) == ("whole\n", "")


def test_abandoned_downloads_can_be_removed(controller: Any) -> None:
    """Data on its way to or from a registry stays while a process uses it."""
    now = time.time()
    for name, age in (("downloads/old", 7200), ("downloads/new.part", 60), ("uploads/old.json", 7200)):
        path = controller.home.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text")
        os.utime(path, (now - age, now - age))
    found = list(garbage.transfers(controller.home))
    assert [each.name for each in found] == ["downloads/old", "uploads/old.json"]
    for each in found:
        each.remove()
    assert [path.name for path in (controller.home.root / "downloads").iterdir()] == ["new.part"]


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """An engine that runs nothing."""
    engine = FakeEngine()
    monkeypatch.setattr(engine, "images_in_use", frozenset)
    return engine


def test_built_and_loaded_images_stay_while_a_session_uses_them(home: Home, idle: FakeEngine) -> None:
    """Its container has the fitted image; that it came from this one is among its options."""
    context = context_of(home, idle)
    name = "holdfast/provided:app-0123456789ab"
    idle.images.add("sha256:1", name)
    row = context.store.add_session("work", "holdfast/fitted:1", {"image": name})
    assert list(garbage._stale_images(context, timedelta(days=7))) == []
    context.store.update_session(row.id, state="removed")
    assert list(garbage._stale_images(context, timedelta(days=7))) == [(name, 1)]


def test_the_archive_of_the_guest_can_be_removed_when_nothing_is_fitted(home: Home, idle: FakeEngine) -> None:
    context = context_of(home, idle)
    (home.root / "cache").mkdir()
    path = home.root / "cache" / "portable-0123456789ab.tar"
    path.write_bytes(b"1")
    assert list(garbage._stale(context, timedelta(days=7))) == []
    os.utime(path, (0, 0))
    (found,) = garbage._stale(context, timedelta(days=7))
    assert (found.kind, found.name) == ("file", "cache/portable-0123456789ab.tar")
    found.remove()
    assert not path.exists()


def test_the_folder_of_a_session_for_the_pool_stays_while_it_is_made_and_waits(
    home: Home, idle: FakeEngine
) -> None:
    """It does not have a row among the sessions, first only an open operation and then a row of its own."""
    context, made = context_of(home, idle), "0123456789ab"
    (home.run / made).mkdir(parents=True)

    def found() -> list[str]:
        return [each.name for each in garbage._folders(context) if each.kind == "folder"]

    operation = context.store.operations.begin(OperationKind.POOL, session_id=made)
    assert found() == []
    context.store.waiting.add(WaitingRow(made, "digest", "image", "c" * 64, 1, ""))
    context.store.operations.end(operation.id, "done")
    assert found() == []
    assert context.store.waiting.claim(made)
    assert found() == [f"run/{made}"]

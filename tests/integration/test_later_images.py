"""Images of snapshots are made when they are needed: a snapshot is whole without, whatever happens before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests import packing

from holdfast.base import locks
from holdfast.errors import SnapshotDamaged
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import packing_request, snapshot_storage
from holdfast.snapshots.layer import unmade_image

PLACES = "/srv /usr/share/doc /etc/issue"
# Of folders not the number of links, which an overlay counts otherwise once layers are merged.
SEEN = (
    f"find {PLACES} -type d -printf '%p %m %T@\\n' 2>&1 | sort; "
    f"find {PLACES} ! -type d -printf '%p %y %m %n %s %T@ %l\\n' 2>&1 | sort; "
    "find /srv -type f | sort | xargs sha256sum"
)
STEPS = (
    "mkdir /srv/in; seq 9 > /srv/in/f; ln /srv/in/f /srv/g; rm /etc/issue; truncate -s 3M /srv/holes",
    "rm -r /usr/share/doc; mkdir /usr/share/doc; echo 2 >> /srv/in/f; echo x > /etc/issue; mkfifo /srv/in/p",
    "mv /srv/in /srv/moved; rm /etc/issue; echo 3 > /srv/g",
)
KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.engine.engine import Engine
from holdfast.snapshots.layer import image, unmade_image
engine, folder, step = Engine.connect(), Path(sys.argv[1]), sys.argv[2]
def end(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if step == "begun":
    unmade_image._make = end
elif step == "reading":
    read = image.as_archive
    def cut(*given):
        yield next(read(*given))
        end()
    image.as_archive = cut
elif step == "loaded":
    load = engine.images.load
    engine.images.load = lambda *given: end(load(*given))
elif step == "synced":
    unmade_image.release = end
else:
    unmade_image.shutil.rmtree = end
print(unmade_image.settle(engine, folder.parent, {folder.name}))
"""


@pytest.fixture
def idle(hf: Holdfast) -> Iterator[None]:
    """Have nothing made in the background."""
    with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
        yield


def is_unmade(hf: Holdfast, snapshot: Snapshot) -> bool:
    """Check that the engine does not have the image, and that the snapshot has what it is made of."""
    folder = hf.home.snapshots / snapshot.id
    return hf.engine.images.id(snapshot.row.image_id or "") is None and unmade_image.read(folder) is not None


def seen(session: Session) -> str:
    return session.exec(SEEN, timeout=60).text


@pytest.mark.usefixtures("idle")
def test_snapshots_are_whole_before_their_images_are_made(hf: Holdfast, tmp_path: Path) -> None:
    """Of a chain whose earlier ones were removed, from an export, in a comparison, after the session ended.

    Deletions, folders in place of others, names of one file, holes: all is as in an image of the engine.
    """
    work = hf.new("work")
    taken, then = [], []
    for step in STEPS:
        work.exec(step)
        taken.append(work.snapshot())
        then.append(seen(work))
    assert all(is_unmade(hf, each) for each in taken)
    again = work.snapshot("again")  # perhaps without a capture
    taken[0].remove()
    work.remove()
    snapshot_storage.sweep_images(hf.context)

    second, third = taken[1:]
    second.export(tmp_path / "second.hf")
    assert seen(third.restore("three")) == then[2]
    assert is_unmade(hf, again) or again.row.image_id == third.row.image_id
    assert {each.path for each in hf.diff(second.id, third.id).files} >= {"/srv/moved/p", "/etc/issue"}
    assert seen(second.restore("two")) == then[1]
    for each in (second, third):
        each.remove()
    assert seen(again.restore("more")) == then[2]
    assert seen(hf.import_(tmp_path / "second.hf").restore("back")) == then[1]


@pytest.mark.usefixtures("idle")
def test_copies_at_once_make_the_image_once(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five restores and a fork of three, by threads that are independent of each other."""
    snapshot = hf.new("work").snapshot()
    assert is_unmade(hf, snapshot)
    loads: list[Any] = []
    make = unmade_image._make
    monkeypatch.setattr(unmade_image, "_make", lambda *given: loads.append(make(*given)))
    with ThreadPoolExecutor(3) as pool:
        made = [pool.submit(snapshot.restore) for _ in range(2)]
        made.append(pool.submit(lambda: snapshot.fork(2)[0]))
        assert all(each.result().exec("echo here").text == "here\n" for each in made)
    assert len(loads) == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("step", ["begun", "reading", "loaded", "synced", "removing"])
def test_a_process_that_is_killed_while_it_makes_an_image_costs_its_work_only(
    hf: Holdfast, step: str
) -> None:
    """Before the engine is asked, while it reads, when it has the image, when that is on its disk."""
    work = hf.new("work")
    work.exec(STEPS[0])
    snapshot, then = work.snapshot(), seen(work)
    folder = hf.home.snapshots / snapshot.id
    died = subprocess.run([sys.executable, "-c", KILLED, str(folder), step], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died
    assert seen(snapshot.restore()) == then
    assert hf.verify().ok
    assert not unmade_image.folders(hf.home.snapshots)
    assert seen(snapshot.restore()) == then


@pytest.mark.usefixtures("idle")
def test_images_that_others_remove_are_made_again_or_named(hf: Holdfast, cli: Any) -> None:
    """Its name, its image, and at last the image below its files, which nothing can replace."""
    work = hf.new("work")
    work.exec(STEPS[0])
    first, then = work.snapshot("first"), seen(work)
    hf.engine.images.remove(f"holdfast/snapshot:{first.id}")
    copy = first.restore()
    assert seen(copy) == then
    copy.remove()
    hf.engine.images.remove(first.row.image_id or "")
    assert cli("verify").code == 0
    assert hf.engine.images.id(f"holdfast/snapshot:{first.id}") == first.row.image_id

    work.exec(STEPS[1])
    second = work.snapshot("second")
    assert is_unmade(hf, second)
    first.remove()
    hf.engine.images.remove(f"holdfast/snapshot:{second.id}")
    with pytest.raises(SnapshotDamaged, match="the image below its files was removed"):
        second.restore()
    assert cli("verify", "--json").json["damaged"] == ["second"]
    third = work.snapshot("third")
    assert seen(third.restore()) == seen(work)
    assert work.exec("echo here").text == "here\n"


@pytest.mark.usefixtures("idle")
def test_a_copy_that_cannot_be_kept_leaves_no_snapshot(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the copy is to be moved: the session continues, and the next one is whole."""
    work = hf.new("work")
    before = set(hf.home.snapshots.iterdir())
    write = unmade_image.write

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(unmade_image, "write", full)
    with pytest.raises(Exception, match=r"[nN]o space left"):
        work.snapshot()
    assert set(hf.home.snapshots.iterdir()) == before
    assert not list(hf.home.staging.iterdir())
    monkeypatch.setattr(unmade_image, "write", write)
    assert work.snapshot().restore().exec("echo here").text == "here\n"


@pytest.mark.usefixtures("idle")
def test_images_of_a_lost_snapshot_are_garbage(hf: Holdfast, cli: Any) -> None:
    """Its row has been removed, its folder and the name in the engine have not; the session's own image
    stays."""
    work = hf.new("work")
    snapshot = work.snapshot()
    ref = f"holdfast/snapshot:{snapshot.id}"
    assert hf.engine.images.id(ref) == hf.engine.images.id(work.row.image)
    hf.store.forget_snapshot(snapshot.id)
    assert cli("gc").code == 0
    assert hf.engine.images.id(ref) is None
    assert hf.engine.images.id(work.row.image) is not None
    assert not list(hf.home.snapshots.iterdir())


@pytest.mark.usefixtures("idle")
def test_a_copy_that_was_changed_is_refused(hf: Holdfast) -> None:
    """Each image is made of the captured files, or not at all."""
    work = hf.new("work")
    work.exec(STEPS[0])
    snapshot = work.snapshot("bad")
    data = hf.home.snapshots / snapshot.id / unmade_image.FOLDER / "0" / "data"
    data.write_bytes(bytes(data.stat().st_size))
    with pytest.raises(SnapshotDamaged, match="the copy of its files does not match its digest"):
        snapshot.restore()
    assert hf.engine.images.id(snapshot.row.image_id or "") is None


def test_the_packer_makes_remaining_images(hf: Holdfast) -> None:
    """Also of a snapshot of files only; the copies are removed then, and the images are complete."""
    work = hf.new("work")
    work.exec(STEPS[0])
    with locks.whole_file(packing_request.lock_of(hf.home), 60.0):
        live, files = work.snapshot(), work.snapshot(kind="filesystem")
        assert is_unmade(hf, live)
        assert is_unmade(hf, files)
    assert packing.settled(hf.home)
    assert not unmade_image.folders(hf.home.snapshots)
    for each in (live, files):
        assert hf.engine.images.id(f"holdfast/snapshot:{each.id}") == each.row.image_id
        assert seen(each.restore()) == seen(work)

"""The same on both image stores of an engine: Docker's own store, as the reference, and containerd's
store."""

from __future__ import annotations

import hashlib
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.machines.registry import Registry
from tests.machines.second import Machine

from holdfast.base.home import Home
from holdfast.engine import image_store
from holdfast.engine.image_store import ImageStore
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.storage import snapshot_image
from holdfast.snapshots import record, service
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.layer import oci

# A new file, a changed and a deleted one of the image, and one that is open when the session is frozen.
CHANGE = (
    "cd /srv; MOMENT=kept; echo new > new; rm /etc/motd; echo more >> /etc/debian_version; "
    "echo held > held; exec 9<held; sleep 5000 &"
)
LOOK = "echo $MOMENT; cat /srv/new; ls /etc/motd 2>&1; tail -n 1 /etc/debian_version; cat <&9; pgrep -c sleep"
SEEN = ["kept", "new", "ls: cannot access '/etc/motd': No such file or directory", "more", "held", "1"]


@pytest.fixture
def session(there: Holdfast) -> Session:
    made = there.new("work")
    assert made.exec(CHANGE).ok
    return made


def test_the_machines_have_the_stores(machines: dict[str, Machine]) -> None:
    """Otherwise nothing here would be proved."""
    found = {name: machine.engine.layers.store() for name, machine in machines.items()}
    assert found == {"overlay2": ImageStore.OVERLAY2, "containerd": ImageStore.CONTAINERD}
    assert {machine.engine.info()["ServerVersion"].split("+")[0] for machine in machines.values()} == {
        "26.1.5"
    }


def test_no_file_is_committed_during_a_freeze(
    there: Holdfast, session: Session, tell: Callable[[str], None]
) -> None:
    """They were copied before it; so also in a copy, whose image is a snapshot's."""
    taken = session.snapshot("one")
    copy = taken.restore("copy")
    begun = time.monotonic()
    again = copy.snapshot("two")
    took = time.monotonic() - begun
    deep = again.restore("deep")

    assert [one.row.details["files_by"] for one in (taken, again)] == ["copy", "copy"]
    assert deep.exec(LOOK).text.splitlines() == SEEN
    store, frozen = there.engine.layers.store().value, again.row.details["frozen_seconds"]
    tell(f"{store}: frozen {frozen:.3f} s of {took:.1f} s")


def test_files_written_below_a_read_only_root_are_kept(there: Holdfast) -> None:
    """Mounts of the same files hide none of them from the copy, and its root is read-only as well."""
    session = there.new("held", read_only=True, writable=["/srv"])
    assert session.exec("echo new >/srv/new; exec 9<>/workspace/file; echo held >&9; MOMENT=kept").ok
    taken = session.snapshot("held-one")
    assert taken.row.details["files_by"] == "copy"
    for copy in (taken.restore("live"), session.snapshot("held-two", "filesystem").restore("files")):
        assert copy.exec("cat /srv/new /workspace/file").text.split() == ["new", "held"]
        assert copy.exec("touch /etc/x").exit_code == 1


def test_files_alone_are_kept(session: Session) -> None:
    """Paused, not frozen."""
    copy = session.snapshot("one", "filesystem").restore("copy")

    assert copy.exec("cat /srv/new; ls /etc/motd").text.splitlines()[0] == "new"


def test_sessions_are_suspended_resumed_and_rewound(session: Session) -> None:
    """They lose nothing, and changes after the capture are undone."""
    session.suspend()
    session.resume()
    taken = session.snapshot("one")
    session.exec("rm /srv/new; MOMENT=later; pkill sleep")
    session.rewind("one")

    assert taken.row.details["files_by"] == "copy"
    assert session.exec(LOOK).text.splitlines() == SEEN


def test_large_files_are_not_held_in_memory(there: Holdfast, session: Session) -> None:
    """The image is made while it is read, piece by piece."""
    session.exec("head -c 400M /dev/urandom > /srv/large", timeout=120)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = session.snapshot("one")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert taken.row.details["files_by"] == "copy"
    assert after - before < 100 << 10
    assert there.engine.images.size(snapshot_image.obtain(there.context, taken.row)) > 400 << 20


def test_many_generations_become_one_layer(
    there: Holdfast, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of snapshots are put together before there are too many; nothing of them is lost."""
    monkeypatch.setattr("holdfast.snapshots.filing.MOST_LAYERS", 2)
    counts = []
    for number in range(4):
        session.exec(f"echo {number} > /srv/{number}; rm -f /srv/{number - 2}")
        taken = session.snapshot(f"s{number}")
        assert taken.row.details["files_by"] == "copy"
        image = there.engine.images.described(snapshot_image.obtain(there.context, taken.row))
        counts.append(len(image["RootFS"]["Layers"]))
        session = taken.restore(f"r{number}")

    assert counts[3] < counts[0] + 3
    assert session.exec("ls /srv").text.split() == ["2", "3", "held", "new"]


def test_copies_are_compared_with_the_files_of_the_freeze(session: Session) -> None:
    """The contents of open files: all of them, and none differs."""
    found = session.snapshot("one").restore("copy").verification

    assert found is not None
    assert found.deviations == []
    assert found.compared["files"] > 0
    assert not [one for one in found.skipped if "content" in one], found.skipped


def test_drift_and_differences_name_the_changes(there: Holdfast, session: Session) -> None:
    """Changed, new and deleted; and the contents on both sides."""
    session.snapshot("one")
    session.exec("echo later > /srv/new; echo x > /srv/later")
    session.snapshot("two")

    drift = {change.path for change in session.drift("one").files}
    diff = {change.path for change in there.diff("one", "two").files}

    assert {"/srv/new", "/srv/later"} <= drift
    assert {"/srv/new", "/srv/later"} <= diff


def test_an_unchanged_session_costs_no_capture(there: Holdfast) -> None:
    """Once it is at rest, a snapshot shares the content of the previous one; a new file ends that."""
    session = there.new("quiet")
    deadline = time.monotonic() + 60
    while not session.snapshot().row.details.get("same_as"):
        assert time.monotonic() < deadline, "no snapshot was found to be the same as the one before"

    session.exec("echo new > /srv/new")

    assert not session.snapshot().row.details.get("same_as")


def test_bundles_are_written_and_read(machines: dict[str, Machine], machine: Machine, tmp_path: Path) -> None:
    """From either store to both: an imported snapshot can be restored, verified, and exported again."""
    file = tmp_path / "one.tar"
    with machine.holdfast() as there:
        session = there.new("work")
        assert session.exec(CHANGE).ok
        signed = session.snapshot("one").export(file, compression="zstd")
        session.remove()
        there.snapshot("one").remove()
    for other in machines.values():
        with other.holdfast() as here:
            Keys(other.home).trust(str(signed.signed_by), f"of-{machine.home.digest}")
            imported = here.import_(file)

            assert imported.row.image_id == here.engine.images.id(f"holdfast/snapshot:{imported.id}")
            back = imported.restore("back")
            assert back.exec(LOOK).text.splitlines() == SEEN
            assert here.verify().findings == []
            imported.export(tmp_path / "again.tar", compression="zstd")
            back.remove()
            imported.remove()


def test_removal_leaves_nothing_and_takes_nothing_from_others(there: Holdfast, session: Session) -> None:
    """A session continues without its snapshot, and can be captured again."""
    taken = session.snapshot("one")
    copy = taken.restore("copy")
    session.remove()
    taken.remove()

    again = copy.snapshot("two")

    assert again.row.details["files_by"] == "copy"
    assert again.restore("back").exec(LOOK).text.splitlines() == SEEN
    assert there.verify().findings == []


def test_blobs_survive_the_removal_of_others_that_share_them(there: Holdfast, session: Session) -> None:
    """Images are loaded and removed concurrently, in a loop; each remaining image can be read as a whole."""
    below = session.snapshot("below").restore("copy")
    over = threading.Event()
    failed: list[BaseException] = []

    def churn() -> None:
        try:
            while not over.is_set():
                there.session("work").snapshot().remove()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's thread
            failed.append(error)

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        kept = []
        for number in range(6):
            below.exec(f"echo {number} > /srv/new-{number}")
            kept.append(below.snapshot())
    finally:
        over.set()
        churning.join()

    assert failed == []
    there.snapshot("below").remove()
    for one in kept:
        image = str(one.row.image_id)
        snapshot_image.obtain(there.context, one.row)
        layers = there.engine.images.described(image)["RootFS"]["Layers"]
        if there.engine.layers.store() is ImageStore.CONTAINERD:
            blobs = oci.blobs(there.engine, image, layers)
            assert blobs is not None
            assert there.engine.layers.has_blobs([blob.digest for blob in blobs])
    assert kept[-1].restore("last").exec("ls /srv/new-*").text.split()[-1] == "/srv/new-5"


def test_links_of_a_session_are_not_followed_here(there: Holdfast, session: Session, tmp_path: Path) -> None:
    """Neither a link in the place of a file nor one in the place of a folder, wherever its layers are
    read."""
    (tmp_path / "held").write_text("SECRET OF THE HOST\n")
    session.exec("mkdir /srv/folder; echo a > /srv/folder/held; echo b > /srv/file")
    session.snapshot("one")
    session.exec(
        f"rm -r /srv/folder /srv/file; ln -s {tmp_path} /srv/folder; ln -s {tmp_path}/held /srv/file"
    )
    taken = session.snapshot("two")

    found = [str(there.diff("one", "two", everything=True)), session.drift("one").text(every_file=True)]
    found.append(str(taken.restore("copy").exec("cat /srv/file /srv/folder/held").text))
    found.append(str(record.read(there.home.snapshots / taken.id)))

    assert "/srv/file" in found[0]
    assert not [text for text in found if "SECRET" in text]
    digest = hashlib.blake2b(b"SECRET OF THE HOST\n", digest_size=16).hexdigest()
    assert not [text for text in found if digest in text]


def test_descriptors_are_the_same_where_only_root_can_read_them(
    there: Holdfast, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user has the engine save the image."""
    taken = session.snapshot("one")
    snapshot_image.obtain(there.context, taken.row)
    image = str(taken.row.image_id)
    layers = there.engine.images.described(image)["RootFS"]["Layers"]
    if there.engine.layers.store() is not ImageStore.CONTAINERD:
        return
    found = oci.blobs(there.engine, image, layers)
    monkeypatch.setattr(image_store, "_CONTENT", "not/here")

    assert there.engine.layers.blob(image, 1 << 20) is None
    assert found is not None
    assert oci.blobs(there.engine, image, layers) == found


def test_where_layers_cannot_be_read_the_engine_commits_them(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a different storage driver; that is reported, and the commit is a parent like any other."""
    told: list[str] = []
    home = Home(tmp_path / "home").create()
    with machine.holdfast(home, progress=told.append) as there, monkeypatch.context() as blind:
        blind.setattr(image_store, "kind", lambda _info: ImageStore.OTHER)
        session = there.new("work")
        session.exec(CHANGE)
        slow = session.snapshot("slow")
        service.stop(there.engine, home)
        blind.undo()
        copy = slow.restore("copy")
        quick = copy.snapshot("quick")

        assert slow.row.details["files_by"] == "engine"
        assert [line for line in told if "while the engine committed its files" in line]
        assert quick.row.details["files_by"] == "copy"
        assert quick.restore("back").exec(LOOK).text.splitlines() == SEEN
        quick.export(tmp_path / "quick.tar", compression="zstd")  # layers of either kind
        for one in there.sessions():
            one.remove()
        for taken in (quick, slow):
            taken.remove()
        service.stop(there.engine, home)


def test_garbage_is_found_and_nothing_else(machine: Machine, there: Holdfast, session: Session) -> None:
    """The image of a removed snapshot; not the images of a session, nor of the program itself."""
    taken = session.snapshot("one")
    copy = taken.restore("copy")
    lost = session.snapshot("lost")
    there.store.forget_snapshot(lost.id)

    collected = machine.cli("gc")

    assert collected.returncode == 0, collected.stderr
    left = {tag for one in there.engine.images.listed(holdfast_home=machine.home.digest) for tag in one.tags}
    assert left == {f"holdfast/snapshot:{taken.id}"}
    assert copy.exec(LOOK).text.splitlines() == SEEN
    assert there.new("other").exec("true").ok


def test_snapshots_move_through_a_registry(there: Holdfast, session: Session, registry: Registry) -> None:
    """Pushed, pulled, and thawed from there; the processes continue."""
    taken = session.snapshot("one")
    reference = f"{registry.address}/stores/{there.engine.layers.store().value}:one"
    taken.push(reference, compression="zstd")
    session.remove()
    taken.remove()

    pulled = there.pull(reference)
    thawed = there.thaw(reference)

    assert pulled.restore("back").exec(LOOK).text.splitlines() == SEEN
    assert (thawed.rung, thawed.snapshot.id) == ("live", pulled.id)
    assert thawed.session.exec(LOOK).text.splitlines() == SEEN


def test_doctor_tries_the_store(machine: Machine, there: Holdfast) -> None:
    """It names the store, and its own live snapshot works."""
    told = {check.name: check for check in there.doctor()}

    containerd = there.engine.layers.store() is ImageStore.CONTAINERD
    assert told["engine"].ok
    assert told["engine"].detail.endswith("containerd image store") is containerd
    assert told["live capture"].ok
    assert "commit" not in told["live capture"].detail

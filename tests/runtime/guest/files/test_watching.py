"""Watches of files, as the host reads them from a real supervisor: storms, captures, limits and ends."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest

from holdfast.errors import GuestError, SessionFileNotFound
from holdfast.runtime.files.file_event import REASONS, FileEvent
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Persistence

PATIENCE = 60.0


class Channel:
    """What a watch needs of the channel to a session, for a supervisor on this machine."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def client(self) -> GuestClient:
        return GuestClient(self._guest.run)

    def persistence(self) -> Persistence:
        return Persistence(lambda: None)

    @contextmanager
    def explained(self) -> Iterator[None]:
        yield


def watching(guest: Guest, path: str | Path, **options: Any) -> FileWatch:
    return FileWatch(Channel(guest), str(path), **options)  # type: ignore[arg-type]


def until(watch: FileWatch, name: str, kind: str = "created") -> list[FileEvent]:
    """Return all events up to one that has a name; it must come."""
    found: list[FileEvent] = []
    while event := watch.next(PATIENCE):
        found.append(event)
        if (event.kind, Path(event.path).name) == (kind, name):
            return found
    raise AssertionError(f"there is no such event among {found}")


def brief(events: list[FileEvent], root: Path) -> list[tuple[str, ...]]:
    """Return kinds and names, without writes and the last event, which is a mark of the test."""
    shown = (
        (each.kind, *(str(Path(name).relative_to(root)) for name in (each.path, each.to) if name))
        for each in events
    )
    return [each for each in shown if each[0] not in ("modified", "attributes")][:-1]


@pytest.fixture
def place(guest: Guest) -> Path:
    folder = guest.folder / "work" / "place"
    folder.mkdir()
    return folder


def test_each_kind_of_change_is_reported(guest: Guest, place: Path) -> None:
    """In order, numbered without gaps, with both names of a rename; names of any bytes."""
    odd = os.fsdecode(b"no \xff utf-8\n")
    outside = place.parent
    with watching(guest, place) as watch:
        (place / "a").write_text("x")
        (place / "a").chmod(0o600)
        (place / "a").rename(place / "b")
        (place / "b").rename(outside / "b")
        (outside / "b").rename(place / odd)
        (place / odd).unlink()
        (place / "folder").mkdir()
        (place / "folder" / "inner").mkdir()
        (place / "end").touch()
        events = until(watch, "end")

    assert [(event.kind, Path(event.path).name) for event in events if event.kind != "modified"][:-1] == [
        ("created", "a"), ("attributes", "a"), ("renamed", "a"), ("removed", "b"), ("created", odd),
        ("removed", odd), ("created", "folder"),
    ]  # fmt: skip
    assert [event.to for event in events if event.kind == "renamed"] == [str(place / "b")]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [Path(event.path).name for event in events if event.folder] == ["folder"]
    assert ("modified", "a") in [(event.kind, Path(event.path).name) for event in events]


def test_new_folders_are_followed_with_all_that_is_in_them(guest: Guest, place: Path) -> None:
    """Also what was made in them before they were watched, once; moved ones by their new name."""
    with watching(guest, place, recursive=True) as watch:
        for number in range(100):
            inner = place / f"d{number}" / "x" / "y"
            inner.mkdir(parents=True)
            (inner / "file").touch()
        (place / "d0").rename(place / "moved")
        (place / "moved" / "x" / "late").touch()
        (place / "end").touch()
        events = until(watch, "end")
        made = [event.path for event in events if event.kind == "created"]
        wanted = [
            str(place / f"d{number}{below}")
            for number in range(100)
            for below in ("", "/x", "/x/y", "/x/y/file")
        ]
        assert sorted(path for path in made if "moved" not in path and path != str(place / "end")) == sorted(
            wanted
        )
        assert str(place / "moved/x/late") in made
        outside = place.parent / "outside"
        (place / "moved").rename(outside)
        (outside / "x" / "unseen").touch()
        outside.rename(place / "back")
        (place / "end2").touch()
        names = brief(until(watch, "end2"), place)
    assert names[:2] == [("removed", "moved"), ("created", "back")]
    assert sorted(names[2:]) == [
        ("created", name) for name in ("back/x", "back/x/late", "back/x/unseen", "back/x/y", "back/x/y/file")
    ]


def test_a_file_is_watched_by_its_name(guest: Guest, place: Path) -> None:
    """Replaced, removed and made again; its neighbours are not reported. A link is followed."""
    (place / "config").write_text("one")
    (place / "link").symlink_to("config")
    with watching(guest, place / "link") as watch:
        assert watch.path == str(place / "config")
        (place / "other").touch()
        (place / "new").write_text("two")
        (place / "new").rename(place / "config")
        (place / "config").unlink()
        (place / "config").touch()
        names = [(event.kind, Path(event.path).name, event.to) for event in until(watch, "config")]
    assert names == [
        ("renamed", "new", str(place / "config")),
        ("removed", "config", None),
        ("created", "config", None),
    ]


def test_the_end_of_the_folder_ends_the_watch(guest: Guest, place: Path) -> None:
    with watching(guest, place) as watch:
        (place / "a").touch()
        shutil.rmtree(place)
        found = [(event.kind, event.path) for event in watch]
        assert watch.over
    assert found[-2:] == [("removed", str(place / "a")), ("removed", str(place))]
    with pytest.raises(SessionFileNotFound, match="cannot watch"):
        watching(guest, place)


def test_a_time_limit_ends_it_without_an_end(guest: Guest, place: Path) -> None:
    with watching(guest, place, timeout=0.05) as watch:
        assert (list(watch), watch.over) == ([], False)
        assert watch.next(PATIENCE) is None


def test_a_capture_loses_and_repeats_nothing(guest: Guest, place: Path) -> None:
    """Whatever changes before, while and after no queue is there."""
    for name in ("kept", "gone", "old", "written", "mode"):
        (place / name).write_text(name)
    (place / "dir" / "sub").mkdir(parents=True)
    (place / "dir" / "sub" / "leaf").touch()
    with watching(guest, place, recursive=True) as watch:
        (place / "before").touch()
        token = guest.prepare()["token"]
        (place / "gone").unlink()
        (place / "old").rename(place / "new")
        (place / "written").write_text("other")
        (place / "mode").chmod(0o600)
        (place / "while").mkdir()
        (place / "while" / "inner").touch()
        (place / "dir").rename(place / "ren")
        (place / "short").touch()
        (place / "short").unlink()
        guest.wake(token=token, event="resumed")
        (place / "while" / "after").touch()
        (place / "ren" / "sub" / "deep").touch()
        guest.pause_and_wake()
        (place / "end").touch()
        events = until(watch, "end")
    shown = sorted(brief(events, place))
    changed = [
        (event.kind, Path(event.path).name) for event in events if event.kind in ("modified", "attributes")
    ]
    assert shown == sorted([
        ("created", "before"), ("removed", "gone"), ("renamed", "old", "new"), ("created", "while"),
        ("created", "while/inner"), ("renamed", "dir", "ren"), ("created", "while/after"),
        ("created", "ren/sub/deep"),
    ])  # fmt: skip
    assert changed.count(("modified", "written")) == 1
    assert changed.count(("attributes", "mode")) == 1
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


STORM = """
import os, shutil, sys
os.chdir(sys.argv[1])
number = 0
while os.path.exists("../going"):
    number += 1
    folder = f"d{number % 7}"
    os.makedirs(f"{folder}/s", exist_ok=True)
    open(f"{folder}/f{number}", "w").write("x")
    os.rename(f"{folder}/f{number}", f"{folder}/s/r{number}")
    if number % 3 == 0:
        os.rename(folder, f"m{number}")
    if number % 40 == 0:
        for name in os.listdir():
            shutil.rmtree(name)
    os.sched_yield()
open("end", "w")
"""


def test_nothing_is_missed_in_a_storm_with_captures(guest: Guest, place: Path) -> None:
    """Folders are made, filled, renamed and removed all the time; a model of them is right in the end."""
    model: set[str] = set()
    going = place.parent / "going"
    going.touch()
    with watching(guest, place, recursive=True) as watch:
        with subprocess.Popen([sys.executable, "-c", STORM, str(place)]) as storm:
            events: list[FileEvent] = []
            for _ in range(6):
                guest.pause_and_wake()
                for _ in range(500):
                    event = watch.next(PATIENCE)
                    assert event is not None
                    events.append(event)
            going.unlink()
            events += until(watch, "end")
        assert storm.returncode == 0
    for event in events:
        assert event.kind != "lost", event
        follow(model, event)
    assert model == {str(path) for path in place.rglob("*")}


def follow(model: set[str], event: FileEvent) -> None:
    """Do to a set of paths what an event says happened to those of a session."""
    below = {each for each in model if f"{each}/".startswith(f"{event.path}/")}
    if event.kind == "created":
        model.add(event.path)
    elif event.kind == "removed":
        model -= below
    elif event.to is not None:
        model -= below
        model |= {event.to + each[len(event.path) :] for each in below} | {event.to}


def test_a_copy_has_no_watches_and_says_so(guest: Guest, place: Path) -> None:
    """A reader that finds a restored session learns that changes were lost, and sees the next ones."""
    with watching(guest, place) as watch:
        guest.wake(token=guest.prepare()["token"], event="restored")
        lost = watch.next(PATIENCE)
        (place / "a").touch()
        event = watch.next(PATIENCE)
    assert lost is not None
    assert event is not None
    assert (lost.kind, lost.path, lost.seq) == ("lost", str(place), 1)
    assert (event.kind, event.path, event.seq) == ("created", str(place / "a"), 2)


def test_an_overflow_is_reported_and_the_watch_continues(guest: Guest, place: Path) -> None:
    """More happens at once than the kernel keeps; folders that were made meanwhile are watched as well."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with watching(guest, place, recursive=True) as watch:
        os.kill(guest.process.pid, signal.SIGSTOP)
        for number in range(limit // 2 + 10):
            os.close(os.open(place / f"{number % 2}", os.O_CREAT))
            os.unlink(place / f"{number % 2}")  # noqa: PTH108
        (place / "folder").mkdir()
        os.kill(guest.process.pid, signal.SIGCONT)
        found = until(watch, place.name, "lost")
        (place / "folder" / "end").touch()
        found += until(watch, "end")
    assert [event.why for event in found if event.kind == "lost"] == [
        "they came faster than the kernel keeps them"
    ]
    assert [event.seq for event in found] == list(range(1, len(found) + 1))


def test_a_slow_reader_costs_little_memory(guest: Guest, place: Path) -> None:
    """What is not read stays in the kernel's queue, up to its limit; then the reader is told so."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with watching(guest, place) as watch:
        grown = []
        for _ in range(3):
            for number in range(limit // 2):
                name = place / f"{number % 2}{'n' * 250}"
                os.close(os.open(name, os.O_CREAT))
                os.unlink(name)  # noqa: PTH108
            grown.append(resident(guest))
        assert grown[2] - grown[0] < 2 << 20
        assert until(watch, place.name, "lost")[-1].why in REASONS.values()
        (place / "end").touch()
        until(watch, "end")


def resident(guest: Guest) -> int:
    pages = Path(f"/proc/{guest.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def queues(guest: Guest) -> int:
    return guest.open_files().count("anon_inode:inotify")


def test_a_watch_ends_with_its_reader(guest: Guest, place: Path) -> None:
    """No queue is left, neither after a capture in between."""
    for number in range(20):
        watch = watching(guest, place)
        assert queues(guest) == 1
        guest.pause_and_wake()
        if number % 2:  # otherwise it has not noticed yet
            assert watch.next(0.01) is None
        watch.close()
        deadline = time.monotonic() + PATIENCE
        while queues(guest) and time.monotonic() < deadline:
            os.sched_yield()
        assert queues(guest) == 0


def test_no_queue_is_open_in_a_capture(guest: Guest, place: Path) -> None:
    with watching(guest, place):
        token = guest.prepare()["token"]
        assert queues(guest) == 0
        guest.wake(token=token, event="resumed")


def test_there_are_only_so_many_watches(guest: Guest, place: Path) -> None:
    watches = [watching(guest, place) for _ in range(16)]
    with pytest.raises(GuestError, match=r"cannot watch .*: the session has 16 watches already") as refused:
        watching(guest, place)
    assert "watch fewer folders" in refused.value.hint
    for watch in watches:
        watch.close()

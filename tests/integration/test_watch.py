"""Watches of real sessions: across snapshots, rewinds and copies, as users, and on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from holdfast.errors import GuestError, SessionFileDenied, SessionFileError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.files.file_event import FileEvent
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.guest.files.watches import MAX_WATCHES

PATIENCE = 60.0


def until(watch: FileWatch, path: str) -> list[FileEvent]:
    """Return all events up to the one that makes a path; it must come."""
    found: list[FileEvent] = []
    while event := watch.next(PATIENCE):
        found.append(event)
        if (event.kind, event.path) == ("created", path):
            return found
    raise AssertionError(f"there is no such event among {found}")


@pytest.fixture
def place(shared: Session) -> str:
    """Return an empty folder of the session, in which its shell is."""
    shared.exec("rm -rf /srv/watched; mkdir /srv/watched; cd /srv/watched", timeout=60)
    return "/srv/watched"


STORM = """
import os, shutil, time
number = 0
while not os.path.exists("/srv/stop"):
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
    time.sleep(0.005)
open("end", "w")
"""


def test_a_storm_with_snapshots_is_followed_without_a_gap(hf: Holdfast) -> None:
    """Files are made, renamed and removed all the time; a model of them that follows the events is right."""
    session = hf.new("storm")
    session.exec("mkdir /srv/w && cd /srv/w", timeout=60)
    session.files.write("/srv/storm.py", STORM)
    model: set[str] = set()
    taken: list[Snapshot] = []

    def capture() -> None:
        try:
            taken.extend(session.snapshot() for _ in range(3))
        finally:
            session.files.write("/srv/stop", "")

    with session.files.watch(recursive=True) as watch:
        storm = session.detach("python3 /srv/storm.py")
        capturing = threading.Thread(target=capture)
        capturing.start()
        events = until(watch, "/srv/w/end")
        capturing.join()
        assert storm.wait(patience=PATIENCE).ok
        there = set(session.exec("find . -mindepth 1", timeout=60).text.replace("./", "/srv/w/").split())
    for event in events:
        assert event.kind != "lost", event
        if event.kind == "created":
            model.add(event.path)
        elif event.kind == "removed":
            model -= {each for each in model if f"{each}/".startswith(f"{event.path}/")}
        elif event.to is not None:
            below = {each for each in model if f"{each}/".startswith(f"{event.path}/")}
            model = (model - below) | {event.to + each[len(event.path) :] for each in below} | {event.to}
    assert model == there
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len(taken) == 3
    copy = taken[-1].restore("copy")
    open_all(copy)


def test_an_event_is_neither_lost_nor_doubled_by_a_snapshot(shared: Session, place: str) -> None:
    """What was done before it, and after it, by programs that know nothing of it."""
    with shared.files.watch(place) as watch:
        shared.exec("echo a > a; echo b > b; mv b c", timeout=60)
        shared.snapshot()
        shared.exec("rm a; chmod 600 c; echo d > d", timeout=60)
        shared.snapshot()
        shared.exec("touch end", timeout=60)
        found = [(event.kind, event.path.rpartition("/")[2]) for event in until(watch, f"{place}/end")]
    assert [each for each in found if each[0] != "modified"][:-1] == [
        ("created", "a"), ("created", "b"), ("renamed", "b"), ("removed", "a"), ("attributes", "c"),
        ("created", "d"),
    ]  # fmt: skip
    assert {each[1] for each in found if each[0] == "modified"} == {"a", "b", "d"}


def test_a_session_that_is_watched_may_be_captured(shared: Session, place: str) -> None:
    """Whatever is watched: not even files that a copy would not have are in the way."""
    with shared.files.watch("/etc", recursive=True), shared.files.watch("/dev/shm"):
        shared.exec("echo $RANDOM > new", timeout=60)
        blocks = shared.check().blocks
        assert blocks == ()
        copy = shared.snapshot().restore("watched-copy")
    assert copy.exec("cat /srv/watched/new", timeout=60).ok
    copy.remove()


def test_a_rewind_says_that_changes_were_lost(hf: Holdfast) -> None:
    session = hf.new("rewound")
    session.exec("mkdir /srv/w", timeout=60)
    before = session.snapshot()
    with session.files.watch("/srv/w") as watch:
        session.exec("mkdir /srv/w/undone", timeout=60)
        assert [event.kind for event in until(watch, "/srv/w/undone")] == ["created"]
        session.rewind(before)
        lost = watch.next(PATIENCE)
        session.exec("mkdir /srv/w/after", timeout=60)
        events = until(watch, "/srv/w/after")
    assert lost is not None
    assert (lost.kind, lost.path, lost.seq) == ("lost", "/srv/w", 2)
    assert "rewound" in (lost.why or "")
    assert [event.seq for event in events][-1] == 2 + len(events)


def test_a_user_watches_what_it_may_read(shared: Session, place: str) -> None:
    shared.exec("id -u eve || useradd -m eve; mkdir -m 700 secret; mkdir open; chmod 755 .", timeout=60)
    eve = shared.files.as_user("eve")
    with pytest.raises(SessionFileDenied):
        eve.watch(f"{place}/secret")
    with eve.watch(place, recursive=True) as watch:
        shared.exec("touch secret/x; touch open/y; touch end", timeout=60)
        names = [event.path for event in until(watch, f"{place}/end") if event.kind == "created"]
    assert names == [f"{place}/open/y", f"{place}/end"]
    with pytest.raises(SessionFileError, match="no such file"):
        shared.files.watch("nothing")


@contextmanager
def command(session: Session, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command; it watches when the block begins, and is killed at its end."""
    argv = [sys.executable, "-m", "holdfast", "watch", session.name, *words]
    environment = {**os.environ, "HOLDFAST_HOME": str(session._context.home.root)}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, env=environment, text=True) as reader:
        assert reader.stderr is not None
        try:
            assert reader.stderr.readline() == "holdfast: watching /srv/watched\n"
            yield reader
        finally:
            reader.kill()


def test_the_command_prints_a_line_for_each_event(shared: Session, shared_cli: Any, place: str) -> None:
    """Of the kinds that are asked for; it ends after a number of events or a time."""
    with command(shared, "--count", "4", "--kind", "created", "--kind", "renamed") as reader:
        shared.exec("touch made $'odd\\e[2Jname'; mkdir d; mv made now", timeout=60)
        out, err = reader.communicate(timeout=PATIENCE)
    assert (reader.returncode, err) == (0, "")
    assert out.splitlines() == [
        f"created     {place}/made", f"created     {place}/odd[2Jname", f"created     {place}/d/",
        f"renamed     {place}/made -> {place}/now",
    ]  # fmt: skip
    none = shared_cli("watch", shared.name, place, "--for", "0.2s", "--count", "1")
    assert (none.code, none.out) == (124, "")
    assert shared_cli("watch", shared.name, place, "--for", "0.2s").code == 0
    for words, said in (
        (("nothing",), "no such file"),
        (("--kind", "x"), "the kinds are created"),
        (("--for", "x"), "not a duration"),
    ):
        failed = shared_cli("watch", shared.name, *words)
        assert (failed.code, failed.err.count("cannot ")) == (1, 1), failed.err
        assert said in failed.err


def test_a_reader_that_is_killed_leaves_no_watch(shared: Session, place: str) -> None:
    """Its events had come to it as lines of JSON; as many watches as there may be can be opened after it."""
    with command(shared, place, "-r", "--json") as reader:
        assert reader.stdout is not None
        shared.exec("touch x", timeout=60)
        event = json.loads(reader.stdout.readline())
    assert (event["seq"], event["kind"], event["path"]) == (1, "created", f"{place}/x")
    open_all(shared)


def open_all(session: Session) -> None:
    """Open as many watches as there may be."""
    with ExitStack() as opened:
        for _ in range(MAX_WATCHES):
            opened.enter_context(session.files.watch("/srv"))
        with pytest.raises(GuestError, match="16 watches already"):
            session.files.watch("/srv")

"""Files of a real session, watched while it works, and across its captures."""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.errors import SessionError, SessionFileDenied, SessionFileError, SessionFileNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.files.file_watch import FileWatch


@pytest.fixture
def place(shared: Session) -> str:
    """Return an empty folder of the session."""
    shared.exec("rm -rf /srv/watched; mkdir /srv/watched; cd /srv/watched", timeout=60)
    return "/srv/watched"


def _until(watch: FileWatch, last: str) -> list[tuple[str, str]]:
    """Return all changes up to the creation of a file."""
    found: list[tuple[str, str]] = []
    while not found or found[-1] != ("created", f"{watch.path}/{last}"):
        change = watch.next(20)
        assert change is not None, found
        found.append((change.kind, change.path))
    return found


def test_actions_of_programs_are_seen(shared: Session, place: str) -> None:
    shared.exec("mkdir a; echo x > a/kept; echo y > b")
    with shared.files.watch(".", recursive=True) as watch:
        assert watch.path == place
        shared.exec("echo more >> a/kept; mv b a/c; mkdir -p d/e; touch d/e/f; rm -r a; touch end")
        changes = _until(watch, "end")
        assert ("created", f"{place}/d/e/f") in changes
        assert ("removed", f"{place}/a") in changes
        assert ("removed", f"{place}/b") in changes
        shared.files.write("d/e/f", "text")
        change = watch.next(20)
        assert change is not None
        assert (change.kind, change.path) == ("modified", f"{place}/d/e/f")
        assert change.file is not None
        assert change.file.size == 4
        assert watch.next(0.2) is None
        shared.exec("cd /; rm -r /srv/watched")
        assert [change.path for change in watch][-1] == place
        assert watch.ended


def test_a_file_that_is_still_arriving_is_not_seen(shared: Session, place: str) -> None:
    """A finished write is visible immediately; until then the session holds it under a name of its own."""
    with shared.files.watch(".") as watch:
        shared.exec(f"touch .{'0f' * 16}.part; mkdir -p a; sleep 0.5; mv .{'0f' * 16}.part whole; touch end")
        assert {path for _, path in _until(watch, "end")} == {
            f"{place}/{name}" for name in ("a", "whole", "end")
        }


def test_a_file_of_any_name_is_watched_and_others_refused(shared: Session, place: str) -> None:
    name = "odd \udcff\n\x1b[31m"
    shared.files.write(name, "1")
    with shared.files.watch(name) as watch:
        shared.exec("touch other")
        shared.files.write(name, "22")
        change = watch.next(20)
        assert change is not None
        assert (change.kind, change.path) == ("modified", f"{place}/{name}")
    with pytest.raises(SessionFileNotFound):
        shared.files.watch("missing")
    shared.exec("useradd -m ann; mkdir -m 700 private")
    with pytest.raises(SessionFileDenied):
        shared.files.as_user("ann").watch("private")
    with ExitStack() as watches:
        for _ in range(16):
            watches.enter_context(shared.files.watch("."))
        with pytest.raises(SessionFileError, match="16 watches already"):
            shared.files.watch(".")


@pytest.mark.thorough
def test_snapshots_lose_nothing_and_find_no_watch(hf: Holdfast) -> None:
    """A program makes files all the time; each is reported once, whenever it was made."""
    session = hf.new("work")
    session.exec(
        "mkdir made; (for i in $(seq 3000); do echo $i > made/$i; sleep 0.002; done; touch made/end) &"
    )
    changes: list[tuple[str, str]] = []
    with session.files.watch("made") as watch:
        assert not session.check().blocks
        reader = threading.Thread(target=lambda: changes.extend(_until(watch, "end")))
        reader.start()
        taken = [session.snapshot() for _ in range(3)]
        session.rewind(taken[-1])
        reader.join(90)
    assert not reader.is_alive()
    made = [path for kind, path in changes if kind == "created"]
    assert {f"/workspace/made/{number}" for number in range(2900, 3001)} <= set(made)
    gone = [path for kind, path in changes if kind == "removed"]
    assert len(made) - len(gone) == len(set(made))  # only what the rewind undid was removed, and made again
    copy = taken[0].restore("copy")
    assert copy.exec("ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c anon_inode:inotify").text == "0\n"


def test_a_suspended_session_ends_the_watch_with_a_reason(hf: Holdfast) -> None:
    session = hf.new("work")
    with session.files.watch("/srv") as watch:
        session.suspend()
        with pytest.raises(SessionError, match="suspended"):
            watch.next(20)


def test_the_command_prints_a_line_for_each(shared: Session, shared_cli: Any, place: str) -> None:
    command = shared_cli.command("watch", "shared", place, "-r", "--count", "2", "--for", "1m")
    with subprocess.Popen(
        command, env=shared_cli.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == f"holdfast: watching {place}\n"
        shared.exec("mkdir -p new; touch new/file")
        assert running.stdout is not None
        assert running.stdout.read() == f"created   {place}/new/\ncreated   {place}/new/file\n"
        assert running.wait(60) == 0
    done = shared_cli("watch", "shared", place, "--count", "1", "--for", "1s")
    assert done.code == 124
    done = shared_cli("watch", "shared", place, "--for", "soon", "--json")
    assert (done.code, json.loads(done.err)["error"]["hint"]) == (1, "for example --for 30s")
    assert "the kinds are" in shared_cli("watch", "shared", place, "--kind", "renamed").err

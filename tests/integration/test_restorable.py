"""Captures can be restored, and a session is released only when it is known that its capture can."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import CaptureFailed, LiveUnsupported, RestoreFailed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import capture_record
from holdfast.snapshots.record import RecordedTree

pytestmark = pytest.mark.thorough

# A parent that adopts: a family whose leader is gone, an orphan whose leader continues, and one that ended.
ADOPTING = """
import ctypes, os, signal
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
def orphan(then):
    if os.fork() == 0:
        then()
        os._exit(0)
    os.wait()
def stay():
    if os.fork() == 0:
        signal.pause()
def family():
    if os.fork() == 0:
        os.setpgid(0, 0)
        stay()
        signal.pause()
def leader(then, stays=False, collected=True):
    child = os.fork()
    if child == 0:
        os.setsid()
        then()
        if stays:
            signal.pause()
        os._exit(0)
    if collected:
        os.waitpid(child, 0)
leader(lambda: (stay(), family()))
leader(lambda: orphan(stay), stays=True, collected=False)
leader(lambda: os.fork() or os._exit(0))
while True:
    text = os.popen("ps -o stat= --ppid %d" % os.getpid()).read()
    if "Z" in text and text.count("S") >= 5:
        break
open("/srv/adopting", "w").close()
signal.pause()
"""
# A session of which two have adopted: a restore has only one parent to give them to.
SHARED = """
import ctypes, os, signal
adopt = lambda: ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
def orphan():
    if os.fork() == 0:
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    os.wait()
adopt()
if os.fork() == 0:
    there, here = os.pipe()
    back, answer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        orphan()
        os.write(here, b"x")
        os.read(back, 1)
        orphan()
        os._exit(0)
    os.read(there, 1)
    adopt()
    os.write(answer, b"x")
    os.wait()
    open("/srv/shared", "w").close()
    signal.pause()
os.wait()
"""
# One socket's folder is another place by now: its name leads into /proc.
ASTRAY = """
import os, signal, socket
os.mkdir("/srv/d")
held = socket.socket(socket.AF_UNIX)
held.bind("/srv/d/socket")
os.rename("/srv/d", "/srv/e")
os.symlink("/proc/self/root/srv/e", "/srv/d")
open("/srv/astray", "w").close()
signal.pause()
"""
CROWDING = """
import os, resource, signal
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
first = os.open("/dev/null", os.O_RDONLY)
count = min(most - 50, 51000)
for _ in range(count):
    os.dup(first)
for _ in range(100000 // count):
    if os.fork() == 0:
        signal.pause()
open("/srv/crowding", "w").close()
signal.pause()
"""
# Both reports of these must agree.
RARE = """
import os, signal, socket
names = [socket.socket(socket.AF_UNIX) for _ in range(2)]
names[0].bind(b"\\0ends with one\\0")
names[1].bind(b"\\0has\\0one")
lite = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)
lite.bind(("127.0.0.1", 0))
lite.connect(lite.getsockname())
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 136)
six.bind(("::1", 0))
six.connect(six.getsockname())
os.symlink("nowhere", "/srv/link")
link = os.open("/srv/link", os.O_PATH | os.O_NOFOLLOW)
open("/srv/rare", "w").close()
signal.pause()
"""
# A terminal both of whose ends one process has, and what is typed there waits.
TYPED = """
import fcntl, os, pty, signal, termios
if os.fork():
    os._exit(0)  # the child leads no process group, and may begin a session
master, slave = pty.openpty()
os.setsid()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
mine = os.open("/dev/tty", os.O_RDWR)
os.dup2(master, 50)
os.close(master)
os.write(50, b"typed\\n")
def answer(*_):
    os.set_blocking(mine, False)
    with open("/srv/answer.new", "w") as file:
        try:
            file.write(os.read(mine, 100).decode())
        except OSError as error:
            file.write(str(error))
    os.rename("/srv/answer.new", "/srv/answer")
signal.signal(signal.SIGUSR1, answer)
open("/srv/typed", "w").close()
while True:
    signal.pause()
"""
# Runs where CRIU's images can be written, between the capture and its use.
FORGE = """
import sys
from pathlib import Path
from holdfast.snapshots.checkpointer.criu import criu_images as entries
images = Path("/state/staging") / sys.argv[1] / "images"
"""
FAULTS = {
    "more rights than a session": (
        """
path = sorted(images.glob("core-*.img"))[0]
magic, [core] = entries.read(path)
core.thread_core.creds.cap_bnd[0] |= 1 << 21
entries.write(path, magic, [core])
""",
        "capabilities",
    ),
    "a note that cannot be read": ("(images / 'facts.json').write_text('{')", "facts.json"),
    "a session that cannot be begun": (
        """
magic, found = entries.read(images / "pstree.img")
found[-1].ppid, found[-1].sid, found[-1].pgid = found[1].pid, 99999, 99999
entries.write(images / "pstree.img", magic, found)
""",
        "session",
    ),
}


@contextlib.contextmanager
def running(session: Session, name: str, program: str) -> Iterator[None]:
    """Run a program in the session for the block, from when it says that it is ready."""
    session.exec(f"cat > /srv/{name}.py <<'END'\n{program}\nEND", timeout=60)
    try:
        started = session.exec(
            f"python3 /srv/{name}.py </dev/null >/srv/log 2>&1 & "
            f"until [ -e /srv/{name} ]; do kill -0 $! || break; sleep 0.05; done; cat /srv/log",
            timeout=120,
        )
        assert session.exec(f"ls /srv/{name}", timeout=60).ok, started.text
        yield
    finally:
        end(session, name)


def end(session: Session, name: str) -> None:
    """End a program, and wait until nothing of it is left and the shell has reported it."""
    session.exec(
        f"pkill -KILL -f /srv/{name}.py; while pgrep -f /srv/{name}.py; do sleep 0.05; done; wait", timeout=60
    )


@pytest.fixture(scope="module")
def session(shared_hf: Holdfast) -> Session:
    made = shared_hf.new("kept")
    made.exec("value=here", timeout=60)
    return made


def shape(session: Session) -> set[tuple[str, ...]]:
    """Return pid, parent, group, session and terminal of each program in Python, and whether it has ended."""
    text = session.exec("ps -eo pid,ppid,pgid,sid,tty,stat,comm | grep python3", timeout=60).text
    found = (line.split() for line in text.splitlines())
    return {(*words[:5], "ended" if words[5].startswith("Z") else "") for words in found}


def test_processes_adopted_out_of_their_session_come_back(session: Session) -> None:
    """To the parent that adopted them, into sessions whose leaders are not above them."""
    with running(session, "adopting", ADOPTING):
        before = shape(session)
        assert len(before) == 7
        assert [one[-1] for one in before].count("ended") == 1
        assert not session.check().blocks
        snapshot = session.snapshot()
    copy = snapshot.restore("adopted")
    assert copy.verification is not None
    assert [str(one) for one in copy.verification.deviations] == []
    assert shape(copy) == before
    assert not copy.check().blocks
    copy.remove()
    snapshot.remove()


def test_processes_that_no_copy_can_place_are_refused_by_name(session: Session, shared_cli: Any) -> None:
    """Both are reported before anything is done; without them it is captured."""
    with running(session, "shared", SHARED):
        told = shared_cli("snapshot", "kept", "--check", "--json")
        blocking = [one for one in told.json["findings"] if one["verdict"] == "blocks"]
        assert told.code == 3
        assert [one["kind"] for one in blocking] == ["adopted", "adopted"]
        assert all("shared.py" in one["command"] for one in blocking)
        with pytest.raises(LiveUnsupported, match=r"shared\.py.*adopted .*and 1 more"):
            session.snapshot()
    assert not session.check().blocks


def test_more_descriptors_than_a_restore_judges_are_refused_by_name(session: Session) -> None:
    """A few processes that share thousands: the capture counts as the restore does."""
    with running(session, "crowding", CROWDING):
        with pytest.raises(LiveUnsupported, match=r"crowding\.py.*more than 100000 descriptors in total"):
            session.snapshot()
        assert session.exec("jobs", timeout=60).text.startswith("[1]+  Running")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_session_that_cannot_be_restored_is_not_released(
    shared_hf: Holdfast, session: Session, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A state that a restore would refuse is found while all of it is still there: the session continues."""
    change, words = FAULTS[fault]
    tree = capture_record.tree

    def forged(*given: Any) -> RecordedTree:
        staging = next(one for one in given if isinstance(one, Path))
        [checkpointer] = shared_hf.engine.containers(
            holdfast_home=shared_hf.home.digest, holdfast_role="checkpointer"
        )
        done = shared_hf.engine.client.containers.get(checkpointer).exec_run(
            ["/usr/bin/python3", "-c", FORGE + change, staging.name],
            environment={"PYTHONPATH": "/opt/holdfast/checkpointer"},
        )
        assert done.exit_code == 0, done.output
        return tree(*given)

    monkeypatch.setattr(capture_record, "tree", forged)
    with pytest.raises((LiveUnsupported, CaptureFailed), match=words):
        session.suspend()
    assert session.refresh().state == "running"
    assert session.exec("echo $value", timeout=60).text == "here\n"
    assert shared_hf.snapshots() == []
    assert not shared_hf.store.operations.open()


def test_a_link_that_leads_astray_does_not_lose_a_session(shared_hf: Holdfast, session: Session) -> None:
    """Root in the session can make its own names lead into /proc, where no restore follows them."""
    with running(session, "astray", ASTRAY):
        with pytest.raises(LiveUnsupported, match="takes out of it"):
            session.suspend()
        assert session.exec("echo $value; rm /srv/d", timeout=60).text == "here\n"
    assert shared_hf.snapshots() == []
    session.suspend()
    session.resume()
    assert session.exec("echo $value", timeout=60).text == "here\n"


def test_files_in_the_workspaces_place_do_not_prevent_a_return(session: Session) -> None:
    """A link or a file there: an engine that began in it would refuse, or find a folder of the host.

    The folder is of a layer below by now: it is copied and removed, and the kernel stands in the removed one.
    """
    assert session.exec("cd /srv; mv /workspace /was && ln -s /proc/self/fd/7 /workspace", timeout=60).ok
    session.suspend()
    session.resume()
    assert session.exec("readlink /workspace", timeout=60).text == "/proc/self/fd/7\n"
    assert session.exec("rm /workspace; echo file >/workspace", timeout=60).ok
    files = session.snapshot("files", kind="filesystem").restore("files")
    assert files.exec("cat /workspace", timeout=60).text == "file\n"
    files.remove()
    assert session.exec("rm /workspace; mv /was /workspace; cd /workspace; echo $value").text == "here\n"


def test_removed_folders_whose_names_are_taken_come_back_removed(session: Session) -> None:
    """CRIU would enter the new folder, and remove it or fail. One of an image has links after its removal."""
    remade = (
        "mkdir -p /srv/empty /srv/full; for each in /srv/empty /srv/full /usr/share/doc/tar; do "
        "(cd $each; exec sleep 1000) & until [ /proc/$!/cwd -ef $each ]; do :; done; done; "
        "rm -r /srv/empty /srv/full /usr/share/doc/tar; mkdir /srv/empty /srv/full; touch /srv/full/new"
    )
    assert session.exec(remade, timeout=60).ok
    session.suspend()
    session.resume()
    snapshot = session.snapshot()
    copy = snapshot.restore("removed")
    assert copy.verification is not None
    assert [str(one) for one in copy.verification.deviations] == []
    for each in (copy, session):
        found = each.exec("ls -A /srv/empty /srv/full; ls -A /srv | grep -c removed", timeout=60).text
        assert found.split() == ["/srv/empty:", "/srv/full:", "new", "0"]
        found = each.exec("for one in $(jobs -p); do readlink /proc/$one/cwd; done", timeout=60).text
        assert re.sub(r"\d+", "N", found).splitlines() == [
            *("/srv/.holdfast-removed-N (deleted)", "/srv/.holdfast-removed-N (deleted)"),
            "/usr/share/doc/tar (deleted)",
        ]
    copy.remove()
    snapshot.remove()
    assert session.exec("kill $(jobs -p); wait; rm -r /srv/empty /srv/full", timeout=60).ok


@pytest.mark.parametrize("replacement", ["ln -s /nowhere /srv/a", "touch /srv/a"])
def test_a_deleted_file_whose_folder_was_replaced_is_refused(session: Session, replacement: str) -> None:
    """CRIU could not make the folder again; a folder that was only removed is made for that moment."""
    held = "mkdir -p /srv/a/b && exec 8<>/srv/a/b/held && echo held >&8 && rm -r /srv/a"
    assert session.exec(held, timeout=60).ok
    snapshot = session.snapshot()
    copy = snapshot.restore("held")
    assert copy.exec("cat <&8 /proc/$$/fd/8; ls /srv", timeout=60).text.startswith("held\n")
    copy.remove()
    snapshot.remove()
    assert session.exec(replacement, timeout=60).ok
    with pytest.raises(LiveUnsupported, match=r"has open '/srv/a/b/held', whose folder was replaced"):
        session.suspend()
    assert session.exec("exec 8>&-; rm /srv/a; echo $value", timeout=60).text == "here\n"


def test_pending_terminal_data_survives_whichever_ends_are_open(session: Session) -> None:
    """Also if a process has two slave ends before the master."""
    with running(session, "typed", TYPED):
        snapshot = session.snapshot()
        copy = snapshot.restore("typed")
        for each in (copy, session):
            asked = each.exec(
                "pkill -USR1 -f typed.py; until [ -e /srv/answer ]; do sleep 0.05; done; cat /srv/answer",
                timeout=60,
            )
            assert asked.text.startswith("typed\n")
    copy.remove()
    snapshot.remove()


def test_no_false_deviation_is_reported(session: Session) -> None:
    """Abstract names with zeros in them, UDP-Lite, a link that is open by name come back unchanged."""
    with running(session, "rare", RARE):
        snapshot = session.snapshot()
    copy = snapshot.restore("rare")
    assert copy.verification is not None
    assert [str(one) for one in copy.verification.deviations] == []
    assert copy.verification.compared["sockets"] >= 4
    copy.remove()
    snapshot.remove()


def test_a_failed_resume_lists_the_available_ways(shared_hf: Holdfast, session: Session) -> None:
    """The session stays suspended with all that was kept; a new one can have its files."""
    session.exec("echo kept > /srv/kept", timeout=60)
    session.suspend()
    snapshot = shared_hf.snapshot(str(session.refresh().row.parent_snapshot_id))
    folder = shared_hf.home.snapshots / snapshot.id
    kept = json.loads((folder / "manifest.json").read_text())
    altered = {**kept, "processes": {**kept["processes"], "root_pid": kept["processes"]["root_pid"] + 1}}
    (folder / "manifest.json").write_text(json.dumps(altered))
    with pytest.raises(RestoreFailed, match="cannot restore") as failed:
        session.resume()
    assert f"holdfast restore {snapshot.name} --as files" in failed.value.hint
    assert session.refresh().state == "suspended"
    files = snapshot.restore("files", rung="files")
    assert files.exec("cat /srv/kept", timeout=60).text == "kept\n"
    files.remove()
    (folder / "manifest.json").write_text(json.dumps(kept))
    session.resume()
    assert session.exec("echo $value", timeout=60).text == "here\n"


# It notices that no time passed for it where seconds did outside, before CRIU has let go of its children.
KILLER = """
import os, signal, time
children = []
for _ in range(80):
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    children.append(child)
open("/srv/armed", "w").close()
last = time.time()
while (now := time.time()) - last < 3:
    last = now
for child in children:
    os.kill(child, signal.SIGKILL)
print(len([os.waitpid(child, 0) for child in children]), "are dead", flush=True)
signal.pause()
"""


def test_programs_can_kill_each_other_as_soon_as_they_run(hf: Holdfast) -> None:
    """A restored program kills processes that CRIU still holds: they end, and the session does not."""
    session = hf.new("killer")
    session.files.write("/srv/killer.py", KILLER)
    job = session.detach("exec python3 /srv/killer.py")
    assert session.exec("until [ -e /srv/armed ]; do sleep 0.1; done", timeout=120).ok
    session.suspend()
    time.sleep(4)

    session.resume()

    assert session.exec("until pgrep -f killer.py | wc -l | grep -qx 1; do sleep 0.1; done", timeout=120).ok
    assert job.info().running
    assert job.output().decode().splitlines() == ["80 are dead"]

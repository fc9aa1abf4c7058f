"""Failures around snapshots: one clear line, nothing lost, nothing left, and the session continues."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import packing

from holdfast.base import locks
from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.errors import (
    CaptureFailed,
    HoldfastError,
    LiveUnsupported,
    SessionBusy,
    SessionError,
    SnapshotDamaged,
    SnapshotInUse,
    StoreError,
)
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import capture
from holdfast.runtime.capture.capture import Taking
from holdfast.runtime.guest import layout
from holdfast.runtime.sessions.session_lock import session_lock
from holdfast.runtime.store.operations import Operations
from holdfast.snapshots import service
from holdfast.snapshots.link import SOCKET

pytestmark = pytest.mark.thorough


def alive(session: Session) -> bool:
    """Check whether shell and kernel answer."""
    return (
        session.exec("echo here", timeout=30).text == "here\n"
        and session.cell("print('here')", timeout=60).stdout == "here\n"
    )


def nothing_begun(hf: Holdfast) -> bool:
    """Check whether no operation is open and no folder of one is left."""
    return not hf.store.operations.open() and not list(hf.home.staging.iterdir())


def pages(folder: Path) -> Path:
    return max(folder.glob("images/pages-*.img"), key=lambda path: path.stat().st_size)


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


# A file that always differs from its copy, like a busy database's.
BUSY = """head -c 64M /dev/urandom > /srv/busy
(while :; do echo x | dd of=/srv/busy conv=notrunc status=none; done &)"""


@pytest.mark.parametrize(("where", "said"), [("/srv", "to copy its files"), ("/dev/shm", "shared memory")])
def test_no_session_is_frozen_beyond_its_limit(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch, where: str, said: str
) -> None:
    """A file that changes all the time is copied in the freeze; if that takes too long, the session
    continues.
    """
    session = hf.new("busy")
    assert session.exec(BUSY.replace("/srv", where)).ok
    ask = service.ask

    def hurried(*arguments: Any, **fields: Any) -> Any:
        return ask(*arguments, **fields, **({"limit": 0.001} if "dump" in arguments else {}))

    monkeypatch.setattr(service, "ask", hurried)
    with pytest.raises(
        CaptureFailed, match=f"^cannot snapshot session busy: .*{said} took longer than 0.001 s"
    ):
        session.snapshot("never")
    assert alive(session)
    assert nothing_begun(hf)

    monkeypatch.setattr(service, "ask", ask)
    assert session.snapshot("then").row.state == "ready"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: flip(pages(folder)), "does not match its digest"),
        (lambda folder: os.truncate(pages(folder), 4096), "4096 bytes instead of"),
        (lambda folder: (folder / "images" / "inventory.img").unlink(), "cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "manifest is not valid"),
    ],
    ids=["changed bit", "truncated", "missing", "manifest"],
)
def test_damage_is_found_before_anything_runs(
    hf: Holdfast, damage: Callable[[Path], object], said: str
) -> None:
    """The snapshot is refused and marked, other snapshots and the session are unaffected."""
    session = hf.new("parent")
    good, bad = session.snapshot("good"), session.snapshot("bad").pack()
    assert packing.settled(hf.home)  # the packer that was at work may still write a recipe
    damage(hf.home.snapshots / bad.id)
    (hf.home.snapshots / bad.id / "recipe").unlink()  # with it, the images would be made again

    with pytest.raises(SnapshotDamaged, match=said):
        bad.restore("never")

    assert [s.name for s in hf.sessions()] == ["parent"]
    assert {s.name: s.state for s in hf.snapshots()} == {"good": "ready", "bad": "damaged"}
    assert nothing_begun(hf)
    assert alive(good.restore("from-good"))
    assert alive(session)


def test_a_missing_image_is_named(hf: Holdfast) -> None:
    """The image was removed from the engine by another program."""
    snapshot = hf.new("parent").snapshot("orphan")
    assert packing.settled(hf.home)
    hf.engine.images.remove(f"holdfast/snapshot:{snapshot.id}")

    with pytest.raises(SnapshotDamaged, match=r"its image .* is gone"):
        snapshot.restore("never")

    assert nothing_begun(hf)


def test_two_snapshots_at_once(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, and both are complete; a caller that waits too long gets one line."""
    session = hf.new("parent")
    start = threading.Barrier(2)
    taken: list[str] = []

    def take() -> None:
        with Holdfast(hf.home) as other:
            start.wait()
            taken.append(other.session("parent").snapshot().id)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(snapshot.id for snapshot in hf.snapshots())
    assert len(taken) == 2

    monkeypatch.setattr(locks, "LOCK_SECONDS", 0.1)
    busy = "cannot {} session parent: another operation on it is in progress"
    with session_lock(hf.context, session.id, "hold"):
        for verb in ("snapshot", "suspend", "remove"):
            with pytest.raises(SessionBusy, match=busy.format(verb)):
                getattr(session, verb)()
    assert len(hf.snapshots()) == 2
    assert nothing_begun(hf)
    assert alive(session)


def test_uncapturable_state_is_refused_with_its_reason(hf: Holdfast) -> None:
    """A traced process: no snapshot, no weaker one either, and the session continues."""
    session = hf.new("traced")
    # A process that has its parent trace it, as a debugger would.
    session.exec(
        "cat > /srv/trace.py <<'END'\n"
        "import ctypes, os, time\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(100000)\n"
        "libc = ctypes.CDLL(None); libc.ptrace(0x4206, child, 0, 0)\n"
        "open('/srv/tracing', 'w').close()\n"
        "time.sleep(100000)\n"
        "END\n"
        "python3 /srv/trace.py & until [ -e /srv/tracing ]; do :; done",
        timeout=60,
    )

    with pytest.raises(LiveUnsupported, match=r"cannot take a live snapshot of session traced: .*traced"):
        session.snapshot()

    assert hf.snapshots() == []
    assert nothing_begun(hf)
    assert alive(session)
    assert session.snapshot("files", kind="filesystem").kind == "filesystem"


def test_io_uring_is_denied(hf: Holdfast) -> None:
    """Programs fall back to interfaces that can be captured."""
    session = hf.new()
    code = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.syscall(425, 1, 0), ctypes.get_errno())"  # io_uring_setup(2)
    )
    assert session.cell(code).stdout.strip() in ("-1 1", "-1 38")


def test_a_hostile_session_runs_nothing_in_the_checkpointer(hf: Holdfast) -> None:
    """Libraries, configuration, plugins, caches and tools planted where CRIU would look are not used."""
    session = hf.new("hostile")
    planted = session.exec(
        r"""
cd /srv && (set -e
cat > evil.c <<'END'
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
    if (getppid() == 0 || access("/opt/holdfast/checkpointer", F_OK) == 0)
        close(open("/srv/escaped", O_CREAT | O_WRONLY, 0600));
}
END
gcc -shared -fPIC -o evil.so evil.c
mkdir -p /etc/criu /root/.criu /usr/lib/criu /usr/lib/x86_64-linux-gnu/criu
for conf in /etc/criu/default.conf /root/.criu/default.conf; do echo 'action-script /srv/script' > $conf; done
printf '#!/bin/sh\ntouch /srv/escaped\n' > script; chmod +x script
cp evil.so /usr/lib/criu/; cp evil.so /usr/lib/x86_64-linux-gnu/criu/
for tool in iptables ip6tables nft iptables-restore tar ip; do cp script /usr/local/sbin/$tool; done
head -c 4096 /dev/urandom > /run/criu.kdat
echo /srv/evil.so > /etc/ld.so.preload)
""",
        timeout=120,
    )
    assert planted.exit_code == 0, planted.text

    restored = session.snapshot().restore("copy")

    for each in (session, restored):
        assert each.exec("test -s /etc/ld.so.preload").ok
        assert (
            each.exec("rm -f /etc/ld.so.preload; test -e /srv/escaped; echo $?", timeout=30).text.strip()
            == "1"
        )
        assert alive(each)
    # They would have: a process that is started from outside loads the library, as do the tools their script.
    assert session.exec("echo /srv/evil.so > /etc/ld.so.preload").ok
    hf.engine.run_inside(str(session.row.container_id), ["/bin/true"], {}, "run a program")
    assert session.exec("rm /etc/ld.so.preload /srv/escaped && tar && test -e /srv/escaped").ok


def test_a_killed_checkpointer_leaves_no_snapshot(hf: Holdfast) -> None:
    """The next snapshot starts a new one; the session answers."""
    session = hf.new("parent")
    session.snapshot().remove()
    for container in hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer"):
        hf.engine.kill_remove(container)

    assert session.snapshot("after").state == "ready"
    assert alive(session)


# A request that arrives when a checkpointer has just decided that it is idle.
LATE = """
import socket, sys
from pathlib import Path
sys.path.insert(0, '/opt/holdfast/checkpointer')
from holdfast.snapshots.checkpointer import checkpointer_server
path, client = Path('/tmp/late'), socket.socket(socket.AF_UNIX)
class Late:
    def unlink(self, missing_ok):
        client.connect(str(path))
        client.sendall(b'{"v": 1, "op": "hello"}\\n')
        path.unlink()
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(str(path))
    listener.listen(16)
    checkpointer_server.serve_until_idle(listener, 0, Late(), 0.0)
print(client.makefile().readline())
"""


def test_who_comes_to_an_idle_checkpointer_at_its_end_is_served(hf: Holdfast) -> None:
    """Both by the one that ends and, where its socket is gone and its container is not yet, by a new one."""
    session = hf.new("idle")
    session.snapshot("first")
    (found,) = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer")
    before = hf.engine.client.containers.get(found)
    said = before.exec_run(["/usr/bin/python3", "-I", "-c", LATE])
    assert b'"event": "done"' in said.output, said.output
    (service.socket_folder(hf.home, build.toolbox()) / SOCKET).unlink()
    ends = threading.Timer(1.0, hf.engine.kill_remove, (found,))
    ends.start()
    session.snapshot("second")
    ends.join()


def test_a_checkpointer_whose_folder_was_removed_is_replaced(hf: Holdfast) -> None:
    """As when a home is removed and made again: the running one cannot be reached."""
    session = hf.new("parent")
    session.snapshot("before")
    shutil.rmtree(hf.home.root / "checkpointer")
    session.exec("echo changed > /srv/file")

    assert session.snapshot("after").state == "ready"


@pytest.mark.parametrize("moment", ["frozen", "dumped"])
def test_a_controller_killed_in_the_middle_is_undone(hf: Holdfast, moment: str, tmp_path: Path) -> None:
    """kill -9 while everything is frozen: the session continues automatically, the next controller
    cleans up.
    """
    session = hf.new("parent")
    script = tmp_path / "dies.py"
    script.write_text(
        "import os, signal, sys\n"
        "from holdfast import Holdfast\n"
        "from holdfast.snapshots.link import CheckpointerLink\n"
        "events = CheckpointerLink.events\n"
        "def dying(self):\n"
        "    for event in events(self):\n"
        f"        if event['event'] == {moment!r}:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        yield event\n"
        "CheckpointerLink.events = dying\n"
        "session = Holdfast().session('parent')\n"
        # `hello` goes over a link as well, but knows neither of these events.
        "session.snapshot('half')\n"
    )
    done = subprocess.run([sys.executable, str(script)], timeout=120, check=False)

    assert done.returncode == -signal.SIGKILL
    assert alive(session)
    with Holdfast(hf.home) as next_controller:
        assert next_controller.snapshots() == []
        assert nothing_begun(next_controller)
        assert next_controller.session("parent").snapshot("whole").state == "ready"
    assert alive(session)


def test_interrupting_a_snapshot_leaves_nothing(hf: Holdfast, cli: Any) -> None:
    """Ctrl-C at any point: exit code 130 or a complete snapshot, and the session continues."""
    session = hf.new("parent")
    session.cell("import os; block = os.urandom(100 << 20)", timeout=60)
    codes = []
    for _ in range(4):
        process = cli.start("snapshot", "parent", stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        while process.poll() is None and not hf.store.operations.open():
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        codes.append(process.returncode)
        assert (hf.store.operations.open(), list(hf.home.staging.iterdir())) == ([], []), codes
        assert alive(session)
    assert set(codes) <= {0, 130}
    assert 130 in codes
    assert [snapshot.state for snapshot in hf.snapshots()] == ["ready"] * codes.count(0)


def test_an_interrupt_after_the_last_step_undoes_nothing(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete work stays complete: an interrupted suspension can be resumed, a snapshot restored."""
    session = hf.new("parent")

    def interrupted(call: Callable[[], object], completing: Any = Operations) -> None:
        complete = completing.complete

        def completed_and_interrupted(*args: Any, **kwargs: Any) -> Any:
            result = complete(*args, **kwargs)
            signal.raise_signal(signal.SIGINT)
            return result

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(completing, "complete", completed_and_interrupted)
            call()
        assert nothing_begun(hf)

    interrupted(lambda: session.snapshot("whole"), capture)
    interrupted(lambda: hf.snapshot("whole").restore("copy"))
    assert alive(hf.session("copy"))
    interrupted(lambda: hf.session("copy").suspend())
    assert hf.session("copy").state == "suspended"
    interrupted(lambda: hf.session("copy").resume())
    assert alive(hf.session("copy"))


@pytest.fixture
def small_home(tmp_path: Path, clear: Callable[[Holdfast], None]) -> Iterator[Home]:
    """A state directory on a file system of 48 MiB."""
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(root)], check=True)
    try:
        home = Home(root / "home").create()
        with Holdfast(home) as controller:
            yield home
            clear(controller)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_full_state_directory_is_named(small_home: Home) -> None:
    """No space for the memory of a session: refused in one line, nothing kept, and the session continues."""
    with Holdfast(small_home) as hf:
        session = hf.new("big")
        session.cell("import os; block = os.urandom(64 << 20)", timeout=60)

        with pytest.raises(StoreError, match="no space left in"):
            session.snapshot()

        assert hf.snapshots() == []
        assert nothing_begun(hf)
        assert alive(session)
        assert session.snapshot(kind="filesystem").state == "ready"


@pytest.mark.parametrize("restored", [False, True], ids=["made", "restored"])
def test_suspend_frees_everything_and_resume_brings_it_back(hf: Holdfast, restored: bool) -> None:
    """No container while suspended; then the same name, id, shell and kernel."""
    session = hf.new("origin").snapshot().restore("sleeper") if restored else hf.new("sleeper")
    session.exec("cd /srv; kept=yes; sleep 100000 &", timeout=30)
    session.cell("kept = 42", timeout=60)

    session.suspend()

    assert hf.session("sleeper").state == "suspended"
    assert not hf.engine.containers(holdfast_session=session.id)
    with pytest.raises(SessionError, match="it is suspended"):
        hf.session("sleeper").exec("true")
    with pytest.raises(SnapshotInUse, match="session sleeper is suspended in it"):
        hf.snapshots()[-1].remove()

    resumed = hf.session("sleeper").resume()

    assert (resumed.id, resumed.name, resumed.state) == (session.id, "sleeper", "running")
    assert resumed.exec('echo "$PWD $kept $(jobs -r | wc -l)"', timeout=30).text == "/srv yes 1\n"
    assert resumed.cell("print(kept)", timeout=60).stdout == "42\n"


def test_a_session_that_stopped_waiting_is_not_captured(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the machine is so slow that the session continues before it is frozen, no copy is made."""
    session = hf.new("impatient")
    socket = hf.home.run_dir(session.id) / layout.SOCKET_NAME
    capture = Taking._capture

    def late(*args: Any) -> Any:
        while not socket.exists():
            os.sched_yield()
        return capture(*args)

    monkeypatch.setattr(Taking, "_capture", late)
    with pytest.raises(CaptureFailed, match="did not begin in time"):
        session.snapshot()
    monkeypatch.undo()
    assert alive(session)
    assert nothing_begun(hf)
    assert not hf.snapshots()
    session.snapshot()


def test_resuming_a_session_that_is_not_suspended_is_refused(hf: Holdfast) -> None:
    """One clear line."""
    session = hf.new("awake")
    with pytest.raises(SessionError, match="cannot resume session awake: it is not suspended"):
        session.resume()


def test_a_taken_name_undoes_all_forks(hf: Holdfast) -> None:
    """Three are wanted, the second name is taken: none is made."""
    session = hf.new("parent")
    hf.new("copy-2")
    snapshot = session.snapshot()

    with pytest.raises(HoldfastError, match="the name is taken"):
        snapshot.fork(3, "copy")

    assert sorted(s.name for s in hf.sessions()) == ["copy-2", "parent"]
    assert nothing_begun(hf)


def test_a_filesystem_snapshot_keeps_files_only(hf: Holdfast) -> None:
    """Files are there, processes are not; shell and kernel are new."""
    session = hf.new("parent")
    session.exec("echo kept > /srv/file; lost=yes; sleep 100000 &", timeout=30)

    restored = session.snapshot("files", kind="filesystem").restore("copy")

    assert restored.exec('cat /srv/file; echo "[$lost]$(jobs)"', timeout=30).text == "kept\n[]\n"
    assert alive(restored)
    assert alive(session)


def test_a_restored_session_outlives_its_snapshot(hf: Holdfast) -> None:
    """Removing a snapshot takes nothing from sessions restored from it; their image goes with them."""
    session = hf.new("parent")
    snapshot = session.snapshot("short-lived")
    restored = snapshot.restore("copy")
    snapshot.remove()

    assert alive(restored)
    restored.remove()
    assert Engine.connect().images.listed(holdfast_home=hf.home.digest) == []

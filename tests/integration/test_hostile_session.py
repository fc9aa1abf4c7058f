"""Attacks by root in a session on captures and restores of it. The files they aim at are made for them."""

from __future__ import annotations

import mmap
import os
import re
import signal
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from pathlib import Path

import pytest
from tests.integration import foreign_first
from tests.integration.test_egress import HostService
from tests.stepping import freezer_of

from holdfast.engine import networks
from holdfast.errors import HoldfastError, LiveUnsupported, RestoreFailed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

pytestmark = pytest.mark.thorough

ATTACKS = Path(__file__).parent / "attacks"
# kthreadd, on every host: its root is the host's, for a process that sees the host's processes.
HOST = "/proc/2/root"
TURNS = 10
"""The number of runs of a race that may be lost: it is won in most of them."""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A folder of the host, with a file that fits into the place of one of the session."""
    folder = tmp_path / "canary"
    folder.mkdir(mode=0o755)
    (folder / "file").write_bytes(b"host only ".ljust(4096, b"."))
    return folder


def compile_in(session: Session, name: str, **defined: str) -> str:
    """Build an attack in a session; return its path there."""
    source = (ATTACKS / f"{name}.c").read_text()
    flags = " ".join(f"'-D{key}=\"{value}\"'" for key, value in defined.items())
    made = session.exec(
        f"cat > /tmp/{name}.c <<'END'\n{source}\nEND\ngcc -O1 {flags} -o /tmp/{name} /tmp/{name}.c"
    )
    assert made.ok, made.text
    return f"/tmp/{name}"


def start_in(session: Session, name: str) -> None:
    """Start a Python program of the attacks next to the shell."""
    source = (ATTACKS / f"{name}.py").read_text()
    made = session.exec(
        f"cat > /tmp/{name}.py <<'END'\n{source}\nEND\nsetsid python3 /tmp/{name}.py >/dev/null 2>&1 &"
    )
    assert made.ok, made.text


def init_of(hf: Holdfast, session: Session) -> int:
    """Return the first process of a session, in the host's numbers."""
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    return state.pid


def assert_untouched(canary: Path) -> None:
    assert sorted(path.name for path in canary.iterdir()) == ["file"]
    assert (canary / "file").read_bytes() == b"host only ".ljust(4096, b".")


FIRST = f"""#!/bin/bash
(exec 3<>"/dev/tcp/ADDRESS/PORT") 2>/dev/null
exec PROGRAM "{foreign_first.OURS}" "$@"
"""
"""Calls the host before the network is closed, and becomes an attack that begins our program."""


def replace_first(hf: Holdfast, session: Session, service: HostService, canary: Path) -> str:
    """Put a hostile program where sessions once had their first one; return its path."""
    mapped = f"/proc/self/cwd/../../..{HOST}{canary}/file"
    program = compile_in(session, "first_process", SHARED=f"{HOST}{canary}", MAPPED=mapped)
    network = hf.engine.client.api.inspect_network(networks.ensure(hf.engine))
    given = {"ADDRESS": network["IPAM"]["Config"][0]["Gateway"], "PORT": service.port, "PROGRAM": program}
    script = reduce(lambda text, one: text.replace(one[0], str(one[1])), given.items(), FIRST)
    place = "/opt/holdfast/bin/init"
    done = session.exec(f"cat >{place} <<'END' && chmod 755 {place}\n{script}\nEND")
    assert done.ok, done.text
    return place


def test_a_replaced_first_process_writes_nothing_on_the_host(
    hf: Holdfast, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process of a copy is not the session's: restored, forked and started files-only alike.

    If it were, which the engine is made to do here, it would be found out before anything is restored.
    """
    service = HostService()
    session = hf.new("evil")
    place = replace_first(hf, session, service, canary)
    start_in(session, "mapped")
    filled = session.exec(
        "mkdir /dev/shm/x && cd /dev/shm/x && for n in $(seq 0 2999); do echo evil > p$n; done && "
        "chmod 4755 p7 && cd && "
        "until [ -e /workspace/mapped ]; do :; done",
        timeout=60,
    )
    assert filled.ok, filled.text

    snapshot = session.snapshot("live")
    only_files = session.snapshot("files", kind="filesystem")
    copies = [snapshot.restore("copy"), *snapshot.fork(1, "fork"), *only_files.fork(1, "files")]

    ours = {(path.stat().st_dev, path.stat().st_ino) for path in hf.home.init.glob("*/*")}
    for copy in copies:
        assert copy.exec(f"test -x {place}").ok
        running = Path(f"/proc/{init_of(hf, copy)}/exe").stat()
        assert (running.st_dev, running.st_ino) in ours
    assert service.came == []
    assert copies[0].exec("ls /dev/shm/x | wc -l; stat -c %a /dev/shm/x/p7").text.split() == ["3000", "4755"]
    copies[0].exec("touch /workspace/write; until [ -s /workspace/wrote ]; do sleep 0.01; done", timeout=30)

    at_once = "not Holdfast's own|does not lead to the folder mounted there"
    for overlooked in (False, True):
        with monkeypatch.context() as patch:
            foreign_first.begin(patch, place)
            if overlooked:
                foreign_first.overlook(patch, hf)
            with pytest.raises(HoldfastError, match="a process outside of" if overlooked else at_once):
                snapshot.restore("never")
        assert service.came != []  # it was the first, and ran
        service.came.clear()
    service.close()
    assert_untouched(canary)


def test_the_program_of_the_first_process_cannot_be_written(hf: Holdfast) -> None:
    """Neither by its name in the session, nor through /proc, nor by tracing it."""
    session = hf.new()
    before = {path.name: path.read_bytes() for path in hf.home.init.glob("*/*")}
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    place = state.program
    assert session.exec("tr '\\0' ' ' </proc/1/cmdline").text == f"{place} start "
    attempts = (
        f"echo x >> {place}",
        f"rm -f {place}",
        f"mv {place} /tmp/init",
        f"umount {place}",
        f"mount -o remount,rw {place}",
        "mv /dev /dev-of-the-engine",
        "echo x >> /proc/1/exe",
        "echo x >> /proc/1/mem",
        "cat /proc/1/environ",
        # A file that runs cannot be written to anyway; of the mount alone it depends whether these can.
        f"chmod 4777 {place}",
        f"touch -d 2001-01-01 {place}",
        f"chown 1 {place}",
    )
    assert session.exec(f"cat {place} | sha256sum").text.split()[0] in before
    assert [one for one in attempts if session.exec(one).ok] == []
    assert "Read-only file system" in session.exec(f"chmod 4777 {place}").text

    assert {path.name: path.read_bytes() for path in hf.home.init.glob("*/*")} == before
    assert session.exec(f"cat {place} | sha256sum").text.split()[0] in before


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
def test_signals_to_criu_delay_nothing(hf: Holdfast, number: signal.Signals) -> None:
    """Whatever signal a session sends to it, its snapshot is taken, and so is the next one."""
    session = hf.new()
    program = compile_in(session, "strike_criu")
    session.exec(f"for n in 1 2 3; do setsid {program} {int(number)} >/dev/null 2>&1 & done")
    copies = [_restored(session.snapshot(f"s{turn}")) for turn in range(3)]
    session.exec("touch /tmp/enough")

    assert session.exec("wc -c < /tmp/hit 2>/dev/null || echo 0").text.strip() != "0", "CRIU was never seen"
    alive = [copy for copy in copies if copy is not None]
    assert alive
    assert all("well\n" in copy.exec("echo well").text for copy in alive)


def _restored(snapshot: Snapshot) -> Session | None:
    """Return a copy in which the attack continues; None if a program was reading CRIU's /proc entry."""
    try:
        return snapshot.restore()
    except RestoreFailed as error:
        if re.search(r"Can't open file proc/\d+/comm", str(error)):
            return None
        raise


def test_the_supervisor_cannot_be_made_to_start_outsiders(hf: Holdfast) -> None:
    """Root in the session cannot trace the root of the tree, nor the first process."""
    session = hf.new()
    program = compile_in(session, "inject")
    supervisor = session.exec("pgrep -of /opt/holdfast/guest").text.strip()

    for victim in (supervisor, "1"):
        assert session.exec(f"{program} {victim}").text == "not traced: Operation not permitted\n"


def test_a_process_outside_of_the_tree_is_refused_by_name(hf: Holdfast) -> None:
    """It would run while everything else is frozen. After it has ended, or was named, the snapshot is
    taken."""
    session = hf.new()
    container = hf.engine.client.containers.get(str(session.row.container_id))
    container.exec_run(["sleep", "1234"], detach=True)

    with pytest.raises(LiveUnsupported, match=r"sleep 1234 .*not in its tree"):
        session.snapshot("refused")
    (found,) = [one for one in session.check().resources if one.kind == "outside"]
    assert session.snapshot("forced", force_drop=[f"pid:{found.pid}"]).restore("copy").exec("true").ok
    assert session.exec("pgrep -x sleep").exit_code == 1


class Counter:
    """Reads, on the host, the count that a program in a session makes while it runs."""

    def __init__(self, hf: Holdfast, session: Session) -> None:
        start_in(session, "counter")
        path = hf.home.run_dir(session.id) / "counter"
        deadline = time.monotonic() + 30
        while not (path.exists() and path.stat().st_size == 4096):
            assert time.monotonic() < deadline
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)

    @property
    def value(self) -> int:
        return int(struct.unpack("Q", self._memory[0:8])[0])


class Watch(threading.Thread):
    """Records the counts while CRIU is in the mounts of a session."""

    def __init__(self, init: int, counter: Counter) -> None:
        super().__init__()
        self._mounts = Path(f"/proc/{init}/ns/mnt").readlink()
        self._counter = counter
        self.enough = False
        self.seen: dict[int, list[int]] = {}

    def run(self) -> None:
        while not self.enough:
            for criu in _called("criu"):
                with suppress(OSError):
                    before = Path(f"/proc/{criu}/ns/mnt").readlink()
                    value = self._counter.value
                    if before == Path(f"/proc/{criu}/ns/mnt").readlink() == self._mounts:
                        self.seen.setdefault(criu, []).append(value)


def _called(name: str) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                if (folder / "comm").read_text().strip() == name:
                    yield int(folder.name)


def test_the_session_does_not_run_while_criu_is_in_it(hf: Holdfast) -> None:
    """From the time CRIU enters the session's mounts until it lets go of the session."""
    session = hf.new()
    counter = Counter(hf, session)
    watch = Watch(init_of(hf, session), counter)
    watch.start()
    try:
        for turn in range(3):
            session.snapshot(f"s{turn}")
    finally:
        watch.enough = True
        watch.join()

    assert watch.seen
    # The last ones may date from after CRIU has let go; most are from while it holds the session.
    for values in watch.seen.values():
        assert values[0] == statistics.mode(values)


class Race(threading.Thread):
    """Stands in for a hostile process while a container is restored: acts once when CRIU comes."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__()
        self._act = act
        self.enough = False

    def run(self) -> None:
        while not self.enough:
            for criu in _called("criu"):
                with suppress(OSError):
                    self._act(criu)
                    return


@pytest.mark.parametrize("target", ["climbing", "planted"])
def test_a_mapping_is_always_of_a_file_of_the_session(hf: Holdfast, canary: Path, target: str) -> None:
    """Even if its name is swapped while CRIU runs: nothing leads up, and mappings are judged."""
    session = hf.new()
    start_in(session, "mapped")
    assert session.exec("until [ -e /workspace/mapped ]; do :; done", timeout=60).ok
    snapshot = session.snapshot("live")
    session.remove()
    links = {
        "climbing": f"/proc/self/cwd/../../..{HOST}{canary}/file",
        "planted": "/proc/self/cwd/planted",  # in CRIU's own folder
    }

    def swap(criu: int) -> None:
        folder = Path(f"/proc/{criu}/cwd")
        if not any(folder.samefile(scratch) for scratch in (hf.home.root / "scratch").iterdir()):
            raise FileNotFoundError  # it is not there yet
        (folder / "planted").write_bytes(b"\0" * 4096)
        file = Path(f"/proc/{criu}/root/workspace/d/file")
        file.rename(file.with_name("old"))
        file.symlink_to(links[target])

    refused = ""
    for turn in range(TURNS):
        race = Race(swap)
        race.start()
        try:
            copy = snapshot.restore(f"copy{turn}")
        except RestoreFailed as error:
            refused = str(error)
            break
        finally:
            race.enough = True
            race.join()
        # CRIU had opened the file before. The process has its own file, or the attack succeeded.
        copy.exec("touch /workspace/write; until [ -s /workspace/wrote ]; do sleep 0.01; done", timeout=30)
        assert copy.exec("tail -c 8 /workspace/wrote").text == "--------"
        copy.remove()

    # A moment too early there is nothing of that name, and the restore fails all the same.
    assert "holds resources outside the session: memory" in refused or "Can't open file" in refused
    assert target == "planted" or "Can't open file" in refused
    assert_untouched(canary)


LINKED = """
import os, socket, time
os.mkdir("/dev/shm/x")
if {socket}:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    held.bind("/dev/shm/x/criu.probe")
else:
    held = os.open("/dev/shm/x/criu.probe", os.O_RDWR | os.O_CREAT)
    os.write(held, b"..")
os.unlink("/dev/shm/x/criu.probe")
os.rmdir("/dev/shm/x")
os.symlink("/proc/self/cwd", "/dev/shm/x")
open("/workspace/linked", "w").close()
time.sleep(1000)
"""


@pytest.mark.parametrize("kind", ["file", "socket"])
def test_links_in_shared_memory_are_checked_before_criu_follows_them(hf: Holdfast, kind: str) -> None:
    """They are the session's own, in a snapshot that is not forged, and lead into /proc."""
    session = hf.new()
    program = LINKED.format(socket=kind == "socket")
    session.exec(
        f"cat > /tmp/linked.py <<'END'\n{program}\nEND\nsetsid python3 /tmp/linked.py >/dev/null 2>&1 &"
    )
    assert session.exec("until [ -e /workspace/linked ]; do :; done", timeout=60).ok
    snapshot = session.snapshot("linked")

    with pytest.raises(RestoreFailed, match=r"a link takes '/dev/shm/x(/criu\.probe)?' out of the session"):
        snapshot.restore()
    assert list((hf.home.root / "scratch").iterdir()) == []


def test_a_killed_checkpointer_leaves_no_session_frozen(hf: Holdfast) -> None:
    """A capture that dies between freezing and seizing leaves nothing frozen behind."""
    session = hf.new()
    state = freezer_of(init_of(hf, session))
    for turn in range(5):  # the kill may come when the capture has just ended
        session.snapshot(f"warm{turn}")
        if _dies_once_frozen(hf, session, state):
            break
    else:
        pytest.fail("no capture was killed while the session was frozen")
    assert session.exec("echo well", timeout=60).text == "well\n"
    assert state.read_text().strip() in ("THAWED", "0")
    assert session.snapshot("again").restore("copy").exec("true").ok


def _dies_once_frozen(hf: Holdfast, session: Session, state: Path) -> bool:
    """Kill the checkpointer when it has frozen the session; return whether that ended the capture."""
    (checkpointer,) = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer")
    container = hf.engine.inspect(checkpointer)
    assert container is not None
    doomed = freezer_of(container.pid).with_name("cgroup.procs")
    killed = threading.Event()

    def kill() -> None:
        while not killed.is_set():
            if state.read_text().strip() in ("FROZEN", "FREEZING", "1"):
                for pid in doomed.read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                killed.set()

    hunter = threading.Thread(target=kill)
    hunter.start()
    try:
        session.snapshot()
    except HoldfastError:
        return killed.is_set()
    finally:
        killed.set()
        hunter.join()
    return False


def test_the_kernel_cannot_be_made_to_kill_criu(hf: Holdfast) -> None:
    """A session names CRIU as the receiver of the signal for an access made while everything is frozen."""
    session = hf.new()
    program = compile_in(session, "strike_criu")
    session.exec(f"kept=yes; (setsid {program} >/dev/null 2>&1 &)")

    snapshots = [session.snapshot(f"s{turn}") for turn in range(3)]

    assert session.exec("wc -c < /tmp/hit").text.strip() != "0", "CRIU was never seen"
    session.exec("touch /tmp/enough")
    assert snapshots[-1].restore("copy").exec("echo $kept").text == "yes\n"

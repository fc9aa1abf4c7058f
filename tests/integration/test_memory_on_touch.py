"""Forks hold little memory until they touch it, and nothing of it is ever lost."""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.integration.conftest import Cli

from holdfast.base import polling
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

SIZE = 96 << 20
STORM = Path(__file__).parents[1] / "inside" / "memory_storm.py"
# Every page has a content of its own, so that no page can take another's place.
FILL = f"""
import ctypes, os, re
heap = bytearray({SIZE})
key = int.from_bytes(os.urandom(8), "big")
start = -ctypes.addressof((ctypes.c_char * len(heap)).from_buffer(heap)) % 4096
def mark(at):
    return (key ^ at).to_bytes(8, "big")
for at in range(0, len(heap), 4096):
    heap[at:at + 8] = mark(at)
def page(at):
    return heap[at:at + 8] == mark(at)
def whole():
    return all(page(at) for at in range(0, len(heap), 4096))
def resident():
    where = ctypes.addressof((ctypes.c_char * len(heap)).from_buffer(heap))
    maps = open("/proc/self/smaps").read()
    form = r"^([0-9a-f]+)-([0-9a-f]+) .*\\n(?:.*\\n){{1,6}}?Rss: +([0-9]+) kB"
    for begin, end, size in re.findall(form, maps, re.M):
        if int(begin, 16) <= where < int(end, 16):
            return int(size) << 10
"""


def resident(session: Session) -> int:
    """Return the bytes of the heap that are in memory."""
    return int(says(session, "resident()"))


def says(session: Session, code: str) -> str:
    result = session.cell(code, timeout=300)
    assert result.status == "ok", result.error
    return result.text or ""


@pytest.fixture
def filled(hf: Holdfast) -> Snapshot:
    session = hf.new("parent")
    says(session, FILL)
    return session.snapshot("filled")


def test_untouched_pages_take_no_memory_and_all_are_there(hf: Holdfast, filled: Snapshot) -> None:
    forks = filled.fork(3, "copy")
    for fork in forks:
        assert resident(fork) < SIZE / 2
        assert (
            says(fork, "page(4096 * 7), page(len(heap) - 4096), page(4096 * 20000)") == "(True, True, True)"
        )
    time.sleep(1)  # nothing loads it in the background
    assert resident(forks[0]) < SIZE / 2
    assert says(forks[0], "whole()") == "True"
    assert resident(forks[0]) >= SIZE
    assert resident(forks[1]) < SIZE / 2
    eager = filled.fork(1, "eager", eager=True)[0]
    assert polling.until(lambda: resident(eager) >= SIZE, 60)


@pytest.mark.thorough
def test_a_capture_has_all_of_it(hf: Holdfast, filled: Snapshot) -> None:
    """Of a copy, of a copy of that copy, of a suspended one; the parent can have been removed by then."""
    fork = filled.fork(1, "copy")[0]
    hf.session("parent").remove()
    assert resident(fork) < SIZE / 2
    again = fork.fork(1, "again")[0]
    assert says(fork, "whole()") == "True"
    assert resident(again) < SIZE / 2
    again.suspend()
    again.resume()
    assert says(again, "whole()") == "True"
    third = filled.fork(1, "third")[0]
    filled.remove()
    third.rewind(third.snapshot("late"))
    assert says(third, "whole()") == "True"


@pytest.mark.thorough
def test_children_and_changed_mappings_have_the_right_content(filled: Snapshot) -> None:
    """A child's view, returned, moved and protected memory are as if all had been there."""
    fork = filled.fork(1, "copy")[0]
    says(
        fork,
        """
def in_child(look):
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writes, b"y" if look() else b"n")
        os._exit(0)
    os.close(writes)
    said = os.read(reads, 1)
    os.close(reads)
    os.waitpid(pid, 0)
    return said == b"y"
""",
    )
    assert says(fork, "all(in_child(lambda: page(4096 * n)) for n in (1, 900, 20000))") == "True"
    assert says(fork, "all(in_child(lambda: page(4096 * n)) for n in range(300))") == "True"
    assert says(fork, "in_child(whole) and whole()") == "True"
    other = filled.fork(1, "other")[0]
    says(
        other,
        """
where = ctypes.addressof((ctypes.c_char * len(heap)).from_buffer(heap)) + start
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise(ctypes.c_void_p(where + (32 << 20)), ctypes.c_size_t(8 << 20), 4)  # MADV_DONTNEED
gone = bytes(heap[start + (32 << 20):start + (40 << 20)])
""",
    )
    assert says(other, "gone.count(0) == len(gone)") == "True"
    assert says(other, "all(page(at) for at in range(0, 31 << 20, 4096))") == "True"
    assert says(other, "all(page(at) for at in range(41 << 20, len(heap) - 4096, 4096))") == "True"
    grown = filled.fork(1, "grown")[0]
    says(grown, "del heap[48 << 20:]; heap.extend(bytes(512 << 20))")  # munmap(2), mremap(2)
    assert says(grown, "all(page(at) for at in range(0, 48 << 20, 4096))") == "True"
    assert says(grown, "heap.count(0, 48 << 20) == 512 << 20") == "True"


@pytest.mark.thorough
def test_many_children_do_not_pile_up(filled: Snapshot) -> None:
    """A shell's are not even noticed; a process with missing memory gets the rest of it after some."""
    fork = filled.fork(1, "copy")[0]
    assert fork.exec("for i in $(seq 200); do /bin/true; done; echo $?").text == "0\n"
    assert resident(fork) < SIZE / 2
    says(
        fork, "for n in range(100):\n    pid = os.fork()\n    if not pid: os._exit(0)\n    os.waitpid(pid, 0)"
    )
    assert polling.until(lambda: resident(fork) >= SIZE, 60)
    assert says(fork, "whole()") == "True"


@pytest.mark.thorough
def test_other_readers_of_a_process_work(hf: Holdfast, filled: Snapshot) -> None:
    fork = filled.fork(1, "copy")[0]
    pulse = fork.pulse()
    kernel = next(each for each in pulse.processes if "ipykernel" in each.command)
    told = fork.exec(
        f"tr '\\0' ' ' < /proc/{kernel.pid}/cmdline; tr '\\0' '\\n' < /proc/{kernel.pid}/environ | wc -l"
    )
    assert "ipykernel" in told.text
    assert int(told.text.split()[-1]) > 3
    assert fork.check() is not None
    assert fork.drift("filled") is not None
    asked = fork.exec("read -p 'Name? ' name; echo $name", timeout=30)
    assert asked.waiting is not None
    assert fork.answer("bo\n").exit_code == 0


def serving(session: Session) -> list[int]:
    """Return the processes that serve a session's memory on demand: they are in its control groups."""
    found = subprocess.run(["pgrep", "-f", "^/usr/sbin/criu lazy-pages"], capture_output=True, check=False)
    return [int(pid) for pid in found.stdout.split() if str(session.row.container_id) in groups(int(pid))]


def groups(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:  # it has ended
        return ""


@pytest.mark.thorough
def test_the_server_of_its_memory_ends_with_it_and_takes_it_along(hf: Holdfast, filled: Snapshot) -> None:
    """A session never continues with memory that is not its own."""
    one, two = filled.fork(2, "copy")
    (first,), (second,) = serving(one), serving(two)
    one.remove()
    assert polling.until(lambda: not groups(first), 60)
    os.kill(second, signal.SIGKILL)
    assert polling.until(lambda: two.refresh().state == "dead", 60)
    assert polling.until(lambda: not list((hf.home.root / "checkpointer").glob("*.load")), 60)


@pytest.mark.thorough
def test_a_pause_of_the_session_does_no_harm(filled: Snapshot) -> None:
    fork = filled.fork(1, "copy")[0]
    container = fork.row.container_id
    assert container
    for verb in ("pause", "unpause", "pause", "unpause"):
        subprocess.run(["docker", verb, container], check=True, capture_output=True)
    assert says(fork, "whole()") == "True"


@pytest.mark.thorough
def test_small_sessions_are_loaded_at_once(hf: Holdfast, cli: Cli) -> None:
    hf.new("parent")
    assert cli("fork", "parent", "--name", "copy", "-n", "2", "--eager").code == 0
    assert cli("fork", "parent", "--name", "other").code == 0
    assert [serving(session) for session in hf.sessions()] == [[], [], [], []]


WHILE_FORKING = """
import hashlib, subprocess, threading
hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
view = memoryview(heap)
def touch(part):
    for at in range(part * 4096, 8 * 200 * 4096, 8 * 4096):  # hashing lets the others run
        hashlib.sha1(view[at:at + 4096])
threads = [threading.Thread(target=touch, args=(part,), daemon=True) for part in range(8)]
for thread in threads:
    thread.start()
children = 0
while any(thread.is_alive() for thread in threads) and children < 50:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    children += 1
for thread in threads:
    thread.join(60)
for hog in hogs:
    hog.kill()
    hog.wait()
children > 0, any(thread.is_alive() for thread in threads)
"""


def test_threads_get_their_memory_while_another_forks(filled: Snapshot) -> None:
    """Also on busy processors, where the kernel reports what they touch before it reports the fork."""
    fork = filled.fork(1, "copy")[0]
    assert resident(fork) < SIZE / 2
    assert says(fork, WHILE_FORKING) == "(True, False)"
    assert says(fork, "whole()") == "True"


@pytest.mark.thorough
def test_a_child_does_not_see_hidden_descriptors(hf: Holdfast) -> None:
    """MADV_WIPEONFORK: the child of a fork reads zeros, as a child of the parent does. Also parts marked
    since the capture, by the copy or by a child of it; the process that marked it still reads it.
    """
    session = hf.new("parent")
    says(
        session,
        """
import mmap, os
hidden = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
hidden.madvise(18)  # MADV_WIPEONFORK
late = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(hidden), 4096):
    hidden[at] = late[at] = 7
PART = 4 << 20
def read(part):
    return sum(late[at] for at in range(part * PART, (part + 1) * PART, 4096 * 8))
def child_of(what):
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writes, repr(what()).encode())
        os._exit(0)
    os.close(writes)
    said = eval(os.read(reads, 1000))
    os.close(reads)
    os.waitpid(pid, 0)
    return said
def second():
    late.madvise(18, 2 * PART, PART)
    return read(1), child_of(lambda: [read(part) for part in range(4)]), read(2), read(3)
def marked():
    late.madvise(18, 0, PART)
    return child_of(lambda: [read(part) for part in range(2)]), child_of(second), read(0)
def in_child():
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writes, bytes([max(hidden[at] for at in range(0, len(hidden), 4096))]))
        os._exit(0)
    os.close(writes)
    said = os.read(reads, 1)
    os.close(reads)
    os.waitpid(pid, 0)
    return said[0]
""",
    )
    assert says(session, "in_child(), hidden[4096 * 9000]") == "(0, 7)"
    forks = session.snapshot("hidden").fork(2, "copy")
    assert says(forks[0], "in_child(), hidden[4096 * 9000]") == "(0, 7)"
    full = 7 * (4 << 20) // (4096 * 8)
    expected = str(([0, full], (full, [0, full, 0, full], full, full), full))
    assert says(session, "marked()") == expected
    assert says(forks[1], "marked()") == expected


# What root finds of a snapshot: by descriptors, mappings and mounts, and by the process that reads it.
SEARCH = r"""
ls -l /proc/*/fd /proc/*/map_files 2>/dev/null | grep -E 'pages-|pagemap|/snapshots/|/scratch/'
grep -E '/snapshots|/scratch|/staging|/chunks' /proc/*/mountinfo /proc/*/mounts
grep -al '[l]azy-pages' /proc/*/cmdline
echo searched
"""


@pytest.mark.thorough
def test_no_program_of_a_fork_reaches_the_images_it_is_served_from(hf: Holdfast, filled: Snapshot) -> None:
    """They were judged before the fork ran, and are read for as long as it misses memory.

    A process that can write to them has memory that was never judged. They are files of the home, which no
    one else can enter, and are open in a process that the fork does not see.
    """
    fork = filled.fork(1, "copy")[0]
    (server,) = serving(fork)
    opened = {str(path.readlink()) for path in Path(f"/proc/{server}/fd").iterdir()}
    assert any("pages-" in name for name in opened), opened
    assert fork.exec(f"bash -c {shlex.quote(SEARCH)} search", timeout=120).text == "searched\n"
    for folder in ("snapshots", "staging", "scratch"):
        place = hf.home.root / folder
        assert place.stat().st_mode & 0o077 == 0
        assert all(path.lstat().st_uid == os.geteuid() for path in place.rglob("*"))


@pytest.mark.thorough
def test_storms_of_root_disturb_no_other_and_read_nothing_wrong(hf: Holdfast, filled: Snapshot) -> None:
    """Threads that fault, unmap, move, give back, fork, execute, trace and map terabytes while memory waits.

    Meanwhile another fork gets its memory, a session is captured, and a fork is made.
    """
    stormy, other = filled.fork(2, "copy")
    assert resident(stormy) < SIZE / 2
    says(stormy, STORM.read_text())
    with ThreadPoolExecutor() as threads:
        storm = threads.submit(says, stormy, "storm(heap, mark)")
        try:
            for number in range(5):
                assert says(other, f"page(4096 * {7 + 900 * number})") == "True"
                assert other.exec("echo here").text == "here\n"
            late = hf.session("parent").snapshot("late").fork(1, "late")[0]
            assert not storm.done()
        finally:
            stormy.files.write("/tmp/enough", b"")
        done, wrong, hanging = ast.literal_eval(storm.result())
    assert all(done.values()), done
    assert (wrong, hanging) == ([], 0)
    assert says(late, "whole()") == says(other, "whole()") == "True"
    assert says(stormy, f"all(page(at) for at in range(4096, {16 << 20}, 4096))") == "True"

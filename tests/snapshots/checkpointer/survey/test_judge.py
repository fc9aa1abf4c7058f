"""The verdicts on a survey of a session: each kind of resource, tried without a kernel."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest

from holdfast.procfs import descriptor_info, descriptor_links, memory_maps, process_status
from holdfast.procfs.mount_table import MountedPart
from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.record import judged_limits
from holdfast.snapshots.checkpointer.survey import judge
from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.checkpointer.survey.judge import Finding
from holdfast.snapshots.checkpointer.survey.seen import (
    FileState,
    Mapped,
    Network,
    SeenDescriptor,
    SeenProcess,
    SessionMounts,
    World,
)

SPACES = {"mnt": 1, "pid": 2, "net": 3, "user": 4, "time": 5, "time_for_children": 5}
ROOT = MountedPart(10, 1, 0, 50, "/", "/", "overlay", writable=True)
SHARED = MountedPart(11, 10, 8, 1, "/data", "/mnt/data", "ext4", writable=True)
INSIDE = MountedPart(12, 10, 8, 1, "/x", "/mnt/inner", "ext4", writable=True)
MEMORY = MountedPart(13, 10, 0, 60, "/", "/mnt/memory", "tmpfs", writable=True)
FUSE = MountedPart(14, 10, 0, 61, "/", "/mnt/remote", "fuse.sshfs", writable=True)
PLACES = SessionMounts(
    mounts={mount.id: mount for mount in (ROOT, SHARED, INSIDE, MEMORY, FUSE)},
    inner=frozenset({12, 13, 14}),
    host=frozenset({11}),
    engine_files=frozenset({(2049, 77)}),
    proc=frozenset({70}),
    memory=7,
)
LARGE = 300 << 20


def told(text: str = "") -> process_status.ProcessStatus:
    """Return a status with the lines of `text` in place of the ordinary ones."""
    given = dict(line.split(":", 1) for line in text.splitlines())
    lines = {
        "Name": "program", "State": "S (sleeping)", "Pid": "4100", "PPid": "4000", "TracerPid": "0",
        "Uid": "0 0 0 0", "Gid": "0 0 0 0", "Threads": "1", "NSpid": "4100 41", **given,
    }  # fmt: skip
    found = process_status.parse("".join(f"{name}:\t{value}\n" for name, value in lines.items()).encode())
    assert found is not None
    return found


def process(text: str = "", **more: Any) -> SeenProcess:
    given: dict[str, Any] = {"pid": 4100, "inner": 41, "command": "program", "namespaces": SPACES}
    given.update(more)
    return SeenProcess(status=told(text), **given)


def world(*processes: SeenProcess, network: Network | None = None) -> World:
    """A session: its supervisor, and these."""
    top = SeenProcess(4000, 40, told("Pid:4000\nNSpid:4000 40"), "supervisor", SPACES)
    everyone = (top, *processes)
    return World(
        everyone,
        network or Network({}),
        PLACES,
        SPACES,
        pids={one.pid: one.inner for one in everyone} | {4999: 0},
    )


def verdicts(*processes: SeenProcess, network: Network | None = None) -> list[Finding]:
    """Of the programs, without the supervisor."""
    return [one for one in judge.findings(world(*processes, network=network)) if one.pid != 40]


def of(descriptor: SeenDescriptor, network: Network | None = None) -> str:
    """Return the kind one descriptor is judged to be."""
    (found,) = (one for one in verdicts(process(descriptors=(descriptor,)), network=network) if one.fd >= 0)
    assert found.what
    return found.kind


def opened(
    target: str, info: str = "mnt_id:\t10\n", file: FileState | None = None, **more: Any
) -> SeenDescriptor:
    return SeenDescriptor(
        3, descriptor_links.parse(target), descriptor_info.parse(info.encode()), file, **more
    )


@pytest.mark.parametrize(
    ("text", "more", "kind"),
    [
        ("", {}, "process"),
        ("State:T (stopped)", {}, "stopped"),
        ("State:Z (zombie)", {}, "zombie"),
        ("State:Z (zombie)\nThreads:3", {}, "headless"),
        ("Uid:1000 0 0 0", {}, "other_user"),
        ("TracerPid:4000", {}, "traced"),
        ("SigPnd:0000000000000010", {}, "trap"),
        ("State:D (disk sleep)", {"stuck": 41}, "stuck"),
        ("", {"label": "unconfined"}, "label"),
        ("State:D (disk sleep)", {}, "process"),
        ("", {"namespaces": {**SPACES, "user": 9}}, "inner_namespace"),
        ("", {"namespaces": {**SPACES, "time_for_children": 9}}, "inner_namespace"),
    ],
)
def test_processes(text: str, more: dict[str, Any], kind: str) -> None:
    """One finding for each, whatever its state."""
    (found,) = verdicts(process(text, **more))

    assert (found.kind, found.pid) == (kind, 41)


def test_a_watch_of_a_file_that_was_deleted_ends_in_copies() -> None:
    """The process has it open; others can have the same number on a different file system."""
    watcher = opened(
        "anon_inode:inotify", f"inotify wd:1 ino:5 sdev:{os.major(7) << 20 | os.minor(7):x} mask:2\n"
    )
    deleted = dataclasses.replace(opened("/srv/a (deleted)", file=FileState("file", 7, 5, 0, 0)), number=4)
    elsewhere = dataclasses.replace(deleted, file=FileState("file", 8, 5, 0, 0))

    assert {one.kind for one in verdicts(process(descriptors=(watcher, deleted)))} >= {"watch_deleted"}
    assert {one.kind for one in verdicts(process(descriptors=(watcher, elsewhere)))} >= {"watch"}


def test_a_tracer_within_the_session_is_named() -> None:
    """Its end would free the process as well."""
    tracer = process("Pid:4200\nNSpid:4200 42", pid=4200, inner=42, command="strace -p 41")
    found = next(one for one in verdicts(process("TracerPid:4200"), tracer) if one.kind == "traced")

    assert found.what == "traced by strace -p 41 (pid 42)"
    assert found.also == (42,)


def test_a_process_adopted_out_of_its_session_is_reported() -> None:
    """Its leader has ended, a process other than the supervisor is its parent, and no copy can make it so."""
    shell = process("Pid:4200\nNSpid:4200 42\nNSsid:4200 42", pid=4200, inner=42)
    daemon = process("Pid:4300\nNSpid:4300 43\nPPid:4200\nNSsid:4399 50", pid=4300, inner=43)
    found = verdicts(shell, daemon)

    assert [(one.kind, one.pid, one.verdict) for one in found] == [
        ("process", 42, "survives"),
        ("adopted", 43, "blocks"),
    ]
    assert found[1].what == "of session 50"
    below = dataclasses.replace(daemon, status=dataclasses.replace(daemon.status, parent=4000))
    assert [one.kind for one in verdicts(shell, below)] == ["process", "process"]


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("MAX_DESCRIPTORS", "more than 3 descriptors in total"),
        ("MAX_THREADS", "more than 3 threads in total"),
        ("MAX_GROUPS", "more than 3 groups of threads in total"),
        ("MAX_NAMES", "more than 3 characters of names in total"),
        ("MAX_PROCESSES", "more than 3 processes in total"),
    ],
)
def test_more_than_a_restore_can_check_is_reported(
    monkeypatch: pytest.MonkeyPatch, limit: str, what: str
) -> None:
    """It is reported once, on the process that has the most; a session that a restore would refuse is not
    captured.
    """
    large = process("Threads:8\nGroups:4 5", pid=4200, inner=42, descriptors=(opened("/srv/a"),))
    seen = dataclasses.replace(
        world(process(), large, process(pid=4300, inner=43)), open={4000: 1, 4100: 2, 4200: 4}
    )
    assert "crowd" not in {one.kind for one in judge.findings(seen)}
    if limit == "MAX_THREADS":
        seen = dataclasses.replace(seen, processes=seen.processes[:3])
    monkeypatch.setattr(judged_limits, limit, 3)
    found = [one for one in judge.findings(seen) if one.kind == "crowd"]

    assert [one.what for one in found] == [what]
    assert limit == "MAX_PROCESSES" or found[0].pid == 42


def test_a_process_of_docker_exec_is_reported() -> None:
    """It is not in the tree, and would run while that is frozen."""
    entered = process(pid=4300, inner=43)
    found = list(judge.findings(dataclasses.replace(world(), outside=(entered,))))[-1]

    assert (found.kind, found.pid, found.verdict) == ("outside", 43, "blocks")


def test_the_page_server_of_a_restore_is_not_taken_for_such_a_process() -> None:
    """The host's processes do not have a number in the session's PID namespace."""
    serving = process(pid=4300, inner=0)
    found = list(judge.findings(dataclasses.replace(world(), outside=(serving,))))[-1]

    assert (found.kind, found.verdict) == ("arriving", "blocks")


REGULAR = FileState("file", 50, 5, 4096, 1)


@pytest.mark.parametrize(
    ("descriptor", "kind"),
    [
        (opened("/srv/a", file=REGULAR), "file"),
        (opened("/srv/a", file=FileState("folder", 50, 5, 0, 2)), "file"),
        (opened("/srv/a (deleted)", file=FileState("file", 50, 5, 4096, 0)), "deleted_file"),
        (opened("/srv/a (deleted)", file=FileState("file", 50, 5, LARGE, 0)), "deleted_file_large"),
        (opened("/srv/a (deleted)", file=FileState("file", 50, 5, LARGE, 1)), "file"),
        (opened("/mnt/data/a", "mnt_id:\t11\n", REGULAR), "mounted_file"),
        (opened("/mnt/inner/a", "mnt_id:\t12\n", REGULAR), "inner_mount"),
        (opened("/mnt/memory/a", "mnt_id:\t13\n", REGULAR), "file"),
        (opened("/mnt/remote/a", "mnt_id:\t14\n"), "fuse_file"),
        (opened("/q", "mnt_id:\t99\n", REGULAR), "nowhere"),
        (opened("/etc/hosts", file=FileState("file", 2049, 77, 4096, 1)), "engine_file"),
        (opened("/srv/fifo", file=FileState("fifo", 50, 5, 0, 1)), "fifo"),
        (
            opened("/srv/s", "flags:\t010000000\nmnt_id:\t10\n", FileState("socket file", 50, 5, 0, 1)),
            "path_only",
        ),
        (opened("/dev/null", file=FileState("device", 5, 5, 0, 1, (1, 3))), "device"),
        (opened("/dev/pts/0", file=FileState("device", 5, 5, 0, 1, (136, 0))), "terminal"),
        (opened("/dev/tty", file=FileState("device", 5, 5, 0, 1, (5, 0))), "terminal"),
        (
            opened("/dev/ptmx", "flags:\t010000000\n", FileState("device", 5, 5, 0, 1, (5, 2))),
            "path_only",
        ),
        (opened("/dev/nvidia0", file=FileState("device", 5, 5, 0, 1, (195, 0))), "device_hardware"),
        (opened("/dev/fuse", file=FileState("device", 5, 5, 0, 1, (10, 229))), "device_hardware"),
        (opened("/proc/41/status"), "proc_file"),
        (opened("/proc/41/task/41/status"), "proc_file"),
        (opened("/proc/41/task/44/status"), "proc_file_gone"),
        (opened("/proc/41/fd"), "proc_file"),
        (opened("/proc/41/mem"), "proc_file_inside"),
        (opened("/proc/41/comm", "flags:\t0100001\nmnt_id:\t10\n"), "proc_file_inside"),
        (opened("/memfd:x (deleted)", file=FileState("file", 7, 5, 0, 0)), "memory_file"),
        (opened("/memfd:x (deleted)", file=FileState("file", 8, 5, 0, 0)), "nowhere"),
        (opened("pipe:[5]"), "pipe"),
        (opened("net:[3]"), "namespace"),
        (opened("anon_inode:[eventfd]"), "waiting"),
        (opened("anon_inode:[timerfd]"), "waiting"),
        (opened("anon_inode:[io_uring]"), "io_uring"),
        (opened("anon_inode:[perf_event]"), "kernel_object"),
        (opened("anon_inode:seccomp notify"), "kernel_object"),
        (opened("anon_inode:[pidfd]", "flags:\t02\nPid:\t4000\n"), "pidfd"),
        (opened("pidfd:[99]", "flags:\t02\nPid:\t-1\n"), "pidfd"),
        (opened("anon_inode:[pidfd]", "flags:\t02\nPid:\t1\n"), "pidfd_outside"),
        (opened("anon_inode:[pidfd]", "flags:\t02\nPid:\t4999\n"), "pidfd"),  # one that has ended since
        (opened("anon_inode:[pidfd]", "flags:\t0202\nPid:\t4000\n"), "pidfd_outside"),
        (opened("anon_inode:inotify", "inotify wd:1 ino:5 sdev:32 mask:fc6\n"), "watch"),
        (opened("anon_inode:inotify", "inotify wd:1 ino:5 sdev:32 mask:fc6\n", unread=16), "watch_unread"),
        (opened("anon_inode:inotify", "inotify wd:1 ino:5 sdev:46 mask:fc6\n", unread=16), "watch_gone"),
        (opened("anon_inode:inotify", "inotify wd:1 ino:5 sdev:46 mask:fc6\n"), "watch_gone"),
        (opened("anon_inode:inotify", "inotify wd:1 ino:4d sdev:800001 mask:fc6\n"), "watch_gone"),
        (
            opened("/srv/a", "mnt_id:\t10\nlock:\t1: FLOCK  ADVISORY  WRITE 41 00:32:5 0 EOF\n", REGULAR),
            "lock",
        ),
    ],
)
def test_descriptors(descriptor: SeenDescriptor, kind: str) -> None:
    """Each kind of descriptor."""
    assert of(descriptor) == kind


End = tuple[str, int]


def connected(local: End, remote: End, inode: int, state: str = "established") -> SocketRow:
    return SocketRow("tcp", state, *local, *remote, inode=inode)


def network(*sockets: SocketRow, **more: Any) -> Network:
    """A network of these; `held` are all of them unless given."""
    given: dict[str, Any] = {
        "sockets": {one.inode: one for one in sockets if one.inode},
        "held": frozenset(one.inode for one in sockets),
        "ends": frozenset((one.local_end, one.remote_end) for one in sockets if one.remote),
        "unaccepted": frozenset(
            (one.local_end, one.remote_end) for one in sockets if one.remote and not one.inode
        ),
        "listeners": tuple(one for one in sockets if one.waiting),
    }
    return Network(**given | more)


A, B = ("127.0.0.1", 80), ("127.0.0.1", 4000)
STREAM = SocketRow("unix stream", "established", "", inode=5, peer=6)
OTHER = SocketRow("unix stream", "established", inode=6)
ONE = frozenset({5})


@pytest.mark.parametrize(
    ("family", "seen", "kind"),
    [
        ("TCP", network(SocketRow("tcp", "listening", *A, inode=5)), "listener"),
        ("TCP", network(connected(A, B, 5), connected(B, A, 6)), "loopback"),
        ("TCP", network(connected(A, B, 5), connected(B, A, 0)), "connection_waiting"),
        ("TCP", network(connected(("10.0.0.2", 4000), ("10.9.9.9", 80), 5)), "connection_outside"),
        ("TCP", network(), "connectionless"),
        ("UDP", network(SocketRow("udp", "bound", *A, inode=5)), "connectionless"),
        ("UDP", network(SocketRow("udp", "bound", *A, send_queue=900, inode=5)), "datagram_corked"),
        ("MPTCP", network(SocketRow("tcp", "listening", *A, inode=5)), "socket_foreign"),
        ("AF_VSOCK", network(), "socket_foreign"),
        ("", network(), "connectionless"),
        ("NETLINK", network(), "netlink"),
        ("NETLINK", network(unread=frozenset({5})), "netlink_unread"),
        ("UNIX", network(STREAM, SocketRow("unix stream", "established", inode=6, peer=5)), "unix"),
        ("UNIX", network(STREAM), "unix_outside"),
        (
            "UNIX",
            network(STREAM, SocketRow("unix stream", "established", inode=6), held=frozenset({5})),
            "unix_outside",
        ),
        (
            "UNIX",
            network(
                STREAM, SocketRow("unix stream", "established", inode=6), held=frozenset({5}), in_flight=True
            ),
            "unix",
        ),
        ("UNIX", network(SocketRow("unix stream", "listening", "/s", inode=5, waiting=(8,))), "listener"),
        ("UNIX", network(SocketRow("unix stream", "listening", "/s", inode=5, waiting=(0,))), "unix_waiting"),
        (
            "UNIX",
            network(
                SocketRow("unix stream", "established", inode=5),
                SocketRow("unix stream", "listening", "/s", inode=6, waiting=(5,)),
            ),
            "unix",
        ),
        (
            "UNIX",
            network(
                SocketRow("unix stream", "established", inode=5, send_queue=3),
                SocketRow("unix stream", "listening", "/s", inode=6, waiting=(5,)),
            ),
            "unix_waiting",
        ),
        ("UNIX", network(SocketRow("unix stream", "established", inode=5)), "unix_outside"),
        ("UNIX", network(SocketRow("unix stream", "established", inode=5, closed=True)), "unix"),
        ("UNIX", network(SocketRow("unix datagram", "closed", "/d", inode=5)), "unix"),
        (
            "UNIX",
            network(SocketRow("unix datagram", "closed", "/d", inode=5, receive_queue=768)),
            "unix_unread",
        ),
    ],
)
def test_sockets(family: str, seen: Network, kind: str) -> None:
    """By family, state, and where the other end is."""
    assert of(opened("socket:[5]", family=family), seen) == kind


@pytest.mark.parametrize(
    ("first", "later", "same"),
    [
        ((5, ()), (5, ()), True),  # a client, of which nothing was accepted
        ((5, ()), (6, ()), False),  # another one with the same number
        ((5, (0, 9)), (5, (0, 9, 8)), True),  # a server that accepts nothing
        ((5, (9, 0)), (5, (0, 8)), False),  # one that does
    ],
)
def test_a_busy_server_has_no_blocker_twice(
    first: tuple[int, tuple[int, ...]], later: tuple[int, tuple[int, ...]], same: bool
) -> None:
    """A blocker must be present in two consecutive looks: a process that has its descriptor later does not
    count."""

    def identity(inode: int, waiting: tuple[int, ...]) -> object:
        state = "listening" if waiting else "established"
        row = SocketRow("unix stream", state, "/s" if waiting else "", inode=inode, waiting=waiting)
        seen = process(descriptors=(opened(f"socket:[{inode}]", family="UNIX"),))
        found = [one for one in verdicts(seen, network=network(row)) if one.verdict == "blocks"]
        return found[0].identity

    assert (identity(*first) == identity(*later)) == same


@pytest.mark.parametrize(
    ("line", "size", "kinds"),
    [
        (b"7f00-8f00 rw-s 00000000 00:0f 9 anon_inode:[io_uring]", 0, {"device_memory"}),
        (b"7f00-8f00 rw-s 00000000 00:05 9 /dev/nvidia0", 0, {"device_memory"}),
        (b"7f00-8f00 rw-s 00000000 00:05 9 /SYSV00000000 (deleted)", 0, {"shared_memory"}),
        (b"7f00-8f00 rw-s 00000000 00:05 9 /dev/zero (deleted)", 0, {"shared_memory"}),
        (b"7f00-8f00 rw-s 00000000 00:05 9 /dev/shm/pool", 0, {"shared_memory"}),
        (b"7f00-8f00 r--p 00000000 08:01 9 /srv/a (deleted)", 4096, set()),
        (b"7f00-8f00 r--p 00000000 08:01 9 /srv/a (deleted)", LARGE, {"deleted_file_large"}),
    ],
)
def test_memory(line: bytes, size: int, kinds: set[str]) -> None:
    """Of devices and rings, shared, and of deleted files."""
    (mapping,) = memory_maps.parse(line)
    found = verdicts(process(memory=(Mapped(mapping, size),)))

    assert {one.kind for one in found} - {"process"} == kinds


def polled(*numbers: int) -> SeenDescriptor:
    lines = "".join(
        f"tfd:        {number} events:       19 data: 5  pos:0 ino:{number:x} sdev:8\n" for number in numbers
    )
    return SeenDescriptor(
        9, descriptor_links.parse("anon_inode:[eventpoll]"), descriptor_info.parse(lines.encode())
    )


def test_polling_a_closed_descriptor_is_found_in_the_first_process() -> None:
    """CRIU looks for a descriptor with the first process that has the instance, and only there."""
    kept = SeenDescriptor(4, descriptor_links.parse("pipe:[4]"))
    first = process(descriptors=(polled(4),))
    second = process("Pid:4200", pid=4200, inner=42, descriptors=(kept, polled(4)))

    assert [one.kind for one in verdicts(first, second) if one.fd == 9] == ["poll_lost", "waiting"]
    assert [one.kind for one in verdicts(second, first) if one.fd == 9] == ["waiting", "waiting"]


def test_the_supervisors_connections_are_marked_and_never_block() -> None:
    """It closes them before a capture."""
    own = SeenProcess(
        4000,
        40,
        told("Pid:4000\nNSpid:4000 40"),
        "supervisor",
        SPACES,
        (opened("socket:[5]", family="UNIX"), opened("/srv/a", file=REGULAR)),
    )
    seen = World((own,), network(STREAM), PLACES, SPACES, pids={4000: 40})
    found = list(judge.findings(seen))

    assert {one.kind for one in found} == {"process", "supervisor", "file"}
    assert all(one.own for one in found)


def test_sizes_count_deleted_files_once() -> None:
    """Two descriptors of one file are one file."""
    deleted = opened("/srv/a (deleted)", file=FileState("file", 50, 5, 1000, 0))
    memory = "RssAnon:100 kB\nRssShmem:28 kB"
    seen = world(process(memory, descriptors=(deleted, dataclasses.replace(deleted, number=4))))

    assert judge.size(seen) == judge.CaptureSize(memory=128 << 10, deleted=1000)


def test_every_kind_has_its_texts() -> None:
    """A blocker has a reason and advice; every text fits into a sentence."""
    for kind in CATALOGUE.values():
        assert kind.verdict in ("survives", "reset", "blocks")
        assert kind.title
        assert kind.verdict != "blocks" or (kind.reason and kind.advice)
        assert not kind.reason.endswith(".")
        assert not kind.advice.endswith(".")

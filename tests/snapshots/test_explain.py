"""From CRIU's error lines to a reason a person can act on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.criu.criu import Running
from holdfast.snapshots.checkpointer.ground.separate_process import SeparateProcess
from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.explain import KNOWN, explain, named

NOISE = [
    "(criu/tun.c:85): tun: Unable to create tun: No such file or directory",
    "(criu/util.c:1532): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted",
    "(criu/uffd.c:757): uffd: PID recv: short read",
    "(criu/uffd.c:769): uffd: recv_fd error",
]
LAST = ["(criu/cr-dump.c:2005): Dumping FAILED."]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("(criu/files.c:1): Can't dump file 5 of that type [600] (anon anon_inode:[io_uring])", "io_uring"),
        ("(criu/seize.c:1): Unseizable non-zombie 312 found, state t, err -1/0", "traced"),
        (
            "guard: cannot seize a process that another one traces: Operation not permitted",
            "traced by a debugger",
        ),
        ("(criu/namespaces.c:1): Can't dump nested pid namespace for 400", "namespaces of its own (pid)"),
        ("(criu/sk-unix.c:1): Can't dump half of stream unix connection. name: /x", "unix socket"),
        ("(criu/tty.c:2281): tty: ctty inheritance detected sid/pgrp 302, no PTY peer", "/dev/tty"),
        ("(criu/cr-dump.c:391): Can't get rlimit 0: Operation not permitted", "changed its user"),
        ("(criu/fsnotify.c:284): fsnotify: Can't dump that handle", "watches /proc"),
        (
            "(criu/sk-inet.c:1): Unsupported proto 262 for socket 5",
            "network protocol that cannot be captured (262)",
        ),
        ("(criu/files-reg.c:1): Can't dump ghost file /x of 400 size, increase limit", "deleted file"),
        ("(criu/files.c:1): Can't dump file 9 of that type [20666] (chr /dev/nvidia0)", "(chr /dev/nvidia0)"),
        ("(criu/cpu.c:1): CPU xsave size mismatch (2440/2696)", "processor lacks"),
        ("(criu/files-reg.c:1165): trim failed: @link_remap.92@", "deleted while open"),
        ("(criu/kerndat.c:874): Can't create inotify: Too many open files", "no inotify instance left"),
        ("(criu/files-reg.c:1): File /x has bad size 5 (expect 6)", "has changed"),
    ],
)
def test_known_errors_have_a_reason(line: str, said: str) -> None:
    """The cause is found between lines that only say that something failed."""
    reason = explain([*NOISE, line, *LAST])

    assert said in reason.text
    assert reason.advice
    assert reason.known
    assert not reason.no_space


def test_a_full_disk_is_reported_separately() -> None:
    """It is the state directory that must be looked at, not the session."""
    assert explain(["(criu/image.c:1): Can't write img: No space left on device"]).no_space


def test_an_unknown_error_is_passed_on() -> None:
    """The first line that says something; never nothing at all."""
    assert "Strange thing" in explain([*NOISE, "(criu/x.c:1): Strange thing", *LAST]).text
    assert not explain([*NOISE, *LAST]).known


def test_an_end_without_an_answer_is_reported_and_tried_again() -> None:
    """Lines printed in every run do not count as the reason; the guard's words do."""
    silent = explain(NOISE)
    assert (silent.text, silent.passing) == ("CRIU gave no reason", True)
    assert explain([*NOISE, "guard: cannot find a thread: No such process"]).text.endswith("No such process")
    assert "no reason" in explain([]).text


def test_a_hung_restore_is_reported_as_hung() -> None:
    """And not that CRIU gave no reason: it was ended before it could."""
    hung = explain([*NOISE, "restore: not done after 300 s"])
    assert (hung.text, hung.known) == ("CRIU hung and was ended (300 s)", True)


@pytest.mark.parametrize(
    ("lines", "kind", "pid", "fd"),
    [
        (
            [
                "(criu/files-ext.c:98): Can't dump file 3 of that type [600] (anon anon_inode:[perf_event])",
                "(criu/cr-dump.c:1550): Dump files (pid: 489) failed with -1",
            ],
            "kernel_object",
            489,
            3,
        ),
        (
            [
                "(criu/pie/parasite.c:602): send_fds failed (-22)",
                "(criu/parasite-syscall.c:280): Can't retrieve FDs from socket",
            ],
            "io_uring",
            None,
            None,
        ),
        (
            [
                "(criu/proc_parse.c:511): Unknown shit 600 (anon_inode:[io_uring])",
                "(criu/proc_parse.c:747): Can't open 373's mapfile link 7f01afc2f000: No such device",
                "(criu/cr-dump.c:1444): Collect mappings (pid: 373) failed with -1",
            ],
            "io_uring",
            373,
            None,
        ),
        (
            ["(criu/files-ext.c:98): Can't dump file 5 of that type [20600] (chr 10:229)"],
            "device_hardware",
            None,
            5,
        ),
        (
            [
                "(criu/cr-dump.c:1660): Timeout reached. Try to interrupt: 0",
                "(compel/src/lib/infect.c:271): Unseizable non-zombie 1867 found, state D, err -1/4",
            ],
            "stuck",
            1867,
            None,
        ),
        (
            ["(compel/src/lib/infect.c:271): Unseizable non-zombie 1832 found, state S, err -1/10"],
            "traced",
            1832,
            None,
        ),
        (
            ["(infect.c:332): Can't dump the 745 thread with a pending SIGTRAP."],
            "trap",
            745,
            None,
        ),
        (["(criu/seize.c:887): Zombies with threads are not supported"], "headless", None, None),
        (["(criu/pstree.c:892): Can't find a session leader for 321"], "adopted", None, None),
        (
            ["(criu/namespaces.c:462): Can't dump nested time_for_children namespace for 796"],
            "inner_namespace",
            796,
            None,
        ),
        (
            ["(criu/mount.c:753): mnt: 763:./etc/hosts doesn't have a proper root mount"],
            "inner_namespace",
            None,
            None,
        ),
        (["(criu/sk-unix.c:418): unix: Unix socket 729 without peer 728"], "unix_outside", None, None),
        (["(criu/sk-unix.c:479): unix: Dangling connection 72985595"], "unix_outside", None, None),
        (
            ["(criu/sk-unix.c:506): unix: Non-empty write queue on an in-flight socket 0x459b68c"],
            "unix_waiting",
            None,
            None,
        ),
        (["(criu/sk-netlink.c:77): netlink: The socket has data to read"], "netlink_unread", None, None),
        (["(criu/sk-inet.c:212): inet: Can't dump corked dgram socket 1f"], "datagram_corked", None, None),
        (
            ["(criu/files-reg.c:1790): Can't lookup mount=328 for fd=3 path=/q"],
            "nowhere",
            None,
            3,
        ),
        (["(criu/sockets.c:640): sockets: Can't get 1:39 opt: Bad file descriptor"], "path_only", None, None),
        (["(criu/tty.c:177): tty: Can't obtain ptmx index: Bad file descriptor"], "path_only", None, None),
        (
            ["(pidfd.c:98): pidfd: pidfd pid 1 is not a part of process tree.."],
            "pidfd_outside",
            None,
            None,
        ),
        (["(criu/cr-dump.c:1555): Dump eventpoll (pid: 574) failed with -1"], "poll_lost", 574, None),
        (
            ["(criu/files-reg.c:2354): Can't open file proc/1538/task/1540/status on restore: No such file"],
            "proc_file_gone",
            None,
            None,
        ),
        (
            ["(sockets.c:767): BUG! Unknown socket collected (family 40)"],
            "socket_foreign",
            None,
            None,
        ),
    ],
)
def test_a_failure_has_the_words_of_the_check(
    lines: list[str], kind: str, pid: int | None, fd: int | None
) -> None:
    """Lines as CRIU wrote them: the kind of the catalogue, and whose it was."""
    reason = explain([*NOISE, *lines, *LAST])

    assert (reason.kind, reason.pid, reason.fd) == (kind, pid, fd)
    assert reason.known
    assert "criu/" not in reason.text
    assert CATALOGUE[kind].advice == reason.advice


def test_the_subject_of_an_entry_is_named() -> None:
    """Command and open files come from a look at the session."""
    reason = explain(
        [
            "(criu/files-ext.c:98): Can't dump file 3 of that type [600] (anon anon_inode:[perf_event])",
            "(criu/cr-dump.c:1550): Dump files (pid: 489) failed with -1",
        ]
    )

    assert named(reason, {(489, None): "perf top", (489, 3): "perf_event"}).text.endswith(
        "(perf_event) - in perf top (pid 489), descriptor 3, perf_event"
    )
    assert named(reason, {}).text.endswith("in process 489, descriptor 3")
    assert named(explain([]), {}) == explain([])


def test_every_known_string_says_something() -> None:
    """Of each there is a reason and advice, of its own or of the catalogue."""
    for known in KNOWN:
        kind = CATALOGUE.get(known.kind)
        assert known.kind == "" or kind is not None
        assert known.text or (kind is not None and kind.reason)
        assert known.advice or (kind is not None and kind.advice)


def test_the_guard_is_read_beside_the_log(tmp_path: Path) -> None:
    """It ends CRIU with one line, after which the log has no more."""
    (tmp_path / "dump.log").write_text(f"(00.001) Error {NOISE[1]}\n")
    said = os.fdopen(os.memfd_create("said"), "r+b")
    said.write(b"warning: of the loader\nguard: cannot freeze: Invalid argument\n")
    folder = os.open(tmp_path, os.O_DIRECTORY)
    ours, theirs = socket.socketpair()
    with ours, theirs, said:
        errors = Running(SeparateProcess(0), ours, said).errors(folder, "dump.log")
    os.close(folder)
    assert errors == [NOISE[1], "guard: cannot freeze: Invalid argument"]

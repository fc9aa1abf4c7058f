"""From CRIU's error lines to a reason a person can act on."""

from __future__ import annotations

import pytest

from holdfast.snapshots.explain import explain

NOISE = [
    "(criu/tun.c:85): tun: Unable to create tun: No such file or directory",
    "(criu/util.c:1532): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted",
]
LAST = ["(criu/cr-dump.c:2005): Dumping FAILED."]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("(criu/files.c:1): Can't dump file 5 of that type [600] (anon anon_inode:[io_uring])", "io_uring"),
        ("(criu/seize.c:1): Unseizable non-zombie 312 found, state t, err -1/0", "traced"),
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
        ("(criu/files-reg.c:1): File /x has bad size 5 (expect 6)", "not as it was"),
    ],
)
def test_known_errors_have_a_reason(line: str, said: str) -> None:
    """The cause is found between lines that only say that something failed."""
    reason = explain([*NOISE, line, *LAST])

    assert said in reason.text
    assert reason.advice
    assert reason.known
    assert not reason.no_space


def test_a_full_disk_is_told_apart() -> None:
    """It is the state directory that must be looked at, not the session."""
    assert explain(["(criu/image.c:1): Can't write img: No space left on device"]).no_space


def test_an_unknown_error_is_passed_on() -> None:
    """The first line that says something; never nothing at all."""
    assert "Strange thing" in explain([*NOISE, "(criu/x.c:1): Strange thing", *LAST]).text
    assert not explain([*NOISE, *LAST]).known
    assert "no reason" in explain([]).text

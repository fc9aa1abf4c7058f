"""Reads of other processes' files."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

from holdfast.runtime.guest.pulse import access, foreground


def test_a_process_can_read_its_own_files() -> None:
    """A process can read itself through every function."""
    me = os.getpid()

    assert access.stat(me) is not None
    assert access.links(me)
    assert "python" in access.command(me)
    assert access.read(f"/proc/{me}/task/{me}/syscall")


def test_an_ended_process_reads_as_none() -> None:
    """A process can end between two reads."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()

    assert access.read(f"/proc/{ended.pid}/stat") is None
    assert access.owner(ended.pid) is None
    assert access.links(ended.pid) == {}
    assert access.command(ended.pid) == ""


def test_a_process_of_another_user_can_be_inspected() -> None:
    """Root without CAP_SYS_PTRACE sees it with that user's file system IDs, and gets its own back."""
    code = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.prctl(24, 19, 0, 0, 0) == 0  # PR_CAPBSET_DROP, CAP_SYS_PTRACE
os.execvp(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
    look = """
import os, subprocess
from holdfast.runtime.guest.pulse import access
with subprocess.Popen(["cat"], user=65534, group=65534, extra_groups=[], stdin=subprocess.PIPE) as other:
    uid, gid = access.owner(other.pid)
    before = access.links(other.pid)
    with access.reading_as(uid, gid):
        seen = access.links(other.pid)
    after = access.links(other.pid)
    other.stdin.close()
assert (uid, gid) == (65534, 65534)
assert before == {} == after, (before, after)
assert 0 in seen, seen
assert os.access("/root", os.R_OK)
"""
    done = subprocess.run([sys.executable, "-c", code, look], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.returncode == 0


def test_a_table_of_many_pages_is_read_to_its_end() -> None:
    """The kernel delivers a page at a time: of hundreds of sockets each is found, and the named ones are
    listed.
    """
    with contextlib.ExitStack() as opened:
        named = [opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(300)]
        for one in named:
            one.bind("")  # a name of the kernel's choice, see unix(7)
        pair = socket.socketpair()
        for one in pair:
            opened.enter_context(one)
        links = [access.link(f"/proc/self/fd/{one.fileno()}") for one in (*named, *pair)]
        found = [foreground._named(os.getpid(), link) for link in links if link is not None]

    assert found == [True] * 300 + [False] * 2

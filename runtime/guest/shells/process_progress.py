"""The state of a shell that does not answer, from /proc: whether it is at work, and whether it is still ours.

It reads and decides nothing. As it is only asked when a wait has expired, it may read all of /proc.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from enum import StrEnum

from holdfast.procfs import process_status
from holdfast.runtime.guest.layout import MARKS_LIBRARY
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.shells.shell_program import ShellKind, ShellProgram

_WORKING = ("R", "D")


def at_work(session: int) -> bool:
    """Return whether a process of that terminal session runs, or would if it were given a processor."""
    for pid in access.numbers("/proc"):
        found = access.stat(pid)
        if found and found.session == session and found.state in _WORKING:
            return True
    return False


class Group(StrEnum):
    """How a process group would take a signal."""

    ENDED = "ended"
    BEING_STARTED = "being started"
    RUNS = "runs"


def group_state(group: int, shell: int) -> Group:
    """Return whether all processes of a group are programs by now, and no longer copies of the shell.

    In a loop of short programs each lives for a millisecond: reading all of /proc would take longer, and find
    every one of them gone.
    """
    kept = access.read(f"/proc/{shell}/cmdline")
    found = Group.ENDED
    for pid in _candidates(group, shell):
        status = access.stat(pid)
        if status is None or status.ended:
            continue
        # A copy has a group of its own before it has the terminal.
        ours = status.group == group or group == shell == status.parent
        if ours and pid != shell and access.read(f"/proc/{pid}/cmdline") == kept and _catches_interrupt(pid):
            return Group.BEING_STARTED
        if status.group == group:
            found = Group.RUNS
    return found


def interrupt_waits(group: int) -> bool:
    """Return whether the leader of a process group was sent a SIGINT that it has not taken yet."""
    return _has_interrupt(group, b"SigPnd", b"ShdPnd")


def _candidates(group: int, shell: int) -> Iterable[int]:
    """Return processes that include those of a group that a shell has just started.

    As long as the first of them exists, the others are found by their parent: this shell, or another in it.
    """
    leader = access.stat(group)
    if leader is None or leader.ended:
        return access.numbers("/proc")
    found = [group]
    for parent in {shell} if group == shell else {shell, leader.parent}:
        children = access.whole(f"/proc/{parent}/task/{parent}/children")
        if children is None:  # a kernel without CONFIG_PROC_CHILDREN
            return access.numbers("/proc")
        found += map(int, children.split())
    return found


def _catches_interrupt(pid: int) -> bool:
    """Return whether a process has a handler for SIGINT: a copy has its shell's until it is set up."""
    return _has_interrupt(pid, b"SigCgt")


def _has_interrupt(pid: int, *sets: bytes) -> bool:
    """Return whether SIGINT is in one of the signal sets of a process, see proc_pid_status(5)."""
    data = access.read(f"/proc/{pid}/status") or b""
    return any(int(process_status.field(data, one) or b"0", 16) >> (signal.SIGINT - 1) & 1 for one in sets)


def replaced_by(pid: int, program: ShellProgram) -> str:
    """Return the program that replaced a shell and makes no marks, or "" if the shell still makes them.

    A bash that makes them has loaded our library; another shell is the program that was started.
    """
    who = access.owner(pid)
    if who is None:
        return ""
    with access.reading_as(*who):
        found = access.link(f"/proc/{pid}/exe")
        maps = access.whole(f"/proc/{pid}/maps")
    if found is None or maps is None or MARKS_LIBRARY.name.encode() in maps:
        return ""
    if program.kind is not ShellKind.BASH and found == os.path.realpath(program.path):
        return ""
    name = found.removesuffix(" (deleted)").rpartition("/")[2]
    return "a bash that was started without its settings" if name == "bash" else name

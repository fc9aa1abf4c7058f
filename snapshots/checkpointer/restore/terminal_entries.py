"""Mends the terminals of a snapshot, and says which are to be made before its processes.

Pure over the decoded `files.img`, `tty-info.img` and `pstree.img`; guard_terminals.c makes what is planned.
"""

from __future__ import annotations

from typing import Any


def plan(files: list[Any], terminals: list[Any], processes: list[Any]) -> str:
    """Rename each master in `files` to the name by which the guard knows it; return the guard's input.

    A session whose leader is gone has no terminal any more.
    """
    leaders = {process.pid for process in processes if process.pid == process.sid}
    sessions = {entry.pty.index: entry.sid for entry in terminals if entry.HasField("pty")}
    masters = {entry.tty.regf_id: entry.tty.tty_info_id >> 1 for entry in files if _is_master(entry)}
    for entry in files:
        if entry.HasField("reg") and entry.id in masters:
            entry.reg.name = f"/dev/holdfast-ptmx-{masters[entry.id]}"
    entries = []
    for index in sorted(set(masters.values())):
        session = sessions.get(index, 0)
        entries.append(f"{index}:{session if session in leaders else 0}")
    return " ".join(entries)


def order(terminals: list[Any]) -> None:
    """Put masters before all slaves.

    CRIU joins the first two descriptors of a terminal in the order in which this describes their ends, and
    gives back what waits in it through these: if both are of the slave's end, it is lost.
    """
    terminals.sort(key=lambda entry: not entry.id % 2)


def lengthen(queues: list[Any], beyond: dict[int, bytes]) -> None:
    """Append to what CRIU kept of each terminal what was beyond its limit, by CRIU's number of the end.

    Once for each end, however often images name it.
    """
    left = dict(beyond)
    for queue in queues:
        queue.data += left.pop(queue.tty_id, b"")


def _is_master(entry: Any) -> bool:
    # CRIU numbers the two ends of a terminal: twice its index, and one more for the master. So are their ids.
    return bool(entry.HasField("tty") and entry.tty.tty_info_id % 2)


def adapt(terminals: list[Any], processes: list[Any]) -> int:
    """Give terminals whose foreground process group is gone back to their session's leader.

    Between the end of a foreground job and the moment its shell takes the terminal back, the terminal
    names a group without members. It cannot be set again (ESRCH of TIOCSPGRP, ioctl_tty(2)), and the shell
    is about to take the terminal anyway. Returns how many were changed.
    """
    groups = {process.pgid for process in processes}
    changed = 0
    for terminal in terminals:
        if terminal.pgrp and terminal.sid and terminal.pgrp not in groups:
            terminal.pgrp = terminal.sid
            changed += 1
    return changed

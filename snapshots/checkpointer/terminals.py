"""Mends the terminals of a snapshot where CRIU would refuse to restore them.

Pure over the decoded `tty-info.img` and `pstree.img`.
"""

from __future__ import annotations

from typing import Any


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

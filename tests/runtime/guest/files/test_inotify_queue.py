"""Whose an inotify instance is for the kernel, which limits them by user."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

USES_UP = """
import ctypes, os, resource, signal
from pathlib import Path
from holdfast.runtime.guest.files import watched_tree

libc = ctypes.CDLL(None, use_errno=True)
most = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + 100), hard))
libc.prctl(28, 4, 0, 0, 0)  # SECBIT_NO_SETUID_FIXUP: another user of the machine, with the rights of root
assert watched_tree._act_as(1234567891)
libc.prctl(4, 1, 0, 0, 0), libc.prctl(1, signal.SIGUSR1, 0, 0, 0)
while libc.inotify_init1(0) >= 0:
    pass
assert ctypes.get_errno() == 24  # EMFILE
queue = watched_tree.InotifyQueue()
ends_by = ctypes.c_int()
libc.prctl(2, ctypes.byref(ends_by), 0, 0, 0)
full = len(os.listdir("/proc/self/fd")) > most
print(full, os.geteuid(), libc.prctl(3, 0, 0, 0, 0), ends_by.value == signal.SIGUSR1)
assert libc.inotify_init1(0) < 0
print(queue.add(os.open("/", os.O_RDONLY)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as others")
def test_a_user_without_any_left_still_gets_ours() -> None:
    """Root in another session is the same user: it cannot take the instances of watches from a supervisor."""
    done = subprocess.run(
        [sys.executable, "-c", USES_UP], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("True 1234567891 1 True\n1\n", 0), done

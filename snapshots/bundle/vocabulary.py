"""The files a snapshot may have, by their names. Pure.

CRIU knows the purpose of a file only by its name, and a few of its files would make it do more than restore
processes: set up networks, mounts, security profiles, run tools. None of these are in a session's
snapshot, so their names are not here.
"""

from __future__ import annotations

import re

from holdfast.snapshots.checkpointer.layers import apart

_NUMBER = r"[0-9]{1,20}"
# One for each process, thread, table or object, by a number; then those that exist once. CRIU also reads the
# images of its first versions, one for each kind of file. No judge knows them, so they have no name here.
_NUMBERED = (
    *("core", "fdinfo", "fs", "ids", "mm", "pagemap", "pagemap-shmem", "pages", "timens"),
    *("ipcns-var", "ipcns-shm", "ipcns-msg", "ipcns-sem"),
)
_SINGLE = (
    *("cgroup", "fifo-data", "filelocks", "files", "inventory", "memfd", "pipes-data", "pstree"),
    *("remap-fpath", "seccomp", "sk-queues", "tty-data", "tty-info"),
)
_IMAGE = re.compile(
    rf"images/(?:(?:{'|'.join(_NUMBERED)})-{_NUMBER}\.img"
    rf"|(?:{'|'.join(_SINGLE)})\.img"
    r"|(?:tcp-stream|ghost-file)-[0-9a-f]{1,16}\.img"
    r"|facts\.json|file-numbers\.json"
    rf"|tmpfs-{_NUMBER}\.tar"
    rf"|beyond-{_NUMBER})"
)
_BESIDES = frozenset({"record.json.gz", "baseline.json.gz", *apart.FILES})


def belongs(name: str) -> bool:
    """Return whether a snapshot can have a file of this name, relative to its folder."""
    return name in _BESIDES or _IMAGE.fullmatch(name) is not None


def is_of_processes(name: str) -> bool:
    """Return whether only a live snapshot can have it."""
    return name.startswith("images/") or name == "record.json.gz"

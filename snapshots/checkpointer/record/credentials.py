"""The rights of a task, from CRIU's images and from the kernel. Pure.

Capability sets are numbers, one bit for each capability (capabilities(7)). Ids are real, effective, saved,
file system, as in /proc/PID/status. `seccomp` is the kernel's number of the mode: 0 none, 1 strict, 2 filter.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from holdfast.procfs.process_status import ProcessStatus
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

_MOST_FILTERS = 4096
MAX_PROGRAMS = 64


def of_core(core: Any, filters: list[Any], leader: Any) -> dict[str, Any]:
    """Return the privileges that a core image gives to its thread; `filters` are seccomp.img's.

    A thread with its process's filters has none in its image: it gets them with the process's first thread,
    whose image is `leader`.
    """
    thread = core.thread_core
    creds = thread.creds
    mode, oldest = _seccomp(core if core.thread_core.HasField("seccomp_mode") else leader)
    chain = _chain(filters, oldest) if mode == 2 else []
    return {
        "uids": [creds.uid, creds.euid, creds.suid, creds.fsuid],
        "gids": [creds.gid, creds.egid, creds.sgid, creds.fsgid],
        "groups": sorted(set(creds.groups)),
        "inheritable": _bits(creds.cap_inh),
        "permitted": _bits(creds.cap_prm),
        "effective": _bits(creds.cap_eff),
        "bounding": _bits(creds.cap_bnd),
        "ambient": _bits(creds.cap_amb),
        "no_new_privs": bool(creds.no_new_privs),
        "securebits": creds.secbits,
        "seccomp": mode,
        "filters": len(chain),
        "filter_digests": [_digest(one) for one in chain[:MAX_PROGRAMS]],
    }


def of_status(status: ProcessStatus) -> dict[str, Any]:
    """Return the privileges of a thread. The kernel shows neither its secure bits nor the effect of its
    filters.
    """
    sets = status.capabilities
    return {
        "uids": [status.uids.real, status.uids.effective, status.uids.saved, status.uids.filesystem],
        "gids": [status.gids.real, status.gids.effective, status.gids.saved, status.gids.filesystem],
        "groups": sorted(set(status.groups)),
        "inheritable": sets.inheritable,
        "permitted": sets.permitted,
        "effective": sets.effective,
        "bounding": sets.bounding,
        "ambient": sets.ambient,
        "no_new_privs": status.no_new_privs,
        "seccomp": status.seccomp_mode,
        "filters": status.seccomp_filters,
    }


def programs(filters: list[Any]) -> dict[str, str]:
    """Return the programs of filters by their digests, in base64; at most MAX_PROGRAMS of them."""
    found: dict[str, str] = {}
    for one in filters:
        if len(found) < MAX_PROGRAMS:
            found.setdefault(_digest(one), base64.b64encode(bytes(one.filter)).decode())
    return found


def _bits(words: Any) -> int:
    return sum(int(word) << 32 * at for at, word in enumerate(words))


def _seccomp(core: Any) -> tuple[int, int]:
    """Mode, and the number of the oldest filter. Older images have both per process."""
    thread = core.thread_core
    if thread.HasField("seccomp_mode"):
        return int(thread.seccomp_mode), int(thread.seccomp_filter)
    if core.HasField("tc") and core.tc.HasField("old_seccomp_mode"):
        return int(core.tc.old_seccomp_mode), int(core.tc.old_seccomp_filter)
    return 0, 0


def _chain(filters: list[Any], oldest: int) -> list[Any]:
    """Return the filters of a thread: CRIU names the oldest, and with each the next.

    Raises:
        Unreadable: the chain is broken or circular.
    """
    found: list[Any] = []
    at: int | None = oldest
    while at is not None and at < len(filters) and len(found) < _MOST_FILTERS:
        found.append(filters[at])
        previous = int(filters[at].prev) if filters[at].HasField("prev") else None
        # CRIU writes a filter after those that were added to it: a chain that turns back never ends.
        if previous is not None and previous >= at:
            raise ImagesUnreadable("a seccomp filter precedes itself")
        at = previous
    return found


def _digest(one: Any) -> str:
    return hashlib.blake2b(bytes(one.filter) + bytes([one.flags & 0xFF]), digest_size=16).hexdigest()

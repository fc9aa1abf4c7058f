"""The security labels of processes, as set by AppArmor, SELinux or Smack.

A restored process must have the label of its container's first process, which the engine gave it: CRIU
makes processes with the label of CRIU. Owns the way the kernel shows a label and the profile that CRIU is
to set; does not judge (`snapshots/snapshot_policy.py` does), and does not know images and namespaces.
"""

from __future__ import annotations

from holdfast.procfs import walk

APPARMOR = "apparmor/current"
SOURCES = (APPARMOR, "smack/current", "current")
"""Below /proc/PID/attr (proc_pid_attr(5)). Since Linux 5.8 AppArmor has a file of its own; `current` belongs
to the first of the kernel's modules that have labels, and reading it fails with EINVAL if there is none."""
SIZE = 4096
"""Bytes of a label; the kernel gives no more than a page."""
UNCONFINED = "unconfined"


def normal(raw: bytes) -> str:
    """Normalize a label for comparison: one line, without the NUL that ends it under SELinux."""
    return raw.rstrip(b"\0\n").decode("utf-8", "backslashreplace").strip()


def joined(found: list[str]) -> str:
    """Join the contents of several files; most kernels repeat the only label in `current`."""
    return " | ".join(dict.fromkeys(label for label in found if label))


def profile(label: str) -> str:
    """Return the AppArmor profile in a label such as ``docker-default (enforce)``; empty if it confines
    nothing.

    The mode in parentheses is not part of the name (apparmor(7)); a name can contain blanks.
    """
    name = label
    if label.endswith(")") and " (" in label:
        name = label.rpartition(" (")[0]
    return "" if name == UNCONFINED else name


class LabelReader:
    """Reads labels from the files that answer for a container's first process, and from no others.

    On a machine without such a module there are none, and nothing is read.
    """

    def __init__(self, init: int) -> None:
        self._sources = tuple(name for name in SOURCES if _read(init, init, name))
        self.first = self.of(init, init)

    def of(self, pid: int, tid: int) -> str:
        """Return the label of a thread; empty without one, or if it has ended."""
        return joined([_read(pid, tid, name) for name in self._sources])


def apparmor_of(init: int) -> str:
    """Return the AppArmor profile that confines a process; empty if there is none."""
    return profile(_read(init, init, APPARMOR))


def _read(pid: int, tid: int, name: str) -> str:
    return normal(walk.read(f"{pid}/task/{tid}/attr/{name}", SIZE) or b"")

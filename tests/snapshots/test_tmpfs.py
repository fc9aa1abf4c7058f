"""Which mounts carry data of a session."""

from __future__ import annotations

from holdfast.snapshots.checkpointer.tmpfs import mounts

MOUNTINFO = """\
500 480 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l
501 500 0:51 / /proc rw,nosuid - proc proc rw
502 500 0:52 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
503 502 0:53 / /dev/pts rw - devpts devpts rw
504 502 0:54 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k
505 501 0:55 / /proc/acpi ro,relatime - tmpfs tmpfs ro
506 500 0:56 / /sys/firmware ro,relatime - tmpfs tmpfs ro
507 500 8:1 /home/run /run/holdfast rw - ext4 /dev/sda rw
508 500 0:57 / /scratch rw,relatime - tmpfs tmpfs rw
509 500 0:58 / /a\\040b rw,relatime - tmpfs tmpfs rw
510 500 0:59 / /readonly ro,relatime - tmpfs tmpfs ro
511 500 0:60 /containers/1/hosts /etc/hosts rw,relatime - tmpfs tmpfs rw
512 500 0:60 /home/run/1 /run/holdfast rw,relatime - tmpfs tmpfs rw
"""


def test_shared_memory_is_carried() -> None:
    """What else is in memory is the engine's, or a folder of the host that was mounted."""
    assert mounts(MOUNTINFO) == ["/dev/shm"]


def test_shared_memory_of_somebody_else_is_not_carried() -> None:
    """A read-only mount cannot have changed; a part of a tmpfs is the host's."""
    for line in ("504 502 0:54 / /dev/shm ro - tmpfs shm rw", "504 502 0:54 /x /dev/shm rw - tmpfs shm rw"):
        assert mounts(line) == []


def test_odd_lines_are_passed_over() -> None:
    """A line that is not of the documented form names no mount."""
    assert mounts("nonsense\n\n1 2 - tmpfs\n") == []

"""Which mounts carry data of a session."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.ground import rights
from holdfast.snapshots.checkpointer.layers import tmpfs
from holdfast.snapshots.checkpointer.layers.tmpfs import mounts
from holdfast.snapshots.checkpointer.wire.deadline import Deadline, Passed

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
    assert mounts(MOUNTINFO.encode()) == ["/dev/shm"]


def test_shared_memory_of_somebody_else_is_not_carried() -> None:
    """A read-only mount cannot have changed; a part of a tmpfs is the host's."""
    for line in ("504 502 0:54 / /dev/shm ro - tmpfs shm rw", "504 502 0:54 /x /dev/shm rw - tmpfs shm rw"):
        assert mounts(line.encode()) == []


def test_odd_lines_are_passed_over() -> None:
    """A line that is not of the documented form names no mount."""
    assert mounts(b"nonsense\n\n1 2 - tmpfs\n") == []


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[int]:
    """A folder, in place of a tmpfs, with a file in it."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "file").write_bytes(b"kept")
    folder = os.open(tmp_path / "memory", os.O_RDONLY | os.O_DIRECTORY)
    yield folder
    os.close(folder)


def test_what_tar_complains_of_is_not_kept(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each socket there is: they come back in another way, and a session may have a million."""
    monkeypatch.setattr(rights, "keep_only", lambda *_: None)
    for number in range(2000):
        os.mknod(tmp_path / "memory" / f"{number:0200}", 0o140600)
    told: list[bytes] = []
    complaints = tmpfs._complaints

    def listen(tar: object, deadline: Deadline) -> bytes:
        told.append(complaints(tar, deadline))  # type: ignore[arg-type]
        return told[0]

    monkeypatch.setattr(tmpfs, "_complaints", listen)
    tmpfs._archive(memory, tmp_path / "kept.tar", Deadline(60))

    with tarfile.open(tmp_path / "kept.tar") as archive:
        assert archive.getnames() == [".", "./file"]
    assert 0 < len(told[0]) <= 4 * tmpfs._REASON


def test_an_archive_that_takes_too_long_is_given_up(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line that says what it was; tar does not continue."""
    monkeypatch.setattr(rights, "keep_only", lambda *_: None)
    with pytest.raises(Passed, match="to keep its shared memory took longer than 1e-06 s"):
        tmpfs._archive(memory, tmp_path / "kept.tar", Deadline(1e-6))
    left = subprocess.run(["pgrep", "-x", "-P", str(os.getpid()), "tar"], capture_output=True, check=False)
    assert left.stdout == b""

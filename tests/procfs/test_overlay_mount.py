"""The folders of a container's root, in the kernel's words."""

from __future__ import annotations

from holdfast.procfs.overlay_mount import folders

THERE = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
LINE = (
    "633 460 0:134 / / rw,relatime - overlay overlay rw,"
    f"lowerdir=20/fs:9/fs,upperdir={THERE}/21/fs,workdir={THERE}/21/work"
)


def test_short_paths_of_containerd_are_completed() -> None:
    """With many layers it mounts them from within the folder that has them all."""
    assert folders(LINE.encode()) == [f"{THERE}/21/fs", f"{THERE}/20/fs", f"{THERE}/9/fs"]


def test_other_relative_paths_are_not_known() -> None:
    """Whatever they look like: no path leads out of the folder of layers."""
    for path in ("fs", "../fs", "1/fs/..", "../../1/fs", "l/ABC", "x/fs"):
        assert folders(LINE.replace("20/fs", path).encode()) is None, path
    assert folders(LINE.replace("20/fs", "/a/../fs").encode()) is None
    assert folders(LINE.replace(f"upperdir={THERE}/21/fs", "upperdir=21/fs").encode()) is None


def test_unwritten_sessions_have_no_folders() -> None:
    assert folders(LINE.replace(f"upperdir={THERE}/21/fs,", "").encode()) is None
    assert folders(b"") is None

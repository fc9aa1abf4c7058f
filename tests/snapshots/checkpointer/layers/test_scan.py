"""Where a container's layers are, in the kernel's words."""

from __future__ import annotations

from pathlib import Path

from holdfast.snapshots.checkpointer.layers.keep import parse_mapped
from holdfast.snapshots.checkpointer.layers.scan import find_layers

THERE = "/var/lib/docker/overlay2"
LINE = (
    "500 400 0:50 / / rw,relatime master:1 - overlay overlay rw,"
    f"lowerdir={THERE}/l/AAA:{THERE}/l/BBB,upperdir={THERE}/0f/diff,workdir={THERE}/0f/work,xino=off"
)


def test_layers_are_found_where_they_are_mounted_here() -> None:
    """The container's own and its image's, the topmost first."""
    found = find_layers(f"499 400 0:4 / /proc rw - proc proc rw\n{LINE}\n".encode(), THERE, Path("/layers"))
    assert found is not None
    assert found.upper == Path("/layers/0f/diff")
    assert found.lowers == (Path("/layers/l/AAA"), Path("/layers/l/BBB"))


def test_options_of_the_newer_mount_interface_are_understood() -> None:
    """Each lower layer can be an option of its own; spaces are escaped."""
    line = LINE.replace(
        f"lowerdir={THERE}/l/AAA:{THERE}/l/BBB", f"lowerdir+={THERE}/l/A,lowerdir+={THERE}/l/B"
    )
    found = find_layers(line.replace("/0f/", "/0\\040f/").encode(), THERE, Path("/layers"))
    assert found is not None
    assert found.upper == Path("/layers/0 f/diff")
    assert found.lowers == (Path("/layers/l/A"), Path("/layers/l/B"))


def test_layers_elsewhere_or_of_a_different_kind_are_not_found() -> None:
    """Then the engine has to keep the files."""
    assert find_layers(LINE.encode(), "/other", Path("/layers")) is None
    assert find_layers(b"1 2 8:1 / / rw - ext4 /dev/sda rw", THERE, Path("/layers")) is None
    assert find_layers(LINE.replace(" / / ", " / /mnt ").encode(), THERE, Path("/layers")) is None


MAPS = b"""\
55d0c0a00000-55d0c0a01000 r--p 00000000 00:32 1234 /usr/bin/x
7f0000000000-7f0000001000 rw-p 00000000 00:32 1235 /lib/private.so
7f0000002000-7f0000003000 rw-s 00001000 00:32 1236 /data/db file
7f0000004000-7f0000005000 -w-s 00000000 00:32 1237 /data/\\012line
7f0000006000-7f0000007000 r--s 00000000 00:32 1238 /data/only-read
7f0000008000-7f0000009000 rw-s 00000000 00:01 0 anon_inode:i915
"""


def test_mapped_files_are_the_ones_a_write_reaches() -> None:
    """Shared and writable, by their path below the root."""
    assert parse_mapped(MAPS) == {"data/db file", "data/\nline"}

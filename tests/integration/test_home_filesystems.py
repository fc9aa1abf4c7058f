"""Homes on file systems other than a local disk: they work, or the first command says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.machines import fuse_disk, ordinary_user

from holdfast.base.home import Home
from holdfast.errors import StoreError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.doctor import doctor

pytestmark = pytest.mark.thorough

LACKING = {
    "NFS without its lock daemon": (("locks",), "locks"),
    "exfat": (("permissions", "links", "sockets"), "permissions, hard links and UNIX sockets"),
    "a network drive": (("mapping", "sockets"), "UNIX sockets and shared mappings"),
}


@contextmanager
def mounted(point: Path, kind: str, options: str) -> Iterator[Path]:
    """Mount something for the block."""
    point.mkdir()
    subprocess.run(["mount", "-t", kind, "-o", options, "none", point], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.mark.parametrize("kind", LACKING)
def test_missing_features_of_a_file_system_are_named_together(kind: str, tmp_path: Path) -> None:
    """In one line, when a home is made there; nothing is in its folder then."""
    lacks, named = LACKING[kind]
    below, point = tmp_path / "below", tmp_path / "point"
    below.mkdir()
    point.mkdir()
    with fuse_disk.mounted(below, point, *lacks):
        with pytest.raises(StoreError) as refused:
            Home(point / "home").create()
        assert str(refused.value) == (
            f"cannot use state directory {point}/home: its file system (fuse) lacks {named}"
        )
        assert refused.value.hint.startswith("set HOLDFAST_HOME to a folder on a local disk")
        assert list((point / "home").iterdir()) == []


def test_a_home_that_lost_its_locks_is_refused(tmp_path: Path, make_cli: Callable[[Home], Cli]) -> None:
    """One that was made elsewhere and moved to such a file system; doctor names what is missing."""
    below, point = tmp_path / "below", tmp_path / "point"
    point.mkdir()
    with Holdfast(Home(below / "home").create()):
        pass
    with fuse_disk.mounted(below, point, "locks"):
        done = make_cli(Home(point / "home"))("new")
        assert done.code == 1
        refused, hint = done.err.splitlines()
        assert f": cannot lock {point}/home/locks/checkpointer: " in refused
        assert "HOLDFAST_HOME chooses another folder" in hint
        with Holdfast(Home(point / "home")) as controller:
            found = doctor.guarded("state directory", lambda: doctor._home(controller.context))
        assert (found.ok, found.detail.endswith("its file system (fuse) lacks locks")) == (False, True)


def test_a_home_that_root_cannot_read_is_refused(tmp_path: Path) -> None:
    """NFS of a server that maps root to a user, and FUSE of an ordinary user: the engine is root."""
    tmp_path.parent.chmod(0o755)
    tmp_path.chmod(0o755)
    below = ordinary_user.home_folder(tmp_path / "below")
    point = tmp_path / "point"
    point.mkdir()
    with fuse_disk.mounted(below, point, "root", owner=ordinary_user.UID):
        done = subprocess.run(
            [*ordinary_user.prefix(), sys.executable, "-m", "holdfast", "new"],
            env=os.environ | {"HOLDFAST_HOME": str(point / "home"), "HOME": str(point)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        refused, hint, *rest = done.stderr.splitlines()
        assert refused.startswith(f"holdfast: cannot use state directory {point}/home: the engine, ")
        assert refused.endswith("which runs as root, cannot read it")
        assert "local disk" in hint
        assert (done.returncode, rest) == (1, [])


def test_a_read_only_home_is_refused(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "tmpfs", "ro,size=1m") as disk,
        pytest.raises(StoreError, match="Read-only file system"),
    ):
        Home(disk / "home").create()


def test_a_full_disk_takes_no_home(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "tmpfs", "size=1m,nr_inodes=1") as disk,
        pytest.raises(StoreError, match="No space left on device") as refused,
    ):
        Home(disk / "home").create()
    assert refused.value.hint.startswith("make room")


def test_overlayfs_without_the_right_to_run_programs_is_fine(
    tmp_path: Path,
    make_cli: Callable[[Home], Cli],
    clear: Callable[[Holdfast], None],
    remains: Callable[[Home], list[str]],
) -> None:
    """As in a container, and on a tmpfs below it: a live snapshot and a copy of it."""
    with mounted(tmp_path / "memory", "tmpfs", "size=512m,noexec") as memory:
        for name in ("lower", "upper", "work"):
            (memory / name).mkdir()
        folders = f"lowerdir={memory}/lower,upperdir={memory}/upper,workdir={memory}/work,noexec"
        with mounted(tmp_path / "overlay", "overlay", folders) as overlay:
            home = Home(overlay / "home").create()
            cli = make_cli(home)
            try:
                for words in (
                    ["new", "--name", "work"],
                    ["exec", "work", "kept=here"],
                    ["snapshot", "work", "--label", "taken"],
                    ["restore", "taken", "--name", "copy"],
                ):
                    done = cli(*words)
                    assert done.code == 0, (words, done.err)
                assert cli("exec", "copy", "echo $kept").out == "here\n"
            finally:
                with Holdfast(home) as controller:
                    clear(controller)
            assert remains(home) == []

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BundleRefused
from holdfast.snapshots.bundle import foreign_files


@pytest.mark.parametrize(
    "name",
    [
        *(
            "record.json.gz",
            "baseline.json.gz",
            "images/core-301.img",
            "images/pages-1.img",
            "images/files.img",
        ),
        *("images/tcp-stream-1f.img", "images/ghost-file-a.img", "images/facts.json", "images/tmpfs-0.tar"),
        "images/file-numbers.json",
        *("images/beyond-7", "images/pagemap-shmem-18446744073709551615.img", "images/ipcns-var-9.img"),
    ],
)
def test_files_that_snapshots_have_belong(name: str) -> None:
    """All kinds that were ever seen in one."""
    assert foreign_files.belongs(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "manifest.json",
            "recipe",
            "segments.json",
            "images",
            "images/",
            "core-1.img",
            "/images/core-1.img",
        ),
        *("images/../core-1.img", "images/core-1.img/x", "images//core-1.img", "images/core-1.img\n"),
        *(
            "images/core-.img",
            "images/core--1.img",
            "images/core-1.IMG",
            "images/.core-1.img",
            "images/core-²1.img",
        ),
        *("images/netdev-9.img", "images/iptables-9.img", "images/mountpoints-1.img", "images/userns-1.img"),
        *(
            "images/apparmor.img",
            "images/restore.log",
            "images/criu.conf",
            "images/plugin.so",
            "images/netns-9.img",
        ),
        *(
            "images/autofs-1.img",
            "images/binfmt-misc-1.img",
            "images/route-9.img",
            "images/tmpfs-dev-5.tar.gz.img",
        ),
        *("images/reg-files.img", "images/unixsk.img", "images/inotify-wd.img", "images/fanotify.img"),
        *("images/creds-301.img", "images/rlimit-301.img", "images/posix-timers-301.img"),
    ],
)
def test_other_names_do_not(name: str) -> None:
    """Neither names that lead elsewhere, nor images that have CRIU do more than bring processes back."""
    assert not foreign_files.belongs(name)


def _archive(path: Path, *members: dict[str, Any]) -> Path:
    with tarfile.open(path, "w") as archive:
        for given in members:
            member = tarfile.TarInfo(given.get("name", "file"))
            for key, value in given.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


LNK, SYM, CHR, BLK, FIFO = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
)


@pytest.mark.parametrize(
    "member",
    [
        {"name": "usr/bin/su", "mode": 0o4755},
        {"name": "./etc/x"},
        {"name": "etc/.wh.x"},
        {"type": SYM, "linkname": "/etc/passwd"},
        {"type": SYM, "linkname": "../../../etc/passwd"},
        {"type": LNK, "linkname": "etc/passwd"},
        {"type": CHR, "devmajor": 1, "devminor": 3},
        {"type": FIFO},
    ],
)
def test_a_layer_can_have_the_entries_of_images(tmp_path: Path, member: dict[str, Any]) -> None:
    """Links lead anywhere within a container; null is a device that every one has."""
    foreign_files.check_layer(_archive(tmp_path / "layer.tar", member))


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../etc/passwd"},
        {"name": "a/../../etc/passwd"},
        {"name": "/etc/passwd"},
        {"name": "x" * 5000},
        {"type": LNK, "linkname": "../../etc/passwd"},
        {"type": LNK, "linkname": "/etc/passwd"},
        {"type": BLK, "devmajor": 8, "devminor": 0},
        {"type": CHR, "devmajor": 1, "devminor": 1},
        {"type": CHR, "devmajor": 10, "devminor": 200},
    ],
)
def test_a_layer_cannot_lead_out_or_bring_devices(tmp_path: Path, member: dict[str, Any]) -> None:
    """Disks, memory, tunnels; names and hard links above its root."""
    with pytest.raises(BundleRefused):
        foreign_files.check_layer(_archive(tmp_path / "layer.tar", {"name": "good"}, member))


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../x"},
        {"type": SYM, "linkname": "/etc"},
        {"name": "a/b", "type": SYM, "linkname": "../../x"},
        {"name": "./a", "type": SYM, "linkname": "b/../../x"},
        {"type": LNK, "linkname": "../x"},
        {"type": FIFO},
        {"type": CHR, "devmajor": 1, "devminor": 3},
        {"mode": 0o2755},
    ],
)
def test_shared_memory_has_files_folders_and_links_within(tmp_path: Path, member: dict[str, Any]) -> None:
    """It is unpacked as root, next to everything else of a container."""
    foreign_files.check_memory(
        _archive(
            tmp_path / "good.tar",
            {"name": "./a", "type": tarfile.DIRTYPE, "mode": 0o1777},
            {"name": "./a/sem.x", "size": 32},
            {"name": "./a/link", "type": SYM, "linkname": "../a/sem.x"},
            {"name": "./a/hard", "type": LNK, "linkname": "./a/sem.x"},
        )
    )
    with pytest.raises(BundleRefused):
        foreign_files.check_memory(_archive(tmp_path / "tmpfs-0.tar", member))


def test_an_invalid_archive_or_endless_header_is_refused(tmp_path: Path) -> None:
    """The memory of its reader is not filled."""
    path = tmp_path / "layer.tar"
    for data in (b"x" * 1000, _archive(path, {"name": "x", "size": 5000}).read_bytes()[:2000]):
        path.write_bytes(data)
        with pytest.raises(BundleRefused):
            foreign_files.check_layer(path)
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, foreign_files.MAX_HEADER + 1024
    with path.open("wb") as file:
        file.write(member.tobuf(tarfile.USTAR_FORMAT))
        file.truncate(member.size + 4096)
    with pytest.raises(BundleRefused):
        foreign_files.check_layer(path)

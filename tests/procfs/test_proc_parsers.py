"""The parsers of /proc, on texts as the kernel wrote them."""

from __future__ import annotations

import os

import pytest

from holdfast.procfs import descriptor_info, descriptor_links, memory_maps, mount_table, process_status
from holdfast.procfs.descriptor_links import DescriptorTarget

STATUS = b"""Name:\todd: name
Umask:\t0022
State:\tS (sleeping)
Tgid:\t4100
Pid:\t4100
PPid:\t4000
TracerPid:\t4050
Uid:\t1000\t0\t0\t0
Gid:\t1000\t1000\t1000\t1000
Groups:\t4 24 1000\x20
NStgid:\t4100\t310
NSpid:\t4100\t310
NSpgid:\t4100\t300
NSsid:\t4000\t12
RssAnon:\t     112 kB
RssFile:\t    1576 kB
RssShmem:\t       4 kB
Threads:\t3
CapInh:\t0000000000000000
CapPrm:\t00000000a80405fb
CapEff:\t00000000a80405fb
CapBnd:\t00000000a80425fb
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t3
"""


def test_a_status_is_read() -> None:
    """Ids, capabilities, seccomp, tracer and the inner pid come from the text."""
    found = process_status.parse(STATUS)

    assert found is not None
    assert (found.name, found.state, found.pid, found.parent, found.tracer) == (
        "odd: name",
        "S",
        4100,
        4000,
        4050,
    )
    assert (found.inner_pid, found.inner_groups[-1], found.inner_sessions[-1]) == (310, 300, 12)
    assert found.uids == process_status.Ids(1000, 0, 0, 0)
    assert found.setuid
    assert found.groups == (4, 24, 1000)
    assert found.capabilities.permitted == 0xA80405FB
    assert (found.no_new_privs, found.seccomp_mode, found.seccomp_filters) == (True, 2, 3)
    assert (found.anonymous, found.file, found.shared) == (112 * 1024, 1576 * 1024, 4096)
    assert (found.umask, found.threads) == (0o022, 3)


def test_one_line_of_a_status_is_read() -> None:
    """A field is known by its whole name, wherever it stands."""
    assert process_status.field(STATUS, b"Name") == b"odd: name"
    assert process_status.field(STATUS, b"Pid") == b"4100"
    assert process_status.field(STATUS, b"NSpid").split() == [b"4100", b"310"]
    assert process_status.field(STATUS, b"Seccomp") == b"2"
    assert process_status.field(b"SigCgt:\t00ff", b"SigCgt") == b"00ff"
    assert process_status.field(b"", b"Pid") == process_status.field(STATUS, b"Sig") == b""


def test_invalid_status_text_gives_none() -> None:
    """A process can end before its text is read."""
    assert process_status.parse(b"") is None
    assert process_status.parse(b"nonsense\n\xff\xfe:\n") is None


def test_an_fdinfo_is_read() -> None:
    """Offset, flags, mount and locks are known of every descriptor."""
    text = (
        b"pos:\t12\nflags:\t02102002\nmnt_id:\t53\nino:\t77\n"
        b"lock:\t1: FLOCK  ADVISORY  WRITE 4100 08:01:77 0 EOF\n"
        b"lock:\t2: POSIX  MANDATORY READ 4100 08:01:77 5 9\n"
        b"lock:\t2: -> OFDLCK ADVISORY  WRITE -1 08:01:77 0 EOF\n"
    )
    found = descriptor_info.parse(text)

    assert (found.pos, found.mount_id, found.inode, found.access) == (12, 53, 77, "rw")
    assert [(lock.kind, lock.mode, lock.start, lock.end, lock.waits) for lock in found.locks] == [
        ("flock", "write", 0, None, False),
        ("posix", "read", 5, 9, False),
        ("ofd", "write", 0, None, True),
    ]
    assert [(lock.pid, lock.mandatory) for lock in found.locks] == [(4100, False), (4100, True), (-1, False)]


def test_fields_of_special_descriptors_are_kept() -> None:
    """Watches of epoll and inotify, the process of a pidfd, the count of an eventfd."""
    epoll = descriptor_info.parse(b"pos:\t0\ntfd:        5 events:       19 data: 5  pos:0 ino:3d sdev:8\n")
    inotify = descriptor_info.parse(b"flags:\t0\ninotify wd:1 ino:3 sdev:3d mask:fc6 ignored_mask:0\n")
    ended, outside = descriptor_info.parse(b"Pid:\t-1\nNSpid:\t-1\n"), descriptor_info.parse(b"Pid:\t0\n")

    assert epoll.watched == (descriptor_info.EpollEntry(5, 0x19, 0x3D),)
    assert inotify.count("inotify") == 1
    assert list(inotify.watches()) == [(os.makedev(0, 0x3D), 3)]
    assert list(descriptor_info.parse(b"inotify wd:2 ino:1f sdev:800001 mask:2\n").watches()) == [
        (os.makedev(8, 1), 31)
    ]
    assert list(descriptor_info.parse(b"inotify wd:x ino:\ninotify wd:1 ino:3\n").watches()) == []
    assert (ended.pid, outside.pid, epoll.pid) == (-1, 0, None)
    assert descriptor_info.parse(b"eventfd-count:               2a\n").value("eventfd-count") == "2a"


def test_a_damaged_fdinfo_is_not_an_error() -> None:
    """Texts can be cut off anywhere."""
    assert descriptor_info.parse(b"pos:\tx\nlock:\t1: FLOCK\ntfd:\n\xff").pos == 0


@pytest.mark.parametrize(
    ("target", "link"),
    [
        ("/tmp/a b (deleted)", DescriptorTarget("path", "/tmp/a b", deleted=True)),
        ("/memfd:shared name (deleted)", DescriptorTarget("memfd", "shared name", deleted=True)),
        ("socket:[123]", DescriptorTarget("socket", "socket", 123)),
        ("socket:[x]", DescriptorTarget("other", "socket:[x]")),
        ("pipe:[9]", DescriptorTarget("pipe", "pipe", 9)),
        ("anon_inode:[eventpoll]", DescriptorTarget("anon", "eventpoll")),
        ("anon_inode:inotify", DescriptorTarget("anon", "inotify")),
        ("net:[4026531840]", DescriptorTarget("namespace", "net", 4026531840)),
        ("mqueue", DescriptorTarget("other", "mqueue")),
    ],
)
def test_links_give_the_kind_of_a_descriptor(target: str, link: DescriptorTarget) -> None:
    """Each form the kernel writes has its kind."""
    assert descriptor_links.parse(target) == link


def test_a_namespace_has_a_number() -> None:
    """Two processes in it share this number."""
    assert descriptor_links.namespace("pid:[4026531836]") == 4026531836
    assert descriptor_links.namespace("/tmp/x") == 0


def test_a_mount_is_a_line_whatever_its_name() -> None:
    """Only a newline ends one, and that is escaped in names; other breaks of Unicode are not."""
    text = (
        "31 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "32 31 0:53 /a /mnt/x\u2028y\x0cz ro,nosuid - tmpfs tmpfs rw\n"
        "33 31 0:54 / /mnt/a\\012b rw - tmpfs tmpfs rw\n"
        "cut off"
    )
    found = list(mount_table.parse(text.encode()))

    assert [(mount.id, mount.point, mount.writable) for mount in found] == [
        (31, "/", True),
        (32, "/mnt/x\u2028y\x0cz", False),
        (33, "/mnt/a\nb", True),
    ]
    assert [mount.options for mount in found] == ["rw", "rw", "rw"]
    assert (found[1].root, found[1].kind, found[1].major, found[1].minor) == ("/a", "tmpfs", 0, 53)


MAPS = b"""55d0c0000000-55d0c0001000 r--p 00000000 08:01 12 /usr/bin/odd name
7f0000000000-7f0000001000 rw-s 00000000 00:05 32768 /SYSV00000000 (deleted)
7f0000002000-7f0000003000 rw-p 00000000 00:00 0\x20
7f0000004000-7f0000005000 rw-s 00000000 00:0f 99 anon_inode:[io_uring]
7f0000006000-7f0000007000 rw-s 00000000 00:05 7 /dev/nvidia0
7f0000008000-7f0000009000 rw-s 00000000 00:01 8 /memfd:pool (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
"""


def test_mappings_are_read() -> None:
    """Addresses, permissions, file and whether it is deleted."""
    found = list(memory_maps.parse(MAPS))

    assert len(found) == 7
    assert (found[0].path, found[0].size, found[0].shared, found[0].inode) == (
        "/usr/bin/odd name",
        4096,
        False,
        12,
    )
    assert (found[1].path, found[1].deleted, found[1].shared) == ("/SYSV00000000", True, True)
    assert (found[2].path, found[-1].path) == ("", "[stack]")


def test_notable_mappings_are_found_without_the_rest() -> None:
    """Devices, shared memory, and files without a name."""
    assert [item.path for item in memory_maps.notable(MAPS)] == [
        "/SYSV00000000",
        "anon_inode:[io_uring]",
        "/dev/nvidia0",
        "/memfd:pool",
    ]


def test_folders_that_stay_writable_below_a_read_only_root_are_its_own_files() -> None:
    """Mounts from elsewhere, or of a different file system, are not."""
    text = (
        "1 0 0:70 / / ro - overlay overlay rw\n"
        "2 1 0:70 /work /work rw - overlay overlay rw\n"
        "3 1 0:70 /etc /work/etc rw - overlay overlay rw\n"
        "4 1 0:71 /tmp /tmp rw - tmpfs tmpfs rw\n"
    )
    root, *others = mount_table.parse(text.encode())
    assert [mount_table.in_place(mount, root) for mount in others] == [True, False, False]
    text = "1 0 8:1 /dir/a / ro - ext4 /dev/sda rw\n2 1 8:1 /dir/a/work /work rw - ext4 /dev/sda rw\n"
    root, part = mount_table.parse(text.encode())
    assert mount_table.in_place(part, root)

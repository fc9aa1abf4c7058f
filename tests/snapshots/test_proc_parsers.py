"""What the parsers of /proc make of texts as the kernel wrote them."""

from __future__ import annotations

import os

from holdfast.snapshots.checkpointer.proc import fdinfo, links, maps, net, status

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
    """Ids, capabilities, seccomp, tracer and the pid inside are those of the text."""
    found = status.parse(STATUS)

    assert found is not None
    assert (found.name, found.state, found.pid, found.parent, found.tracer) == (
        "odd: name",
        "S",
        4100,
        4000,
        4050,
    )
    assert (found.inner_pid, found.inner_groups[-1], found.inner_sessions[-1]) == (310, 300, 12)
    assert found.uids == status.Ids(1000, 0, 0, 0)
    assert found.setuid
    assert found.groups == (4, 24, 1000)
    assert found.capabilities.permitted == 0xA80405FB
    assert (found.no_new_privs, found.seccomp_mode, found.seccomp_filters) == (True, 2, 3)
    assert (found.anonymous, found.file, found.shared) == (112 * 1024, 1576 * 1024, 4096)
    assert (found.umask, found.threads) == (0o022, 3)


def test_malformed_status_gives_none() -> None:
    """A process may be gone before its text is read."""
    assert status.parse(b"") is None
    assert status.parse(b"nonsense\n\xff\xfe:\n") is None


def test_an_fdinfo_is_read() -> None:
    """Offset, flags, mount and locks are known of every descriptor."""
    text = (
        b"pos:\t12\nflags:\t02102002\nmnt_id:\t53\nino:\t77\n"
        b"lock:\t1: FLOCK  ADVISORY  WRITE 4100 08:01:77 0 EOF\n"
        b"lock:\t2: POSIX  ADVISORY  READ 4100 08:01:77 5 9\n"
    )
    found = fdinfo.parse(text)

    assert (found.pos, found.mount_id, found.inode, found.access) == (12, 53, 77, "rw")
    assert [(lock.kind, lock.mode, lock.start, lock.end) for lock in found.locks] == [
        ("flock", "write", 0, None),
        ("posix", "read", 5, 9),
    ]


def test_what_only_some_descriptors_have_is_kept() -> None:
    """Watches of epoll and inotify, the process of a pidfd, the count of an eventfd."""
    epoll = fdinfo.parse(b"pos:\t0\ntfd:        5 events:       19 data: 5  pos:0 ino:3d sdev:8\n")
    inotify = fdinfo.parse(b"flags:\t0\ninotify wd:1 ino:3 sdev:3d mask:fc6 ignored_mask:0\n")
    ended, outside = fdinfo.parse(b"Pid:\t-1\nNSpid:\t-1\n"), fdinfo.parse(b"Pid:\t0\n")

    assert epoll.watched == (fdinfo.Watched(5, 0x19, 0x3D),)
    assert inotify.count("inotify") == 1
    assert list(inotify.watches()) == [(os.makedev(0, 0x3D), 3)]
    assert list(fdinfo.parse(b"inotify wd:2 ino:1f sdev:800001 mask:2\n").watches()) == [
        (os.makedev(8, 1), 31)
    ]
    assert list(fdinfo.parse(b"inotify wd:x ino:\ninotify wd:1 ino:3\n").watches()) == []
    assert (ended.pid, outside.pid, epoll.pid) == (-1, 0, None)
    assert fdinfo.parse(b"eventfd-count:               2a\n").value("eventfd-count") == "2a"


def test_damaged_fdinfo_is_not_an_error() -> None:
    """Texts may be cut off anywhere."""
    assert fdinfo.parse(b"pos:\tx\nlock:\t1: FLOCK\ntfd:\n\xff").pos == 0


def test_links_tell_what_a_descriptor_is() -> None:
    """Each form the kernel writes has its kind."""
    assert links.parse("/tmp/a b (deleted)") == links.Link("path", "/tmp/a b", deleted=True)
    assert links.parse("/memfd:shared name (deleted)") == links.Link("memfd", "shared name", deleted=True)
    assert links.parse("socket:[123]") == links.Link("socket", "socket", 123)
    assert links.parse("pipe:[9]") == links.Link("pipe", "pipe", 9)
    assert links.parse("anon_inode:[eventpoll]") == links.Link("anon", "eventpoll")
    assert links.parse("anon_inode:inotify") == links.Link("anon", "inotify")
    assert links.parse("net:[4026531840]") == links.Link("namespace", "net", 4026531840)
    assert links.parse("mqueue") == links.Link("other", "mqueue")
    assert links.namespace("pid:[4026531836]") == 4026531836


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
    found = list(maps.parse(MAPS))

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
    assert [item.path for item in maps.notable(MAPS)] == [
        "/SYSV00000000",
        "anon_inode:[io_uring]",
        "/dev/nvidia0",
        "/memfd:pool",
    ]


def test_internet_sockets_are_read() -> None:
    """Addresses of both families, states and inodes."""
    head = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n"
    four = b"   0: 0100007F:1F90 0100007F:C350 01 00000003:00000005 00:00000000 00000000  1000 0 4242 1\n"
    six = (
        b"   0: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A "
        b"00000000:00000000 00:00000000 00000000     0 0 77 1\n"
    )

    (first,) = net.internet(head + four + b"broken line\n", "tcp")
    (second,) = net.internet(head + six, "tcp6")

    assert first == net.Internet(
        "tcp", "established", "127.0.0.1", 8080, "127.0.0.1", 50000, 3, 5, 1000, 4242
    )
    assert (second.state, second.local, second.local_port, second.inode) == ("listening", "::1", 22, 77)


def test_unix_sockets_are_read() -> None:
    """Listening ones, abstract ones, and those without a name."""
    text = (
        b"Num       RefCount Protocol Flags    Type St Inode Path\n"
        b"0000000000000000: 00000002 00000000 00010000 0001 01 100 /run/a socket\n"
        b"0000000000000000: 00000003 00000000 00000000 0001 03 101\n"
        b"0000000000000000: 00000002 00000000 00000000 0002 01 102 @abstract\n"
    )

    assert list(net.unix(text)) == [
        net.Unix("stream", "listening", "/run/a socket", 100),
        net.Unix("stream", "connected", "", 101),
        net.Unix("datagram", "unconnected", "@abstract", 102),
    ]

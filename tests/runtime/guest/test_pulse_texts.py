"""The pulse's parsers, on recorded texts of the kernel."""

import os
import termios
from pathlib import Path

from holdfast.procfs import descriptor_info, descriptor_links
from holdfast.procfs.process_stat import Stat
from holdfast.procfs.socket_tables import SocketRow
from holdfast.runtime.guest.pulse import cgroup_limits, gather, processes, sockets
from holdfast.runtime.guest.pulse.descriptors import described_file, file_row, kind_of_link
from holdfast.runtime.guest.pulse.gather import terminal_modes
from holdfast.runtime.guest.pulse.processes import parse_io, parse_limits
from holdfast.runtime.guest.wire.port_operations import parse_reply, reachable

FDINFO = b"""\
pos:\t4096
flags:\t02102001
mnt_id:\t31
ino:\t77
lock:\t1: POSIX  ADVISORY  WRITE 42 fd:00:77 10 19
lock:\t2: FLOCK  ADVISORY  READ 42 fd:00:77 0 EOF
lock:\t2: -> FLOCK  ADVISORY  WRITE 43 fd:00:77 0 EOF
"""
NO_INFO = descriptor_info.parse(b"")


def stat(pid: int = 7, cpu: float = 0.0, start: float = 100.0) -> Stat:
    return Stat(pid, "x y", "S", 1, pid, pid, 0, -1, cpu, 1, start, 0, 0)


def test_sockets() -> None:
    """A mapped IPv4 address is reported as IPv4, and a missing value is None."""
    listener = sockets.row(SocketRow("tcp6", "listening", "::ffff:127.0.0.1", 80, "::", 0, 0, 2, 1000, 41))
    assert (listener["local"], listener["local_port"], listener["receive_queue"]) == ("127.0.0.1", 80, 2)
    assert (listener["remote"], listener["remote_port"], listener["uid"], listener["inode"]) == (
        None,
        None,
        1000,
        41,
    )
    connected = sockets.row(SocketRow("udp", "connected", "::1", 5, "::1", 6))
    assert (connected["protocol"], connected["local"], connected["remote"]) == ("udp", "::1", "::1")


def test_unix_sockets() -> None:
    """They have a type and a path, or no name."""
    assert sockets.row(SocketRow("unix datagram", "unconnected", "@hidden", inode=102)) == {
        "protocol": "unix",
        "state": "unconnected",
        "type": "datagram",
        "path": "@hidden",
        "inode": 102,
    }
    assert sockets.row(SocketRow("unix stream", "connected", inode=101))["path"] is None


def test_an_open_file() -> None:
    """Offset, access, flags and the locks it holds; one that is waited for is not held."""
    info = described_file(descriptor_info.parse(FDINFO))
    assert (info["offset"], info["access"]) == (4096, "w")
    assert info["flags"] == ["append"]
    write, read = info["locks"]
    assert (write["kind"], write["mode"], write["start"], write["end"]) == ("posix", "write", 10, 19)
    assert (read["kind"], read["end"], read["pid"]) == ("flock", None, 42)


def test_synchronous_writing_needs_all_its_bits() -> None:
    """O_DSYNC is a part of O_SYNC and not the same."""
    for flags, expected in ((os.O_DSYNC, []), (os.O_SYNC, ["sync"])):
        assert described_file(descriptor_info.parse(b"flags:\t%o\n" % flags))["flags"] == expected


def test_kinds_of_descriptors() -> None:
    """A link gives the kind of a descriptor, except where only stat(2) knows."""
    kinds = {
        "socket:[5]": "socket",
        "pipe:[5]": "pipe",
        "anon_inode:[eventpoll]": "other",
        "/dev/null": "device",
        "/dev/pts/0": "terminal",
        "/dev/shm/x": "path",
        "/memfd:x (deleted)": "memory",
    }
    assert {target: kind_of_link(descriptor_links.parse(target)) for target in kinds} == kinds


def test_a_deleted_file_is_one_without_names(tmp_path: Path) -> None:
    """The kernel's mark alone is not enough: a name can end like that."""
    odd = tmp_path / "odd (deleted)"
    odd.write_bytes(b"12345")
    row = file_row(1, 3, str(odd), odd.stat(), NO_INFO)
    assert (row["deleted"], row["path"], row["size"]) == (False, str(odd), 5)
    with odd.open("rb") as file:
        odd.unlink()
        gone = file_row(1, 3, f"{odd} (deleted)", os.fstat(file.fileno()), NO_INFO)
    assert (gone["deleted"], gone["path"]) == (True, str(odd))


def test_processor_time_since_the_last_sample() -> None:
    """The share is measured since the last sample, or over the whole life if there is not a recent one."""
    usage = processes.Usage()
    assert usage.percent(stat(cpu=2.0), 110.0) == (20.0, 10.0)
    usage.looked([stat(cpu=2.0)], 110.0)
    assert usage.percent(stat(cpu=3.0), 112.0) == (50.0, 2.0)
    assert usage.percent(stat(cpu=3.0), 300.0) == (1.5, 200.0)
    assert usage.percent(stat(cpu=1.0, start=109.0), 111.0) == (50.0, 2.0)


def test_command_lines() -> None:
    """Words with blanks are in quotes; a program can have overwritten its words with a title."""
    assert processes.command_line(b"python3\0-c\0print(1, 2)\0") == "python3 -c 'print(1, 2)'"
    assert processes.command_line(b"sshd: someone\0\0\0") == "sshd: someone"
    assert processes.command_line(b"") == ""


def test_names_of_terminals() -> None:
    """The number of a device is its major and minor number, interleaved."""
    assert processes.terminal_name(0) is None
    assert processes.terminal_name(136 << 8 | 3) == "pts/3"
    assert processes.terminal_name(137 << 8) == "pts/256"
    assert processes.terminal_name(4 << 8 | 1) == "tty1"


FIRST = {
    "/c/memory/memory.usage_in_bytes": b"5000\n",
    "/c/memory/memory.limit_in_bytes": b"9223372036854771712\n",
    "/c/memory/memory.stat": b"cache 1\ntotal_cache 900\ntotal_rss 4000\ntotal_inactive_file 500\n",
    "/c/memory/memory.oom_control": b"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "/c/pids/pids.current": b"12\n",
    "/c/pids/pids.max": b"512\n",
    "/c/pids/pids.events": b"max 3\n",
    "/c/cpu/cpu.cfs_quota_us": b"150000\n",
    "/c/cpu/cpu.cfs_period_us": b"100000\n",
    "/c/cpuacct/cpuacct.usage": b"2500000000\n",
    "/p/pressure/memory": b"some avg10=1.50 avg60=0.50 avg300=0.00 total=9\n",
}
SECOND = {
    "/c/cgroup.controllers": b"cpu memory pids\n",
    "/c/memory.current": b"5000\n",
    "/c/memory.max": b"max\n",
    "/c/memory.stat": b"anon 4000\nfile 900\ninactive_file 500\n",
    "/c/memory.events": b"low 0\noom 1\noom_kill 2\n",
    "/c/pids.current": b"12\n",
    "/c/pids.max": b"512\n",
    "/c/pids.events": b"max 3\n",
    "/c/cpu.max": b"150000 100000\n",
    "/c/cpu.stat": b"usage_usec 2500000\nthrottled_usec 0\n",
    "/c/memory.pressure": b"some avg10=1.50 avg60=0.50 avg300=0.00 total=9\nfull avg10=0.10 avg60=0.00\n",
}


def test_both_versions_of_control_groups_report_the_same() -> None:
    """Either gives the same facts; version 1 does not have a pressure of its own."""
    first, second = (cgroup_limits.look("/c", "/p", texts.get) for texts in (FIRST, SECOND))
    assert (first["version"], second["version"]) == (1, 2)
    for found in (first, second):
        memory = found["memory"]
        assert (memory["used"], memory["usage"], memory["limit"]) == (4500, 5000, None)
        assert (memory["anonymous"], memory["cache"], memory["oom_kills"]) == (4000, 900, 2)
        assert found["pids"] == {"current": 12, "limit": 512, "refused": 3}
        assert (found["cpu"]["limit"], found["cpu"]["seconds"]) == (1.5, 2.5)
        assert found["pressure"]["memory"]["some_avg10"] == 1.5
    assert (first["pressure_of"], second["pressure_of"]) == ("machine", "session")


def test_limits_that_are_not_reported() -> None:
    """Without any of the files every fact is unknown, and nothing fails."""
    found = cgroup_limits.look("/c", "/p", lambda _: None)
    assert found["memory"]["used"] is None
    assert found["pids"] == {"current": None, "limit": None, "refused": None}
    assert found["pressure"] == {"memory": None, "cpu": None, "io": None}


def test_modes_of_a_terminal() -> None:
    """Input is echoed, read by lines, and can be a signal: each by its bit."""
    cooked = [0, termios.OPOST, 0, termios.ECHO | termios.ICANON | termios.ISIG]
    assert terminal_modes(cooked) == {"echo": True, "canonical": True, "signals": True, "raw": False}
    assert terminal_modes([0, 0, 0, 0]) == {"echo": False, "canonical": False, "signals": False, "raw": True}
    assert terminal_modes(None) is None


def test_answers_of_servers() -> None:
    """A status line of HTTP is recognised; anything else is its first line."""
    assert parse_reply(b"HTTP/1.1 404 Not Found\r\nServer: x\r\n") == {
        "http_status": 404,
        "first_line": "HTTP/1.1 404 Not Found",
    }
    assert parse_reply(b"SSH-2.0-OpenSSH\r\n") == {"first_line": "SSH-2.0-OpenSSH"}
    assert parse_reply(b"") == {}
    assert (reachable("0.0.0.0"), reachable("::"), reachable("10.0.0.1")) == (
        "127.0.0.1",
        "::1",
        "10.0.0.1",
    )


def test_details_of_a_process() -> None:
    """Memory, bytes and limits of a process are read from the kernel's text."""
    rollup = b"00400000-7fff [rollup]\nRss:  100 kB\nPss:   60 kB\nPrivate_Dirty:  8 kB\nSwap:  0 kB\n"
    assert processes.parse_rollup(rollup) == {"proportional": 60 << 10, "private_dirty": 8 << 10, "swap": 0}
    io = b"rchar: 10\nwchar: 20\nread_bytes: 4096\nsyscr: 1\n"
    assert parse_io(io) == {"read": 10, "written": 20, "read_from_disk": 4096}
    text = b"Limit  Soft Limit Hard Limit Units\nMax open files            1024                 4096 files\n"
    assert parse_limits(text) == {"open_files": 1024}
    assert parse_limits(b"Max processes  unlimited unlimited processes\n") == {"processes": None}


def test_a_missing_file() -> None:
    """There is nothing to report about it."""
    assert gather.file_status("/no/such/file") is None

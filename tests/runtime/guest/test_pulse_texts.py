"""What the pulse makes of the kernel's texts, on texts that were recorded."""

import os
import struct
import termios
from pathlib import Path

from holdfast.runtime.guest.pulse import (
    cgroup_limits,
    detail,
    gather,
    open_files,
    probe,
    processes,
    sock_diag,
    sockets,
    terminals,
)
from holdfast.runtime.guest.pulse.access import Stat

TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000  1000        0 41 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 0000000A:00000000 00:00000000 00000000     0        0 42 1 0 20 4 30 10
   2: broken
"""
TCP6 = b"""\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 51 1
   1: 0000000000000000FFFF00000100007F:0051 0000000000000000FFFF00000100007F:0052 06 0:0 0:0 0 0 0 0 1
"""
UNIX = b"""\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 100 /run/with blank.sock
0000000000000000: 00000003 00000000 00000000 0001 03 101
0000000000000000: 00000002 00000000 00000000 0002 01 102 @hidden
"""
FDINFO = b"""\
pos:\t4096
flags:\t02102001
mnt_id:\t31
ino:\t77
lock:\t1: POSIX  ADVISORY  WRITE 42 fd:00:77 10 19
lock:\t2: FLOCK  ADVISORY  READ 42 fd:00:77 0 EOF
lock:\t2: -> FLOCK  ADVISORY  WRITE 43 fd:00:77 0 EOF
"""


def stat(pid: int = 7, cpu: float = 0.0, start: float = 100.0) -> Stat:
    return Stat(pid, "x y", "S", 1, pid, pid, 0, -1, cpu, 1, start, 0, 0)


def test_sockets_of_the_internet() -> None:
    """Addresses are in host order, queues are hexadecimal, and a line that is none is passed over."""
    first, second = sockets.internet(TCP, "tcp")
    assert (first["local"], first["local_port"], first["state"]) == ("127.0.0.1", 8080, "listening")
    assert (first["remote"], first["receive_queue"], first["uid"], first["inode"]) == (None, 2, 1000, 41)
    assert (second["remote_port"], second["state"], second["send_queue"]) == (50000, "established", 10)


def test_sockets_of_version_six() -> None:
    """The wildcard is ::, and a mapped address of version 4 is told as one."""
    first, second = sockets.internet(TCP6, "tcp6")
    assert (first["local"], first["local_port"]) == ("::", 80)
    assert (second["local"], second["state"]) == ("127.0.0.1", "time_wait")


def test_unix_sockets() -> None:
    """Listening ones are known by their flag, and a path may have blanks."""
    first, second, third = sockets.unix(UNIX)
    assert (first["state"], first["path"]) == ("listening", "/run/with blank.sock")
    assert (second["state"], second["path"]) == ("connected", None)
    assert (third["type"], third["path"]) == ("datagram", "@hidden")


def test_sockets_by_netlink() -> None:
    """A dump is cut into messages, and each into the fields of one socket."""
    body = struct.pack("=BBBB", 2, 10, 0, 0) + bytes.fromhex("1f90") + bytes(2)
    body += bytes([127, 0, 0, 1]) + bytes(12 + 16 + 12) + struct.pack("=IIIII", 0, 3, 128, 1000, 99)
    data = struct.pack("=IHHII", 16 + len(body), 18, 2, 1, 0) + body
    data += struct.pack("=IHHII", 20, 3, 2, 1, 0) + bytes(4)
    (kind, told), (last, _) = sock_diag.messages(data)
    assert (kind, last) == (18, 3)
    found = sock_diag.parse(told)
    assert found is not None
    (row,) = sock_diag.rows([found])
    assert (row["local"], row["local_port"], row["state"]) == ("127.0.0.1", 8080, "listening")
    assert (row["receive_queue"], row["uid"], row["inode"]) == (3, 1000, 99)
    assert sock_diag.parse(b"short") is None
    assert list(sock_diag.messages(struct.pack("=IHHII", 3, 0, 0, 0, 0))) == []


def test_an_open_file() -> None:
    """Offset, access, flags and the locks it holds; one that is waited for is not held."""
    info = open_files.parse_fdinfo(FDINFO)
    assert (info["offset"], info["access"]) == (4096, "w")
    assert info["flags"] == ["append"]
    write, read = info["locks"]
    assert (write["kind"], write["mode"], write["start"], write["end"]) == ("posix", "write", 10, 19)
    assert (read["kind"], read["end"], read["pid"]) == ("flock", None, 42)


def test_synchronous_writing_needs_all_its_bits() -> None:
    """O_DSYNC is a part of O_SYNC and not the same."""
    for flags, expected in ((os.O_DSYNC, []), (os.O_SYNC, ["sync"])):
        assert open_files.parse_fdinfo(b"flags:\t%o\n" % flags)["flags"] == expected


def test_kinds_of_descriptors() -> None:
    """A link tells what a descriptor is, except for what only stat(2) knows."""
    kinds = {
        "socket:[5]": "socket",
        "pipe:[5]": "pipe",
        "anon_inode:[eventpoll]": "other",
        "/dev/null": "device",
        "/dev/pts/0": "terminal",
        "/dev/shm/x": "path",
        "/memfd:x (deleted)": "memory",
    }
    assert {target: open_files.kind_of_link(target) for target in kinds} == kinds
    assert open_files.socket_inode("socket:[5]") == 5
    assert open_files.socket_inode("socket:[x]") is None


def test_a_deleted_file_is_one_without_names(tmp_path: Path) -> None:
    """The kernel's mark alone is not believed: a name may end like that."""
    odd = tmp_path / "odd (deleted)"
    odd.write_bytes(b"12345")
    row = open_files.row(1, 3, str(odd), odd.stat(), {})
    assert (row["deleted"], row["path"], row["size"]) == (False, str(odd), 5)
    with odd.open("rb") as file:
        odd.unlink()
        gone = open_files.row(1, 3, f"{odd} (deleted)", os.fstat(file.fileno()), {})
    assert (gone["deleted"], gone["path"]) == (True, str(odd))


def test_processor_time_since_the_last_look() -> None:
    """The share is measured since the last look, or over the whole life where there was none of late."""
    usage = processes.Usage()
    assert usage.percent(stat(cpu=2.0), 110.0) == (20.0, 10.0)
    usage.looked([stat(cpu=2.0)], 110.0)
    assert usage.percent(stat(cpu=3.0), 112.0) == (50.0, 2.0)
    assert usage.percent(stat(cpu=3.0), 300.0) == (1.5, 200.0)
    assert usage.percent(stat(cpu=1.0, start=109.0), 111.0) == (50.0, 2.0)


def test_command_lines() -> None:
    """Words with blanks are in quotes; a program may have overwritten its words with a title."""
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
    "/c/cpu.max": b"150000 100000\n",
    "/c/cpu.stat": b"usage_usec 2500000\nthrottled_usec 0\n",
    "/c/memory.pressure": b"some avg10=1.50 avg60=0.50 avg300=0.00 total=9\nfull avg10=0.10 avg60=0.00\n",
}


def test_both_versions_of_control_groups_tell_the_same() -> None:
    """The same facts come out of either; version 1 has no pressure of its own."""
    first, second = (cgroup_limits.look("/c", "/p", texts.get) for texts in (FIRST, SECOND))
    assert (first["version"], second["version"]) == (1, 2)
    for found in (first, second):
        memory = found["memory"]
        assert (memory["used"], memory["usage"], memory["limit"]) == (4500, 5000, None)
        assert (memory["anonymous"], memory["cache"], memory["oom_kills"]) == (4000, 900, 2)
        assert found["pids"] == {"current": 12, "limit": 512}
        assert (found["cpu"]["limit"], found["cpu"]["seconds"]) == (1.5, 2.5)
        assert found["pressure"]["memory"]["some_avg10"] == 1.5
    assert (first["pressure_of"], second["pressure_of"]) == ("machine", "session")


def test_limits_that_nobody_tells() -> None:
    """Without any of the files every fact is unknown, and nothing fails."""
    found = cgroup_limits.look("/c", "/p", lambda _: None)
    assert found["memory"]["used"] is None
    assert found["pids"] == {"current": None, "limit": None}
    assert found["pressure"] == {"memory": None, "cpu": None, "io": None}


def test_modes_of_a_terminal() -> None:
    """What is typed is shown, taken by lines, and may be a signal: each by its bit."""
    cooked = [0, termios.OPOST, 0, termios.ECHO | termios.ICANON | termios.ISIG]
    assert terminals.modes(cooked) == {"echo": True, "canonical": True, "signals": True, "raw": False}
    assert terminals.modes([0, 0, 0, 0]) == {"echo": False, "canonical": False, "signals": False, "raw": True}
    assert terminals.modes(None) is None


def test_answers_of_servers() -> None:
    """A status line of HTTP is recognised; anything else is its first line."""
    assert probe.told(b"HTTP/1.1 404 Not Found\r\nServer: x\r\n") == {
        "http_status": 404,
        "first_line": "HTTP/1.1 404 Not Found",
    }
    assert probe.told(b"SSH-2.0-OpenSSH\r\n") == {"first_line": "SSH-2.0-OpenSSH"}
    assert probe.told(b"") == {}
    assert (probe.reachable("0.0.0.0"), probe.reachable("::"), probe.reachable("10.0.0.1")) == (
        "127.0.0.1",
        "::1",
        "10.0.0.1",
    )


def test_details_of_a_process() -> None:
    """Memory, bytes and limits of a process are read from what it is told as."""
    rollup = b"00400000-7fff [rollup]\nRss:  100 kB\nPss:   60 kB\nPrivate_Dirty:  8 kB\nSwap:  0 kB\n"
    assert processes.parse_rollup(rollup) == {"proportional": 60 << 10, "private_dirty": 8 << 10, "swap": 0}
    io = b"rchar: 10\nwchar: 20\nread_bytes: 4096\nsyscr: 1\n"
    assert detail.parse_io(io) == {"read": 10, "written": 20, "read_from_disk": 4096}
    text = b"Limit  Soft Limit Hard Limit Units\nMax open files            1024                 4096 files\n"
    assert detail.parse_limits(text) == {"open_files": 1024}
    assert detail.parse_limits(b"Max processes  unlimited unlimited processes\n") == {"processes": None}


def test_a_file_that_is_not_there() -> None:
    """There is nothing to tell of it."""
    assert gather.file_status("/no/such/file") is None

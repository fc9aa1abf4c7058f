"""Holds one resource open in a session: `python3 holding.py NAME` makes it, writes `ready PID`, and waits.

Each function is one resource of the survivability catalog, made as a program would make it.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = LIBC.shmat.restype = ctypes.c_void_p
X86 = platform.machine() == "x86_64"
KEPT: list[Any] = []
HERE = Path("/srv/holding")
LARGE = 257 << 20
# x86_64 and aarch64.
CALLS = {
    "ptrace": (101, 117), "bpf": (321, 280), "perf_event_open": (298, 241), "seccomp": (317, 277),
    "userfaultfd": (323, 282), "memfd_secret": (447, 447), "io_uring_setup": (425, 425), "vfork": (58, -1),
    "exit": (60, 93), "io_setup": (206, 0), "io_submit": (209, 2),
    "pidfd_open": (434, 434), "fsopen": (430, 430), "open_tree": (428, 428),
}  # fmt: skip


def call(name: str, *arguments: Any) -> int:
    """Make a system call by name.

    Raises:
        OSError: it failed.
    """
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(LIBC.syscall(CALLS[name][0 if X86 else 1], *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return result


def sleeper() -> int:
    """Start a child that waits."""
    child = os.fork()
    if child == 0:
        while True:
            time.sleep(1000)
    return child


def thread() -> int:
    """Start a thread that waits; return its number."""
    numbers: list[int] = []
    begun = threading.Event()

    def run() -> None:
        numbers.append(threading.get_native_id())
        begun.set()
        time.sleep(1e6)

    threading.Thread(target=run, daemon=True).start()
    begun.wait()
    return numbers[0]


def opened(path: str, flags: int = os.O_RDONLY) -> Callable[[], None]:
    return lambda: KEPT.append(os.open(path, flags))


def deleted(path: Path, size: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, size)
    path.unlink()
    KEPT.append(descriptor)
    return descriptor


def mapped_deleted() -> None:
    descriptor = deleted(HERE / "mapped", LARGE)
    LIBC.mmap(None, ctypes.c_size_t(4096), 1, mmap.MAP_SHARED, descriptor, ctypes.c_long(0))
    os.close(descriptor)


def linked_deleted() -> None:
    deleted(HERE / "linked", 4096)
    first, second = HERE / "first", HERE / "second"
    file = first.open("wb")
    os.posix_fallocate(file.fileno(), 0, LARGE)
    second.hardlink_to(first)
    first.unlink()
    KEPT.append(file)


def fifo() -> None:
    os.mkfifo(HERE / "fifo")
    KEPT.append(os.open(HERE / "fifo", os.O_RDWR))
    os.write(KEPT[-1], b"waiting")


def locks() -> None:
    file = (HERE / "locked").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX)
    KEPT.append(file)


def inotify(path: str) -> Callable[[], None]:
    def watch() -> None:
        descriptor = LIBC.inotify_init1(0)
        assert LIBC.inotify_add_watch(descriptor, path.encode(), 0xFFF) > 0
        KEPT.append(descriptor)

    return watch


def memory_file(flags: int) -> Callable[[], None]:
    return lambda: KEPT.append(os.memfd_create("held", flags))


def message_queue() -> None:
    queue = ctypes.CDLL("librt.so.1").mq_open(b"/held", os.O_CREAT | os.O_RDWR, 0o600, None)
    assert queue >= 0
    KEPT.append(queue)


def system_v() -> None:
    LIBC.shmat(LIBC.shmget(0, 4096, 0o1600), None, 0)


def path_to_socket() -> None:
    one = socket.socket(socket.AF_UNIX)
    one.bind(str(HERE / "named"))
    KEPT.extend([one, os.open(HERE / "named", os.O_PATH)])


def of_thread() -> None:
    KEPT.append(os.open(f"/proc/self/task/{thread()}/status", os.O_RDONLY))


def pidfd_of_thread() -> None:
    KEPT.append(call("pidfd_open", thread(), os.O_EXCL))


def pidfd(pid: Callable[[], int]) -> Callable[[], None]:
    return lambda: KEPT.append(os.pidfd_open(pid()))


def terminal() -> None:
    KEPT.extend(os.openpty())


def polled(*, lost: bool) -> Callable[[], None]:
    def poll() -> None:
        poller = select.epoll()
        reader, writer = os.pipe()
        poller.register(reader, select.EPOLLIN)
        KEPT.extend([poller, reader, writer])
        if lost:
            sleeper()
            os.close(reader)
            os.close(writer)

    return poll


def scheduled_io() -> None:
    context = ctypes.c_ulong(0)
    call("io_setup", 16, ctypes.byref(context))
    KEPT.append(context)


def listening(*, connected: bool, accepted: bool) -> Callable[[], None]:
    def listen() -> None:
        server = socket.create_server(("127.0.0.1", 0))
        KEPT.append(server)
        if connected:
            KEPT.append(socket.create_connection(server.getsockname()))
        if accepted:
            KEPT.append(server.accept()[0])

    return listen


def outside() -> None:
    KEPT.append(socket.create_connection((os.environ["OUTSIDE"], int(os.environ["OUTSIDE_PORT"]))))


def udp() -> None:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    one.sendto(b"x", one.getsockname())
    KEPT.append(one)


def corked() -> None:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.sendto(b"x", socket.MSG_MORE, ("127.0.0.1", 9))
    KEPT.append(one)


def unix_to(name: str, kind: int) -> Callable[[], None]:
    def connect() -> None:
        one = socket.socket(socket.AF_UNIX, kind)
        one.connect(f"/mnt/outside/{name}")
        KEPT.append(one)

    return connect


def unix_waiting(data: bytes) -> Callable[[], None]:
    def connect() -> None:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(HERE / "server"))
        server.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(HERE / "server"))
        client.sendall(data)
        KEPT.extend([server, client])

    return connect


def passed() -> None:
    first, second = socket.socketpair()
    third, fourth = socket.socketpair()
    socket.send_fds(first, [b"x"], [third.fileno()])
    third.close()
    KEPT.extend([first, second, fourth])


def netlink(*, unread: bool) -> Callable[[], None]:
    def bind() -> None:
        one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        one.bind((0, 0))
        KEPT.append(one)
        if unread:
            one.send(struct.pack("IHHIIB3x", 20, 18, 0x301, 1, 0, 0))  # RTM_GETLINK
            select.select([one], [], [])

    return bind


def of_family(family: int, kind: int, protocol: int) -> Callable[[], None]:
    return lambda: KEPT.append(socket.socket(family, kind, protocol))


def traced() -> None:
    call("ptrace", 0x4206, sleeper(), 0, 0)  # PTRACE_SEIZE


def trapped() -> None:
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTRAP])
        os.kill(os.getpid(), signal.SIGTRAP)
        while True:
            time.sleep(1000)


def headless() -> None:
    if os.fork() == 0:
        threading.Thread(target=lambda: time.sleep(1e6)).start()
        call("exit", 0)


def stuck() -> None:
    code = (
        "import ctypes, time\n"
        f"ctypes.CDLL(None).syscall({CALLS['vfork'][0]})\n"  # the child continues, the parent waits for it
        "time.sleep(1e6)\n"
    )
    subprocess.Popen([sys.executable, "-c", code])


def stopped() -> None:
    os.kill(sleeper(), signal.SIGSTOP)


def zombie() -> None:
    if os.fork() == 0:
        os._exit(0)


def filtered(flags: int) -> Callable[[], None]:
    def confine() -> None:
        LIBC.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), 8)
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
        KEPT.append(call("seccomp", 1, flags, program))

    return confine


def ring() -> None:
    parameters = ctypes.create_string_buffer(120)
    descriptor = call("io_uring_setup", 8, parameters)
    LIBC.mmap(None, ctypes.c_size_t(4096), 3, mmap.MAP_SHARED, descriptor, ctypes.c_long(0))
    KEPT.append(descriptor)


def counter() -> None:
    attributes = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 64, 0, 0, 0, 0, 1) + bytes(64))
    KEPT.append(call("perf_event_open", attributes, 0, -1, -1, 0))


def bpf_map() -> None:
    attributes = ctypes.create_string_buffer(struct.pack("IIIIII", 2, 4, 4, 4, 0, 0) + bytes(80), 120)
    KEPT.append(call("bpf", 0, attributes, 120))


def unshared(flag: int) -> Callable[[], None]:
    def unshare() -> None:
        if LIBC.unshare(ctypes.c_int(flag)) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        sleeper()

    return unshare


def first_process() -> int:
    return 1


HELD: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "deleted": lambda: deleted(HERE / "deleted", 1 << 20),
    "deleted_large": lambda: deleted(HERE / "deleted", LARGE),
    "deleted_large_in_memory": lambda: deleted(Path("/dev/shm/held"), LARGE),
    "deleted_large_mapped": mapped_deleted,
    "deleted_large_linked": linked_deleted,
    "fifo": fifo,
    "locks": locks,
    "watch": inotify(str(HERE)),
    "watch_memory": inotify("/dev/shm"),
    "watch_proc": inotify("/proc/self/status"),
    "watch_hosts": inotify("/etc/hosts"),
    "memory_file": memory_file(0),
    "memory_file_huge": memory_file(4),
    "memory_file_secret": lambda: KEPT.append(call("memfd_secret", 0)),
    "message_queue": message_queue,
    "system_v": system_v,
    "path_to_socket": path_to_socket,
    "path_to_terminal": opened("/dev/ptmx", os.O_PATH),
    "path_to_folder": opened("/srv", os.O_PATH),
    "proc": opened("/proc/self/status"),
    "proc_links": opened("/proc/self/fd"),
    "proc_memory": opened("/proc/self/mem"),
    "proc_of_thread": of_thread,
    "namespace": opened("/proc/self/ns/net"),
    "pidfd_child": pidfd(sleeper),
    "pidfd_first": pidfd(first_process),
    "pidfd_thread": pidfd_of_thread,
    "terminal": terminal,
    "polled": polled(lost=False),
    "polled_lost": polled(lost=True),
    "scheduled_io": scheduled_io,
    "null": opened("/dev/null", os.O_RDWR),
    "random": opened("/dev/urandom"),
    "listener": listening(connected=False, accepted=False),
    "loopback": listening(connected=True, accepted=True),
    "not_accepted": listening(connected=True, accepted=False),
    "outside": outside,
    "udp": udp,
    "corked": corked,
    "unix_outside": unix_to("stream", socket.SOCK_STREAM),
    "unix_outside_datagram": unix_to("datagram", socket.SOCK_DGRAM),
    "unix_waiting": unix_waiting(b""),
    "unix_waiting_data": unix_waiting(b"data"),
    "unix_passed": passed,
    "netlink": netlink(unread=False),
    "netlink_unread": netlink(unread=True),
    "ping": of_family(2, 2, 1),
    "packet": of_family(17, 3, 0x0300),
    "vsock": of_family(40, 1, 0),
    "multipath": of_family(2, 1, 262),
    "traced": traced,
    "trapped": trapped,
    "headless": headless,
    "stuck": stuck,
    "stopped": stopped,
    "zombie": zombie,
    "filtered": filtered(0),
    "filtered_told": filtered(8),
    "ring": ring,
    "counter": counter,
    "bpf_map": bpf_map,
    "userfaultfd": lambda: KEPT.append(call("userfaultfd", os.O_CLOEXEC | 1)),
    "file_system": lambda: KEPT.append(call("fsopen", ctypes.c_char_p(b"tmpfs"), 0)),
    "fuse_device": opened("/dev/fuse", os.O_RDWR),
    "unshared_user": unshared(0x10000000),
    "unshared_network": unshared(0x40000000),
    "unshared_mounts": unshared(0x00020000),
    "unshared_name": unshared(0x04000000),
    "unshared_ipc": unshared(0x08000000),
    "unshared_cgroup": unshared(0x02000000),
    "unshared_pids": unshared(0x20000000),
    "unshared_time": unshared(0x00000080),
}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    state = Path("/srv/held")
    try:
        HELD[sys.argv[1]]()
        said = f"ready {os.getpid()}"
    except OSError as error:
        said = f"cannot {error.strerror}"
    Path("/srv/held.new").write_text(said)
    Path("/srv/held.new").rename(state)
    while True:
        time.sleep(1000)


if __name__ == "__main__":
    main()

"""Runs in place of the supervisor (see test_posture.py): tries things and writes down what happened."""

import ctypes
import errno
import json
import os
import platform
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
# Numbers of x86_64 and aarch64; one number where they agree.
X86 = platform.machine() == "x86_64"
CALLS: dict[str, tuple[Any, ...]] = {
    "io_uring_setup": (425, 8, ctypes.create_string_buffer(256)),
    "memfd_secret": (447, 0),
    "clone3": (435, 0, 0),
    "unshare": (272 if X86 else 97, 0x10000000),
    "mount": (165 if X86 else 40, b"none", b"/mnt", b"tmpfs", 0, 0),
    "setns": (308 if X86 else 268, 0, 0),
    "bpf": (321 if X86 else 280, 0, 0, 0),
    "keyctl": (250 if X86 else 219, 0, 0),
    "perf_event_open": (298 if X86 else 241, 0, 0, 0, 0, 0),
}
SOCKET = 41 if X86 else 198
SOCKETS = {
    "AF_UNIX": (1, 1, 0),
    "AF_INET": (2, 1, 0),
    "AF_INET6": (10, 1, 0),
    "AF_NETLINK": (16, 3, 0),
    "AF_ALG": (38, 5, 0),
    "AF_VSOCK": (40, 1, 0),
    "AF_VSOCK with upper bits": (40 | 1 << 32, 1, 0),
    "AF_PACKET": (17, 3, 0),
    "audit": (16, 3, 9),
}
I386 = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
static int call(long n, long a, long b, long c)
{
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}
int main(void)
{
    unsigned *vsock = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    vsock[0] = 40; vsock[1] = 1;
    printf("%d %d %d\n", call(20, 0, 0, 0), call(102, 1, (long)vsock, 0), call(359, 40, 1, 0));
}
"""


def outcome(number: int, *arguments: Any) -> str:
    if (
        LIBC.syscall(
            ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
        )
        >= 0
    ):
        return "ok"
    return errno.errorcode[ctypes.get_errno()]


def run(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def status(who: str, *fields: str) -> dict[str, int]:
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{who}/status").read_text().splitlines())
    return {field: int(lines[field], 16) for field in fields}


def metadata() -> str:
    try:
        socket.create_connection(("169.254.169.254", 80), timeout=10).close()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    return "ok"


def network_changes() -> dict[str, str]:
    """Return the outcomes of attempts to open the network: a route, another address, no rules."""
    tried = {
        "route": run("ip", "route", "add", "169.254.0.0/16", "dev", "eth0")[1],
        "address": run("ip", "address", "add", "172.31.255.254/32", "dev", "eth0")[1],
        "neighbour": run(
            "ip", "neigh", "add", "172.31.255.253", "lladdr", "02:00:00:00:00:01", "dev", "eth0"
        )[1],
    }
    found = {what: "EPERM" if "not permitted" in said else said for what, said in tried.items()}
    return {**found, "rules": delete_rules()}


def delete_rules() -> str:
    """Ask the kernel to delete all tables of nftables, in a batch (linux/netfilter/nfnetlink.h)."""
    begin, end, delete = 16, 17, 10 << 8 | 2

    def message(kind: int, flags: int, number: int, resource_id: int) -> bytes:
        return struct.pack("=IHHIIBBH", 20, kind, flags, number, 0, 0, 0, socket.htons(resource_id))

    batch = message(begin, 1, 1, 10) + message(delete, 1 | 4, 2, 0) + message(end, 1, 3, 10)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as kernel:
        kernel.settimeout(10)
        kernel.send(batch)
        (error,) = struct.unpack_from("=i", kernel.recv(4096), 16)
    return errno.errorcode.get(-error, "ok")


def i386() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "i.c").write_text(I386)
        run("gcc", "-o", f"{folder}/i", f"{folder}/i.c")
        code, said = run(f"{folder}/i")
    if code != 0:  # a kernel without 32-bit calls ends the program
        return {"getpid": "none"}
    pid, socketcall, vsock = (int(word) for word in said.split())
    return {
        "getpid": "ok" if pid > 0 else "refused",
        "socketcall": errno.errorcode[-socketcall],
        "vsock": errno.errorcode[-vsock],
    }


def threads() -> int:
    done: list[int] = []
    started = [threading.Thread(target=done.append, args=(1,)) for _ in range(50)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return len(done)


def gcc() -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.c").write_text('#include <stdio.h>\nint main(void) { printf("%d", 6 * 7); }\n')
        run("gcc", "-o", f"{folder}/a", f"{folder}/a.c")
        return run(f"{folder}/a")


def kernel_argv() -> list[str]:
    from jupyter_client.kernelspec import KernelSpecManager

    return list(KernelSpecManager().get_kernel_spec("python3").argv)


def ignored_before_python() -> int:
    """Signals that were ignored already when Python started: all but PIPE (13) and XFSZ (25)."""
    return status("self", "SigIgn")["SigIgn"] & ~(1 << 12 | 1 << 24)


def probe() -> dict[str, Any]:
    capability_sets = ("CapPrm", "CapEff", "CapBnd", "CapAmb")
    found = {
        "machine": platform.machine(),
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "sid": os.getsid(0),
        "streams": [str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in range(3)],
        "blocked": status("self", "SigBlk")["SigBlk"],
        "ignored_before_python": ignored_before_python(),
        "capabilities": {who: status(who, *capability_sets) for who in ("self", "1")},
        "metadata": metadata(),
        "network_changes": network_changes(),
        "calls": {name: outcome(*call) for name, call in CALLS.items()},
        "sockets": {name: outcome(SOCKET, *arguments) for name, arguments in SOCKETS.items()},
        "i386": i386() if X86 else {},
        "unshare_u": run("unshare", "-U", "true")[0],
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
        "threads": threads(),
        "gcc": gcc(),
        "sudo": run("sudo", "-u", "nobody", "id", "-un"),
        "python": run("python", "-c", "import sys; print(sys.prefix)")[1],
        "login_python": run("bash", "-lc", "command -v python")[1],
        "kernel_argv": kernel_argv(),
        "guest_prefix": sys.prefix,
    }
    update = run("apt-get", "update", "-q")
    install = run("apt-get", "install", "-q", "-y", "--no-install-recommends", "hello")
    found["apt"] = install[0]
    found["apt_output"] = (update[1] + install[1])[-2000:]
    return found


if __name__ == "__main__":
    Path("/workspace/result.json").write_text(json.dumps(probe()))

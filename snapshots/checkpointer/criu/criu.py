"""The start of CRIU such that it works inside a session but trusts nothing in it.

guard.c describes the preloaded library. Descriptors are handed over by number: once in the session's mount
namespace, no path can be trusted, and /proc/self/fd is served by the kernel.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.snapshots.checkpointer.criu import profiles
from holdfast.snapshots.checkpointer.ground import mounting, separate_process
from holdfast.snapshots.checkpointer.ground.separate_process import Process, SeparateProcess

CRIU = "/usr/sbin/criu"
GUARD = "/opt/holdfast/guard.so"
EMPTY = "/opt/holdfast/empty"
KDAT = "/dev/shm/kdat"  # noqa: S108 - the container's own; CRIU keeps this cache only on tmpfs

# --skip-in-flight: the peer must retry a connection that was not yet accepted.
COMMON = (
    "--no-default-config",
    "--tcp-established",
    "--skip-in-flight",
    "--file-locks",
    "--ext-unix-sk",
    "--manage-cgroups=ignore",
    "-v2",
)


_SAID = 4096
"""Bytes of the guard's words that are read; it says one line, and ends."""
_CREDENTIALS = struct.Struct("3i")


@dataclass(slots=True)
class Running:
    """A started CRIU: `control` is the connection to the guard, `said` the standard error of both."""

    process: Process
    control: socket.socket
    said: BinaryIO

    def question(self) -> str:
        """Return CRIU's question, after `control` became readable; empty when it has ended."""
        try:
            return self.control.recv(256).decode("ascii", "replace").strip()
        except ConnectionError:  # it was killed before it had read the last answer
            return ""

    def answer(self, *, yes: bool) -> None:
        """Let CRIU continue, or make it abort.

        Raises:
            Killed: it has ended in the meantime.
        """
        try:
            self.control.sendall(b"y" if yes else b"n")
        except ConnectionError as error:
            raise Killed(abs(self.process.wait())) from error

    def follow(self) -> None:
        """Switch to the process that takes this one's place, which then waits for an answer.

        The kernel identifies that process (unix(7), SCM_CREDENTIALS).

        Raises:
            Killed: there is none.
        """
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.answer(yes=True)
        try:
            said, given, _, _ = self.control.recvmsg(256, socket.CMSG_SPACE(_CREDENTIALS.size))
        except ConnectionError:
            said, given = b"", []
        status = self.process.wait()
        if not said:
            raise Killed(abs(status))
        ((_, _, data),) = given
        self.process = SeparateProcess(_CREDENTIALS.unpack(data)[0])

    def errors(self, folder: int, log: str) -> list[str]:
        """Return why it failed: the error lines of its log, and the guard's message on ending it."""
        self.said.seek(0)
        guard = self.said.read(_SAID).decode("utf-8", "replace").splitlines()
        return [*errors_in(read_log(folder, log)), *(line for line in guard if line.startswith("guard:"))]

    def close(self) -> None:
        """Release both; one that waits for an answer ends."""
        self.control.close()
        self.said.close()

    def ask_again(self) -> None:
        """Make CRIU ask the same again, which it does unless it was killed."""
        with suppress(ConnectionError):
            self.control.sendall(b"a")


def start(
    arguments: Sequence[str],
    *,
    init_pid: int | None,
    images: int,
    work: int,
    also_inherit: Sequence[int] = (),
    check: Callable[[], None] = lambda: None,
    restores: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Running:
    """Run CRIU in the namespaces of `init_pid` (none: in our own).

    `images` and `work` are descriptors of folders for -D and -W; the descriptors in `also_inherit` also
    stay open. `check` raises unless `init_pid`, whose namespaces are open by then, is the intended process.
    `restores` is the inner pid of the root of the tree that will be restored; `environment` is for the
    guard.

    Every folder of ours that it gets is detached: whatever path a session makes it follow, no `..` leads out
    of it to this container's files, and from there to the host's.
    """
    cache = profiles.cache(KDAT, environment)
    Path(cache).mkdir(exist_ok=True)
    ours, theirs = socket.socketpair()
    said = os.fdopen(os.memfd_create("said"), "r+b")
    opened: list[int] = []

    def opening(path: str, flags: int = os.O_RDONLY) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        opened.append(fd)
        return fd

    def alone(folder: int) -> int:
        fd = mounting.detached_clone(folder)
        opened.append(fd)
        return fd

    try:
        images, work = alone(images), alone(work)
        inherited = [images, work, theirs.fileno(), *also_inherit]
        entered = [-1, -1, -1]
        if init_pid is not None:
            base = f"/proc/{init_pid}/ns"
            entered = [opening(f"{base}/{name}") for name in ("mnt", "net", "uts")]
        kdat = alone(opening(cache, os.O_DIRECTORY))
        plugins = alone(opening(EMPTY, os.O_DIRECTORY))
        inherited += [fd for fd in (*entered, kdat, plugins) if fd >= 0]
        variables = {
            **(environment or {}),
            "LD_PRELOAD": GUARD,
            "HOLDFAST_IMAGES": str(images),
            "HOLDFAST_GUARD": " ".join(map(str, (*entered, theirs.fileno(), kdat, restores))),
        }
        command = [
            CRIU,
            *arguments,
            f"--images-dir=/proc/self/fd/{images}",
            f"--work-dir=/proc/self/fd/{work}",
            f"--libdir=/proc/self/fd/{plugins}",
        ]
        with separate_process.children_in(init_pid) if init_pid is not None else nullcontext():
            check()
            process = subprocess.Popen(
                command,
                env=variables,
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
    except BaseException:
        said.close()
        raise
    finally:
        theirs.close()
        for fd in opened:
            os.close(fd)
    return Running(process, ours, said)


def read_log(folder: int, name: str, limit: int = 256 * 1024) -> str:
    """Return the end of a log CRIU wrote in `folder`; empty when there is none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - limit))
        return stream.read().decode("utf-8", "replace")


def errors_in(log: str) -> list[str]:
    """Return the error lines of a log, without time stamps."""
    return [line.partition("Error ")[2] for line in log.splitlines() if "Error " in line]


class Killed(Exception):
    """A signal killed CRIU in the middle of an operation."""

    def __init__(self, number: int) -> None:
        super().__init__(f"CRIU was killed by signal {number} during the operation")
        self.number = number

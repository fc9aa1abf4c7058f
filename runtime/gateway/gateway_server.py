"""The gateway's first process: accepts connections, and hands each to the process of the session that calls.

One session's traffic can fill the memory of its own process, or keep it busy; all others have theirs. It
is forked for the first connection, which takes some milliseconds and ten MiB, and ends some time after the
last. This process must not know HTTP, TLS, or names: it reads nothing of a connection.

Arguments: the address and port to listen on. Mounted: policies, the authority, a folder for records of
refusals.
"""

from __future__ import annotations

import gc
import os
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from holdfast.runtime.gateway.session_rules import Policies

FOLDER = Path("/holdfast")
"""The mount point of sessions/, refused/, authority/."""
SCRATCH = Path("/tmp")  # noqa: S108 - in memory, of this container alone
ROOTS = Path("/etc/ssl/certs/ca-certificates.crt")
LOOK_SECONDS = 60
PROCESSES = 64
"""Processes of single sessions. The sessions beyond that share one."""
SHARED = ""
"""The owner of the process that serves them, and callers that are not sessions."""
BACKLOG = 1024


class SessionWorker:
    """The process of one session: connections go to it through `channel`, and `sent` counts them."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self.sent = channel, 0


class ConnectionDoor:
    """Hands out connections. `serve` is a new process's function of its end of the channel."""

    def __init__(
        self,
        listener: socket.socket,
        known: Callable[[str], bool],
        serve: Callable[[socket.socket], None],
        processes: int = PROCESSES,
    ) -> None:
        self._listener, self._known, self._serve, self._processes = listener, known, serve, processes
        self._workers: dict[str, SessionWorker] = {}
        self._pids: set[int] = set()
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)

    def turn(self, seconds: float) -> None:
        """Do the pending work, or wait for it this long."""
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._accept()
            else:
                self._hear(key.data)
        self._pids -= {pid for pid in self._pids if os.waitpid(pid, os.WNOHANG)[0]}

    def close(self) -> None:
        """Let go of all processes: each ends after its last connection."""
        for whose in list(self._workers):
            self._forget(whose)

    def _accept(self) -> None:
        try:
            connection, (peer, *_) = self._listener.accept()
        except OSError:  # the client is gone, or there are no descriptors left: others will end
            return
        with connection:
            whose = peer if self._known(peer) else SHARED
            if whose not in self._workers and len(self._workers) >= self._processes:
                whose = SHARED
            with suppress(OSError):  # it has more connections to take than its channel holds, or is gone
                worker = self._workers.get(whose) or self._start(whose, connection)
                socket.send_fds(worker.channel, [b"."], [connection.fileno()])
                worker.sent += 1

    def _start(self, whose: str, connection: socket.socket) -> SessionWorker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            # It gets the connection like every other: a second descriptor would keep that open.
            connection.close()
            self._become(ours, theirs)
        theirs.close()
        ours.setblocking(False)
        self._pids.add(pid)
        self._workers[whose] = worker = SessionWorker(ours)
        self._selector.register(ours, selectors.EVENT_READ, whose)
        return worker

    def _become(self, ours: socket.socket, theirs: socket.socket) -> NoReturn:
        """Become the new process: it has only its own end of the channel."""
        code = 1
        try:
            self._selector.close()
            for one in (self._listener, ours, *(worker.channel for worker in self._workers.values())):
                one.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._serve(theirs)
            code = 0
        finally:
            os._exit(code)

    def _hear(self, whose: str) -> None:
        """Forget a process that has ended, or has lost all connections it was sent so far."""
        worker = self._workers[whose]
        try:
            said = worker.channel.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said and int(said) != worker.sent:
            return  # another is on its way to it
        self._forget(whose)

    def _forget(self, whose: str) -> None:
        worker = self._workers.pop(whose)
        self._selector.unregister(worker.channel)
        worker.channel.close()


def main() -> None:
    """Serve until the folder of policies is removed, with the home it belongs to.

    Exits with 1 if it cannot listen, and the engine restarts it.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # First, so that a caller waits for an answer from the very beginning, instead of being refused.
    listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=BACKLOG)
    from holdfast.runtime.gateway import session_process

    authority = SCRATCH / "authority"
    authority.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(FOLDER / "authority" / "mitmproxy-ca.pem", authority)
    roots = SCRATCH / "roots.pem"
    extra = FOLDER / "authority" / "extra.pem"
    roots.write_bytes(ROOTS.read_bytes() + (extra.read_bytes() if extra.exists() else b""))
    policies = Policies(FOLDER / "sessions")
    process = session_process.prepared(policies, FOLDER / "refused", authority, roots)
    door = ConnectionDoor(listener, lambda peer: policies.of(peer) is not None, process)
    gc.collect()
    gc.freeze()  # else the collector of each process would copy all it shares with this one
    while (FOLDER / "sessions").stat().st_nlink > 0:
        door.turn(LOOK_SECONDS)

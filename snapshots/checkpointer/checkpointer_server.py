"""Listens for the host and carries out one request per connection, each in a process of its own.

The socket is in a folder only the state directory's owner can enter; its clients are checked all the same.
With nothing to do for a while the checkpointer ends, and its container with it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path

from holdfast.snapshots.checkpointer.container import (
    confine,
    container_turn,
    first_process,
    host_name,
    read_only_root,
    rooms,
)
from holdfast.snapshots.checkpointer.criu import criu, host_features
from holdfast.snapshots.checkpointer.criu.criu_images import ImageFolder
from holdfast.snapshots.checkpointer.dump import dump, ending, repair
from holdfast.snapshots.checkpointer.ground import folders, mounting, tree
from holdfast.snapshots.checkpointer.layers import apart_files, keep
from holdfast.snapshots.checkpointer.record import ImagesUnreadable, credentials, kernel_record
from holdfast.snapshots.checkpointer.record.decode import decode
from holdfast.snapshots.checkpointer.record.outside import strange
from holdfast.snapshots.checkpointer.restore import audit, restore
from holdfast.snapshots.checkpointer.survey import check
from holdfast.snapshots.checkpointer.wire import requests
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.deadline import Deadline

SOCKET = Path("/run/holdfast/checkpointer.sock")
IDLE_LIMIT = 600.0  # seconds

_CODES: dict[type[Exception], str] = {
    requests.BadRequest: "bad_request",
    tree.TargetMismatch: "target",
    dump.DumpFailed: "criu",
    restore.CriuRestoreFailed: "criu",
    audit.NotWanted: "refused",
    confine.NotConfined: "network",
    read_only_root.RootWritable: "root",
    first_process.Astray: "places",
    criu.Killed: "killed",
    ImagesUnreadable: "images",
}


_ALLOCATED = 50_000
"""Objects after which a worker looks for garbage. It lists tens of thousands of files, and then ends."""


def main() -> None:
    """Serve until idle for IDLE_LIMIT seconds, or until SIGTERM."""
    mounting.make_writable(b"/proc/sys")
    owner = folders.STATE.stat().st_uid
    host_features.versions()
    confine.prepare()
    kernel_record.devices_of_memory()
    folders.discard_old_scratch()
    SOCKET.unlink(missing_ok=True)
    # What is loaded by now stays: workers need not look through it for garbage, which would copy its pages.
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(SOCKET))
        os.chown(SOCKET, owner, -1)
        SOCKET.chmod(0o600)
        listener.listen(16)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        serve_until_idle(listener, owner, SOCKET, IDLE_LIMIT)


def serve_until_idle(listener: socket.socket, owner: int, path: Path, idle_limit: float) -> None:
    """Serve until no request has come for this many seconds; remove the socket, and serve the last ones."""
    _serve(listener, owner, idle_limit)
    path.unlink(missing_ok=True)
    _serve(listener, owner, 0.0)


def _serve(listener: socket.socket, owner: int, idle_limit: float) -> None:
    """Serve until no request has come for this many seconds, and all are served."""
    workers: set[int] = set()
    busy_at = time.monotonic()
    while True:
        ready, _, _ = select.select([listener], [], [], 1.0 if workers else min(1.0, idle_limit))
        workers = {pid for pid in workers if os.waitpid(pid, os.WNOHANG)[0] == 0}
        if not ready:
            if not workers and time.monotonic() - busy_at >= idle_limit:
                return
            continue
        busy_at = time.monotonic()
        connection, _ = listener.accept()
        with connection:
            if _peer(connection) not in (0, owner):
                continue
            pid = os.fork()
            if pid == 0:
                listener.close()
                _work(connection)
            workers.add(pid)


def _peer(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _work(connection: socket.socket) -> None:
    # SIGTERM to the whole container must not cut a capture short: CRIU would leave its code in the tasks.
    # A handler and not SIG_IGN, which CRIU would inherit: it ends its own helpers with SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: None)
    gc.set_threshold(_ALLOCATED)
    channel = HostChannel(connection)
    try:
        line = channel.receive(requests.MAX_LINE)
        if line is not None:
            _carry_out(requests.parse(line), channel)
    except tuple(_CODES) as error:
        lines = getattr(error, "errors", [])  # CRIU's own
        channel.send("error", code=_CODES[type(error)], message=str(error), errors=lines[:50])
    except OSError as error:
        channel.send("error", code="os", message=str(error), errors=[], errno=error.errno)
    except Exception as error:  # noqa: BLE001 - the last line of a process of its own
        channel.send(
            "error", code="internal", message=repr(error), errors=traceback.format_exc().splitlines()
        )
    finally:
        os._exit(0)


def _carry_out(request: requests.Request, channel: HostChannel) -> None:  # noqa: C901 - a case for each request
    if isinstance(request, requests.Dump | requests.CopyFiles):
        os.umask(0o077)  # what is kept of a session is for the owner of the home alone
    match request:
        case requests.Hello(container):
            _greet(container, channel)
        case requests.Describe():
            _describe(request, channel)
        case requests.CopyFiles():
            _keep_files(request, channel)
        case requests.ApartFiles():
            apart_files.run(request, channel)
        case requests.Dump(target=target):
            with container_turn.turn(target.container):
                dump.run(request, channel)
        case requests.CheckRequest():
            check.run(request, channel)
        case requests.EndRequest():
            ending.run(request, channel)
        case requests.HostName():
            host_name.run(request, channel)
        case requests.Mend():
            repair.run(request, channel)
        case requests.Confine():
            confine.run(request, channel)
        case requests.Attempts():
            confine.attempts(request, channel)
        case requests.LeaseGate():
            confine.lease(request, channel)
        case requests.Room():
            rooms.serve(request, channel)
        case requests.Restore(target=target):
            with container_turn.turn(target.container):
                restore.run(request, channel)


def _greet(container: str | None, channel: HostChannel) -> None:
    if container is not None:
        with container_turn.turn(container):
            pass
    channel.send("done", protocol=requests.PROTOCOL, **host_features.versions())


def _describe(request: requests.Describe, channel: HostChannel) -> None:
    source = ImageFolder(folders.staged(request.folder))
    decoded = decode(source)
    if request.ours:
        channel.send("done", tree=decoded, strange=audit.hindrances(request, source))
    else:
        channel.send("done", tree=decoded, strange=strange(source, foreign=True), filters=_filters(source))


def _filters(source: ImageFolder) -> dict[str, str]:
    filters = [one for entry in source.messages("seccomp") for one in entry.seccomp_filters]
    return credentials.programs(filters)


def _keep_files(request: requests.CopyFiles, channel: HostChannel) -> None:
    tree.check_container(request.init_pid, request.container)
    if not request.last:
        kept = keep.begin(request.init_pid, request.folder, request.flatten)
    elif (copy := keep.begun(request.init_pid, request.folder)) is None:
        kept = False
    else:
        keep.complete(copy, request.init_pid, Deadline(request.limit))
        copy.save()
        kept = True
    folders.give_to_owner(folders.staging(request.folder))
    channel.send("done", kept=kept)

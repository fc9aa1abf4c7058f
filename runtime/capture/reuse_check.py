"""The check that nothing has happened in a session since its last live snapshot, which is then reused.

A snapshot leaves a note if the session was still right before and right after it: every task in the same
call, and no request in between that could change anything. If all of that equals the note at the next one,
the new snapshot shares everything with the last. Anything that is not known counts as a change.

Not detected: writes of host processes into a tmpfs of the session, and changes in mounted folders.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import polling
from holdfast.errors import GuestDisconnected, GuestError, HoldfastError
from holdfast.runtime.capture import quiescence
from holdfast.runtime.capture.capture_record import SupervisorCounters
from holdfast.runtime.capture.quiescence import ContainerSample
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.sessions import identity_messages

if TYPE_CHECKING:
    from holdfast.engine.container_state import ContainerState
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow

LOOKS = 8
PAUSE = 0.004
"""Seconds between two samples that must agree."""
REPLY_SECONDS = 2.0
"""The longest time the supervisor can take to listen again after a capture; on an idle machine it takes 10
ms.
"""
MOST_FILES = 20_000
"""Entries of the session's layer above which a search for changes takes longer than it saves."""
_OWN = "var/lib/holdfast"
_LOOPBACK = re.compile(r"[0-9A-F]{6}7F:|0{24}01000000:|0{16}FFFF0000[0-9A-F]{6}7F:")
"""127.0.0.0/8, ::1 and IPv4-mapped 127.0.0.0/8, as in proc_pid_net(5) on machines of this byte order."""
_NETWORK = ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "udplite", "udplite6")


class ReuseWatch:
    """The watch over one capture: created right before it, evaluated after it."""

    def __init__(self, container: ContainerState, layers: Sequence[Path], run_dir: Path) -> None:
        """Take a sample. `layers` are the container's, its own first; without them files are not watched."""
        self._container = container
        self._layer = os.fspath(layers[0]) if layers else ""
        self._run_dir = run_dir
        self._client = GuestClient(run_dir)
        self._at = time.time()
        self._before: ContainerSample | None = None
        try:
            self._done = done(self._client.request("moment"))
            self._traffic = network(container.pid)
            self._before = quiet(container.pid, self._done["supervisor_pid"])
        except (GuestError, OSError):
            return

    @property
    def was_still(self) -> bool:
        """Whether the session was still before the capture; otherwise `after` has nothing to note."""
        return self._before is not None

    def after(self) -> dict[str, Any]:
        """Return the note for the snapshot's details; empty if the session was not still all the time."""
        before = self._before
        if before is None or not self._layer:
            return {}
        try:
            self._awaited()
            if identity_messages.hooks(
                self._run_dir
            ):  # they do something in the session that the capture lacks
                return {}
            now = done(self._client.request("moment"))
            look = quiet(self._container.pid, now["supervisor_pid"])
            asked = any(now[key] != self._done[key] for key in ("requests", "offsets"))
            if asked or look is None or look.places() != before.places() or quiescence.clocked(look):
                return {}
            counters = counted(self._container.pid)
            if network(self._container.pid) != self._traffic or done(self._client.request("moment")) != now:
                return {}
        except (GuestError, OSError):
            return {}
        fields = {"init_pid": self._container.pid, "layer": self._layer, "traffic": self._traffic}
        fields["counters"] = counters
        return {**fields, "look": look.encode(), "done": now, "at": self._at}

    def _awaited(self) -> None:
        """Wait until the supervisor listens again."""
        polling.while_raising(GuestDisconnected, lambda: self._client.request("moment"), REPLY_SECONDS, PAUSE)


def quiet(init_pid: int, supervisor: int) -> ContainerSample | None:
    """Return the second of two consecutive samples that are still and equal; None if there are none soon."""
    before: ContainerSample | None = None
    for _ in range(LOOKS):
        now = quiescence.look(init_pid, supervisor)
        if now is None:
            return None
        if now.still and before is not None and now.same(before):
            return now
        before = now
        time.sleep(PAUSE)
    return None


def done(frame: Frame) -> dict[str, Any]:
    """Return a supervisor's counters: journal entries, requests, output.

    Raises:
        ProtocolError: they are not valid.
    """
    return SupervisorCounters.of(frame.head).model_dump(exclude={"at"})


def since(context: Context, session: SessionRow) -> tuple[SnapshotRow, Frame] | None:
    """Return a session's last live snapshot and its supervisor's reply, if nothing has happened since."""
    try:
        last = context.store.latest_snapshot(session.id)
        note = last.details.note if last is not None else None
        if last is None or last.state != "ready" or note is None:
            return None
        if last.details.dropped:  # it lacks the descriptors that were left out
            return None
        # The container is the same if its processes are: pids with their start times.
        init_pid, supervisor = int(note["init_pid"]), int(note["done"]["supervisor_pid"])
        moment = GuestClient(context.home.run_dir(session.id)).request("moment")
        look = quiescence.look(init_pid, supervisor)
        if look is None or not look.still or not look.same(quiescence.decode(note["look"])):
            return None
        if done(moment) != note["done"]:
            return None
        # No packet came or went; otherwise listing the possible receivers takes the kernel milliseconds.
        if counted(init_pid) != note.get("counters") and network(init_pid) != note["traffic"]:
            return None
        return None if touched(Path(note["layer"]), float(note["at"])) else (last, moment)
    except (HoldfastError, OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def touched(upper: Path, since: float) -> bool:
    """Check whether a file of the session's layer was changed after a time, even by `docker cp`.

    The supervisor's own files are left out: its writes are known otherwise.

    Raises:
        OSError: the layer cannot be read.
    """
    waiting, left, own = [os.fspath(upper)], MOST_FILES, os.path.join(upper, _OWN)  # noqa: PTH118
    while waiting:
        folder = waiting.pop()
        if folder == own:
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if left < 0 or entry.stat(follow_symlinks=False).st_ctime > since:
                    # The parents of the supervisor's folder change with it.
                    if (left >= 0 and own.startswith(entry.path + os.sep)) or entry.path == own:
                        waiting.append(entry.path)
                        continue
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return False


def counted(init_pid: int) -> str:
    """Return the number of packets of each network device, including those within the session.

    Raises:
        OSError: they cannot be read.
    """
    return Path(f"/proc/{init_pid}/net/dev").read_text()


def network(init_pid: int) -> str:
    """Return the traffic so far if others can reach a socket of the session; empty if they cannot.

    Sockets that only the session itself can reach include those of the engine's name server.

    Raises:
        OSError: the tables cannot be read.
    """
    base = Path(f"/proc/{init_pid}/net")
    for name in _NETWORK:
        path = base / name
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        if not all(_LOOPBACK.match(line.split()[1]) for line in lines):
            return counted(init_pid)
    return ""

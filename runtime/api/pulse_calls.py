"""The pulse of a session: requests to the supervisor, and to the engine."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.errors import InvalidArgument, PortClosed, ProtocolError
from holdfast.runtime.api.terminal_handle import SessionTerminal
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_value import Count, GuestValue, listed
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.history.drift import observe_session
from holdfast.runtime.pulse.facts import Socket
from holdfast.runtime.pulse.limits import Disk, Lineage
from holdfast.runtime.pulse.limits import disk as summed
from holdfast.runtime.pulse.pulse import Listener, Port, Probe, Pulse

if TYPE_CHECKING:
    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

PORT_PAUSE = 0.2
"""Seconds between two looks at a port; each connects to it."""

# The most paths whose sizes the session returns in one reply.
MOST_PATHS = 20_000


class Sizes(GuestValue):
    """The sizes of files, in the order of the request; None for a path that is not a file."""

    sizes: Annotated[list[Count | None], listed(MOST_PATHS)]


def look(
    line: SessionChannel,
    row: SessionRow,
    *,
    parts: Sequence[str] | None = None,
    files: bool = False,
    pid: int | None = None,
    file: str | None = None,
) -> Pulse:
    """Take the pulse once; raises as `Session.pulse` does."""
    args: dict[str, Any] = {"files": files}
    if parts is not None:
        args["parts"] = list(parts)
    if pid is not None:
        args["pid"] = pid
    if file is not None:
        if "\0" in file or not file:
            raise InvalidArgument("cannot search for that file: it is not a path")
        args["file"] = file
    return Pulse.of(wire_fields.body(_ask(line, "pulse", **args)), lineage(row), pid)


def lineage(row: SessionRow) -> Lineage:
    """Return the origin of a session, as recorded in the store."""
    return Lineage(
        session=row.id,
        name=row.name,
        generation=row.generation,
        parent_snapshot=row.parent_snapshot_id,
        image=row.image_name,
        created_at=row.created_at.isoformat(),
    )


def port(line: SessionChannel, row: SessionRow, number: int, *, speak: bool = True) -> Port:
    """Find the process that listens at a port, and try the port."""
    if not 0 < number < 65536:
        raise InvalidArgument(f"cannot inspect port {number}: ports range from 1 to 65535")
    pulse = look(line, row, parts=("processes", "sockets"))
    return Port(number, tuple(tried(line, pulse, socket, speak=speak) for socket in pulse.listening(number)))


def wait_port(
    line: SessionChannel, row: SessionRow, number: int, *, patience: float | Patience | None
) -> Port:
    """Wait until a port accepts connections; raises as `Session.wait_port` does."""
    waiting = Patience.of(patience)
    waiting.begin()
    began = time.monotonic()
    while not (found := port(line, row, number, speak=False)).answers:
        if waiting.over:
            raise PortClosed(
                f"cannot use port {number}: no program has accepted connections there for "
                f"{time.monotonic() - began:.0f} s",
                hint=(
                    "`holdfast pulse` shows what listens; only servers on loopback or on all "
                    "addresses are seen"
                ),
            )
        time.sleep(PORT_PAUSE)
    return found


def tried(line: SessionChannel, pulse: Pulse, socket: Socket, *, speak: bool) -> Listener:
    """Return a listener with its process, and how its port answers."""
    process = pulse.process(socket.owners[0].pid) if socket.owners else None
    if not socket.protocol.startswith("tcp"):
        return Listener(socket, process)
    found = probe(line, socket, speak=speak)
    return Listener(socket, process, found.answer, found.http_status, found.first_line)


def probe(line: SessionChannel, socket: Socket, *, speak: bool, page: bool = False) -> Probe:
    """Connect to a TCP listener once; `speak` asks a web server for its status, `page` for its page."""
    where = socket.local or "127.0.0.1"
    answer = _ask(line, "probe", port=socket.local_port, address=where, speak=speak, page=page)
    return Probe.of(wire_fields.body(answer))


def with_disk(context: Context, line: SessionChannel, row: SessionRow, pulse: Pulse) -> Pulse:
    """Add the files written since the image. The engine compares all files, which takes a while."""
    return dataclasses.replace(pulse, disk=_disk(context, line, row))


def with_drift(pulse: Pulse, drift: Drift) -> Pulse:
    """Add the files that changed since the instant of a drift. The drift itself reports the rest."""
    names = {"new": 1, "changed": 0, "deleted": 2}
    changes = [(file.path, names[file.change]) for file in drift.files if not file.folder]
    sizes = {file.path: file.size for file in drift.files if not (file.folder or file.change == "deleted")}
    since = drift.since.label
    return dataclasses.replace(pulse, disk=summed(since, sum(sizes.values()), changes, sizes))


def with_screens(line: SessionChannel, pulse: Pulse) -> Pulse:
    """Add the terminals' screens."""
    drawn = (SessionTerminal(line, each.shell).screen().text for each in pulse.terminals)
    terminals = tuple(
        each.model_copy(update={"screen": text}) for each, text in zip(pulse.terminals, drawn, strict=True)
    )
    return dataclasses.replace(pulse, terminals=terminals)


def _disk(context: Context, line: SessionChannel, row: SessionRow) -> Disk:
    container = row.container_id or ""
    changes = observe_session.differing(context.engine, container)
    asked = [path for path, kind in changes if kind != 2][:MOST_PATHS]
    answer = _ask(line, "sizes", json.dumps(asked).encode())
    known = Sizes.of({"sizes": wire_fields.json_of(answer)}).sizes
    if len(known) != len(asked):
        raise ProtocolError("cannot understand the session: its answer lacks the sizes of files")
    sizes = {path: size for path, size in zip(asked, known, strict=True) if size is not None}
    return summed(f"the image {row.image_name}", context.engine.files.written(container), changes, sizes)


def _ask(line: SessionChannel, op: str, payload: bytes = b"", **args: Any) -> Frame:
    """Send a request that is safe to repeat."""
    with line.explained():
        return line.reconnection().run(lambda: line.client().request(op, payload=payload, **args))

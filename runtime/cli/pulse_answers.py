"""Answers to one question about a session, as text: a port, a process, a file. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from holdfast.base.text import seconds, size
from holdfast.runtime.pulse.pulse import AskedFile, Listener, Port, Pulse
from holdfast.runtime.pulse.pulse_text import (
    COMMAND,
    ORIGIN,
    file_line,
    process_line,
    short,
    socket_line,
)


def port(found: Port) -> Iterator[str]:
    """Return the lines on a port's listeners, and whether they answer."""
    if not found.listeners:
        yield f"port {found.port}: nothing listens"
    for listener in found.listeners:
        yield _listener(found.port, listener)


def _listener(number: int, listener: Listener) -> str:
    socket, process = listener.socket, listener.process
    parts = [f"port {number}: {socket.protocol} at {socket.local}"]
    if process is not None:
        parts.append(f"{short(process.command, COMMAND)} (pid {process.pid}, {process.user})")
        parts.append(f"started {seconds(process.age)} ago")
        if process.origin is not None and process.origin.kind in ("command", "cell", "job"):
            parts.append(
                f"by {process.origin.kind} {short(process.origin.command or process.origin.id, ORIGIN)}"
            )
    match listener.answer:
        case "accepted":
            parts.append("answers" + (f": {listener.first_line}" if listener.first_line else ""))
        case "timeout":
            parts.append("does not answer")
        case None:
            pass
        case other:
            parts.append(other)
    if socket.receive_queue:
        parts.append(f"{socket.receive_queue} connections wait to be accepted")
    return " · ".join(parts)


def process(pulse: Pulse, pid: int) -> Iterator[str]:
    """Return the lines on one process."""
    found, detail = pulse.process(pid), pulse.detail
    if found is None:
        yield f"process {pid}: there is none"
        return
    yield process_line(found)
    yield f"  state {found.state} · parent {found.ppid} · group {found.group} · terminal {found.terminal}"
    if found.origin is not None:
        origin = found.origin
        started = " ".join(filter(None, (origin.kind, origin.id, origin.command)))
        yield f"  started by {started} ({origin.actor or '-'})"
    if detail is not None:
        yield f"  in {detail.cwd or '?'} · program {detail.exe or '?'} · waits in {detail.waits_in or '-'}"
        yield _table("memory", {"resident": found.resident, **detail.memory})
        yield _table("bytes", detail.io)
    children = pulse.children(pid)
    if children:
        yield f"  children {', '.join(f'{child.name} ({child.pid})' for child in children)}"
    yield from (f"  {line}" for line in _belongings(pulse, pid))


def _belongings(pulse: Pulse, pid: int) -> Iterator[str]:
    for socket in pulse.sockets:
        if socket.local_port is not None and any(owner.pid == pid for owner in socket.owners):
            yield socket_line(socket, pulse)
    yield from (file_line(file, pulse) for file in pulse.files if file.pid == pid)
    others = [f"{each.fd} {each.path}" for each in pulse.descriptors if each.pid == pid]
    if others:
        yield f"also open: {', '.join(others)}"
    if pid in pulse.unseen:
        yield "its open files cannot be seen: it changed its user"


def _table(name: str, values: Mapping[str, int]) -> str:
    columns = ", ".join(f"{key} {size(value)}" for key, value in values.items())
    return f"  {name}: {columns or 'not known'}"


def file(found: AskedFile, pulse: Pulse) -> Iterator[str]:
    """Return the lines on a file, and which processes have it open."""
    if found.exists:
        when = datetime.fromtimestamp(found.modified or 0, UTC).isoformat(timespec="seconds")
        about = f"{found.kind}, {size(found.size or 0)}, changed {when}"
    else:
        about = "there is none"
    yield f"{found.path}: {about}" + ("" if found.opened else "; no process has it open")
    yield from (f"  {file_line(each, pulse)}" for each in found.opened)

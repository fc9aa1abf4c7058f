"""Verb: pulse.

Exit codes: 0; 1 if no process listens at the port, there is no such process, no process has the file open, or
the session does not run; 3 if a process listens at the port and does not answer.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from holdfast.base.text import seconds, size
from holdfast.errors import InvalidArgument, SessionError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option
from holdfast.runtime.cli.reporting import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.session import Session
    from holdfast.runtime.pulse.pulse import AskedFile, Listener, Port, Pulse

NO_ANSWER = 3
SHORTEST = 0.2
# The second screen of a terminal (smcup, rmcup), its cursor, and the first line. See xterm's ctlseqs.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, TO_LINE_END, TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"


@examples("pulse work", "pulse work --port 8000   # exits with 3 if nothing listens", "pulse work -w")
def pulse(
    session: str = SESSION_REF,
    port: int | None = option(help="Show the listener at this port, and whether it answers."),
    pid: int | None = option(help="Show everything about this process."),
    file: str | None = option(metavar="PATH", help="Show the processes that have this file open."),
    files: bool = option("--files", help="List every open file of every process."),
    disk: bool = option("--disk", help="Include files written since the image."),
    since: str | None = option(metavar="MOMENT", help="Like --disk, but since this moment (see `drift`)."),
    screen: bool = option("--screen/--no-screen", default=True, help="Include the terminals' screens."),
    watch: bool = option("--watch", "-w", help="Refresh until C-c."),
    interval: float = option(default=1.0, metavar="S", help="Seconds between checks."),
    json: bool = JSON,
) -> None:
    """Show the activity in a session: processes, files, sockets, terminals, kernels, limits."""
    if sum(each is not None for each in (port, pid, file)) + watch > 1:
        raise InvalidArgument(
            "cannot show several things in one call", hint="give one of --port, --pid, --file and --watch"
        )
    found, as_json = controller().session(session), wants_json(json)
    try:
        if port is not None:
            _port(found, port, as_json=as_json)
        elif pid is not None:
            _process(found, pid, as_json=as_json)
        elif file is not None:
            _file(found, file, as_json=as_json)
        elif watch:
            _watch(found, max(interval, SHORTEST), as_json=as_json, screens=screen)
        else:
            _show(found.pulse(files=files, disk=disk, since=since, screens=screen), as_json=as_json)
    except SessionError as error:
        if found.refresh().state in ("running", "creating"):
            raise
        _not_running(found, error, as_json=as_json)


def _show(pulse: Pulse, *, as_json: bool) -> None:
    from holdfast.runtime.pulse import pulse_text

    if as_json:
        printing.emit(pulse.as_dict())
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        printing.say("\n".join(pulse_text.whole(pulse, width=width)))


def _port(session: Session, number: int, *, as_json: bool) -> None:

    found = session.port(number)
    if as_json:
        printing.emit({"id": session.id, "name": session.name, **found.as_dict()})
    else:
        printing.say("\n".join(port_lines(found)))
    if not found.listeners:
        raise Exit(1)
    tried = any(listener.answer is not None for listener in found.listeners)
    raise Exit(NO_ANSWER if tried and not found.answers else 0)


def _process(session: Session, pid: int, *, as_json: bool) -> None:

    found = session.pulse(parts=("processes", "files", "sockets"), pid=pid)
    process = found.process(pid)
    if as_json:
        about = _only(found, pid).as_dict()
        printing.emit({**about, "process": process and process.model_dump()})
    else:
        printing.say("\n".join(process_lines(found, pid)))
    raise Exit(1 if process is None else 0)


def _only(pulse: Pulse, pid: int) -> Pulse:
    """Return the report limited to one process and its children."""
    return dataclasses.replace(
        pulse,
        processes=tuple(each for each in pulse.processes if pid in (each.pid, each.ppid)),
        files=tuple(each for each in pulse.files if each.pid == pid),
        descriptors=tuple(each for each in pulse.descriptors if each.pid == pid),
        sockets=tuple(each for each in pulse.sockets if any(owner.pid == pid for owner in each.owners)),
    )


def _file(session: Session, path: str, *, as_json: bool) -> None:

    found = session.pulse(parts=("processes", "files"), file=path)
    assert found.file is not None
    if as_json:
        users = {each.pid for each in found.file.opened}
        known = [each.model_dump() for each in found.processes if each.pid in users]
        about = {"id": session.id, "name": session.name, "processes": known}
        printing.emit({**about, **found.file.as_dict()})
    else:
        printing.say("\n".join(file_lines(found.file, found)))
    raise Exit(0 if found.file.opened else 1)


def _watch(session: Session, interval: float, *, as_json: bool, screens: bool) -> None:
    """Refresh until Ctrl-C, which is not an error here."""
    from holdfast.runtime.pulse import pulse_text

    in_place = sys.stdout.isatty() and not as_json
    if in_place:
        sys.stdout.write(ENTER)
    try:
        while True:
            found = session.pulse(screens=screens)
            if as_json:
                printing.emit(found.as_dict())
            elif in_place:
                rows, cols = shutil.get_terminal_size()[::-1]
                lines = "\n".join(pulse_text.whole(found, width=cols, most=max(5, rows - 15))).split("\n")
                shown = [f"{line}{TO_LINE_END}" for line in lines[: rows - 1]]
                sys.stdout.write(HOME + "\r\n".join(shown) + TO_SCREEN_END)
            else:
                sys.stdout.write("\n".join(pulse_text.whole(found)) + "\n\n")
            sys.stdout.flush()
            time.sleep(interval)
    except KeyboardInterrupt:
        return
    finally:
        if in_place:
            sys.stdout.write(LEAVE)
            sys.stdout.flush()


def _not_running(session: Session, error: SessionError, *, as_json: bool) -> None:
    """Show the store's knowledge of a session that does not run."""
    from holdfast.runtime.pulse.limits import Lineage

    told = session.as_dict()
    known = Lineage(
        session=session.id,
        name=session.name,
        generation=told["generation"],
        parent_snapshot=session.parent_snapshot_id,
        image=session.image,
        created_at=told["created_at"],
    )
    if as_json:
        about: dict[str, Any] = {"id": session.id, "name": session.name, "state": session.state}
        printing.emit({**about, "lineage": dataclasses.asdict(known), "hint": error.hint})
    else:
        parts = [f"{session.name} is {session.state}", f"made {known.created_at[:19]}", known.image]
        if known.parent_snapshot:
            parts.append(f"generation {known.generation}, from snapshot {known.parent_snapshot}")
        printing.say(" · ".join([*parts, error.hint]))
    raise Exit(1)


def port_lines(found: Port) -> Iterator[str]:
    """Return the lines on a port's listeners, and whether they answer."""
    if not found.listeners:
        yield f"port {found.port}: nothing listens"
    for listener in found.listeners:
        yield _listener(found.port, listener)


def _listener(number: int, listener: Listener) -> str:
    from holdfast.runtime.pulse import pulse_text

    socket, process = listener.socket, listener.process
    parts = [f"port {number}: {socket.protocol} at {socket.local}"]
    if process is not None:
        parts.append(
            f"{pulse_text.short(process.command, pulse_text.COMMAND)} (pid {process.pid}, {process.user})"
        )
        parts.append(f"started {seconds(process.age)} ago")
        if process.origin is not None and process.origin.kind in ("command", "cell", "job"):
            cause = pulse_text.short(process.origin.command or process.origin.id, pulse_text.ORIGIN)
            parts.append(f"by {process.origin.kind} {cause}")
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


def process_lines(pulse: Pulse, pid: int) -> Iterator[str]:
    """Return the lines on one process."""
    from holdfast.runtime.pulse import pulse_text

    found, detail = pulse.process(pid), pulse.detail
    if found is None:
        yield f"process {pid}: there is no such process"
        return
    yield pulse_text.process_line(found)
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
    from holdfast.runtime.pulse import pulse_text

    for socket in pulse.sockets:
        if socket.local_port is not None and any(owner.pid == pid for owner in socket.owners):
            yield pulse_text.socket_line(socket, pulse)
    yield from (pulse_text.file_line(file, pulse) for file in pulse.files if file.pid == pid)
    others = [f"{each.fd} {each.path}" for each in pulse.descriptors if each.pid == pid]
    if others:
        yield f"also open: {', '.join(others)}"
    if pid in pulse.unseen:
        yield "its open files cannot be seen: it changed its user"


def _table(name: str, values: Mapping[str, int]) -> str:
    columns = ", ".join(f"{key} {size(value)}" for key, value in values.items())
    return f"  {name}: {columns or 'not known'}"


def file_lines(found: AskedFile, pulse: Pulse) -> Iterator[str]:
    """Return the lines on a file, and which processes have it open."""
    from holdfast.runtime.pulse import pulse_text

    if found.exists:
        when = datetime.fromtimestamp(found.modified or 0, UTC).isoformat(timespec="seconds")
        about = f"{found.kind}, {size(found.size or 0)}, changed {when}"
    else:
        about = "there is none"
    yield f"{found.path}: {about}" + ("" if found.opened else "; no process has it open")
    yield from (f"  {pulse_text.file_line(each, pulse)}" for each in found.opened)

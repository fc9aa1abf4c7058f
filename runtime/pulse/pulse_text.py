"""The pulse as text for people and for an agent's context: few words, one screen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.base.text import seconds, size
from holdfast.runtime.guest.layout import STATE_DIR
from holdfast.runtime.pulse.facts import Kernel, OpenFile, Origin, Process, Socket, Terminal, Variable
from holdfast.runtime.pulse.limits import Disk, Limits
from holdfast.runtime.pulse.pulse import Pulse

# What fits on a screen of 40 lines besides the processes of a session at work.
MOST_PROCESSES = 30
MOST_FILES = 8
MOST_SOCKETS = 10
MOST_NAMES = 12
SCREEN_LINES = 5
COMMAND = 100
ORIGIN = 50
# Where Docker answers for names; the sockets are its own, in the network of the session.
RESOLVER = "127.0.0.11"
STATES = {"running": "R", "sleeping": "S", "disk": "D", "stopped": "T", "traced": "t", "zombie": "Z"}


def whole(pulse: Pulse, *, width: int | None = None, most: int = MOST_PROCESSES) -> list[str]:
    """Return the whole report, in lines of at most `width` characters."""
    lines = [_head(pulse)]
    if pulse.limits is not None:
        lines.append(_limits(pulse.limits))
    for terminal in pulse.terminals:
        lines += _terminal(terminal, pulse.at)
    lines += [_kernel(kernel, pulse.at) for kernel in pulse.kernels]
    if pulse.processes:
        lines += ["", *processes(pulse, most)]
    lines += [*_sockets(pulse), *_files(pulse), *(_disk(pulse.disk) if pulse.disk else [])]
    return [line if width is None or len(line) <= width else line[: width - 1] + "…" for line in lines]


def short(text: str, most: int) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _head(pulse: Pulse) -> str:
    lineage = pulse.lineage
    parts = [pulse.name]
    if pulse.uptime is not None:
        parts.append(f"up {seconds(pulse.uptime)}")
    if lineage.parent_snapshot:
        parts.append(f"generation {lineage.generation}, from snapshot {lineage.parent_snapshot}")
    return " · ".join([*parts, f"took {pulse.took * 1000:.0f} ms"])


def _limits(limits: Limits) -> str:
    memory, pids, cpu = limits.memory, limits.pids, limits.cpu
    parts = [f"memory {_of(memory.used, memory.limit)}"]
    if memory.oom_kills:
        parts[0] += f", {memory.oom_kills} killed for lack of memory"
    parts.append(f"processes and threads {pids.current} of {pids.limit or 'any'}")
    if pids.refused:
        parts[-1] += f", {pids.refused} starts refused"
    parts.append(f"processors {cpu.limit or limits.processors or '?'}")
    waits = [
        f"{name} {spans['some_avg10']:.0f}%"
        for name, spans in limits.pressure.items()
        if "some_avg10" in spans
    ]
    if waits:
        whose = "" if limits.pressure_of == "session" else " of the machine"
        parts.append(f"pressure{whose} {' '.join(waits)}")
    return " · ".join(parts)


def _of(used: int | None, limit: int | None) -> str:
    shown = "?" if used is None else size(used)
    return shown if limit is None else f"{shown} of {size(limit)}"


def _terminal(terminal: Terminal, now: float) -> Iterator[str]:
    parts = [f"shell {terminal.shell}: {terminal.observed.phrase(now)}", f"{terminal.rows}x{terminal.cols}"]
    if terminal.modes is not None and terminal.observed.state != "idle":
        parts.append("raw" if terminal.modes.raw else f"echo {'on' if terminal.modes.echo else 'off'}")
    if terminal.holder:
        parts.append(f"held by {terminal.holder}")
    if terminal.attached:
        parts.append(f"attached {', '.join(terminal.attached)}")
    if terminal.alternate_screen:
        parts.append("full screen")
    yield " · ".join([*parts, terminal.cwd])
    shown = [line for line in (terminal.screen or "").splitlines() if line.strip()]
    yield from (f"  | {line}" for line in shown[-SCREEN_LINES:])


def _kernel(kernel: Kernel, now: float) -> str:
    # An idle kernel needs no more; a busy one computes, sleeps, or waits for an answer.
    does = kernel.state if kernel.state != "busy" else f"busy, {kernel.observed.phrase(now)}"
    head = f"kernel {kernel.name}: {does} · cell {kernel.execution_count}"
    found = kernel.variables
    if found is None:
        return head
    if not found.rows:
        return f"{head} · {found.note}" if found.note else f"{head} · no names"
    values = [row for row in reversed(found.rows) if row.kind in ("value", "class", "function")]
    modules = [row.name for row in found.rows if row.kind == "module"]
    shown = [_variable(row) for row in values[:MOST_NAMES]]
    more = len(values) - len(shown) + found.left_out
    shown += [f"{more} more"] if more else []
    shown += [f"modules {', '.join(modules[:MOST_NAMES])}"] if modules else []
    stale = "" if found.current else f" as of cell {found.as_of}"
    return f"{head} · names{stale}: {'; '.join(shown)}"


def _variable(row: Variable) -> str:
    kind = row.kind if row.kind != "value" else row.type.rpartition(".")[2]
    if row.shape is not None:
        kind += f" {'x'.join(map(str, row.shape))}" + (f" {row.dtype}" if row.dtype else "")
    elif row.length is not None:
        kind += f" {row.length}"
    return f"{row.name} {kind}"


def processes(pulse: Pulse, most: int) -> Iterator[str]:
    """Return the tree; if it is too large, without the children of processes that were cut."""
    yield f"{'PID':>6} {'USER':8} S {'CPU%':>5} {'MEM':>7} {'AGE':>7}  COMMAND"
    rows, named = list(pulse.tree()), set[Origin | None]()
    for depth, process in rows[:most]:
        # A command is named once, where it begins.
        yield process_line(process, depth, by=process.origin not in named)
        named.add(process.origin)
    missing = len(rows) - most + pulse.left_out.processes if len(rows) > most else pulse.left_out.processes
    if missing > 0:
        yield f"       and {missing} more"


def process_line(process: Process, depth: int = 0, *, by: bool = True) -> str:
    """Return the line of a process, with the command, cell or job that started it."""
    state = STATES.get(process.state, process.state[:1].upper())
    origin, begun = process.origin, ""
    if by and origin is not None and origin.kind in ("command", "cell", "job"):
        begun = f"  < {origin.kind} {short(origin.command or origin.id, ORIGIN)}"
    used = f"{process.cpu_percent:>5.1f} {size(process.resident):>7} {seconds(process.age):>7}"
    what = f"{'  ' * depth}{short(process.command, COMMAND)}{begun}"
    return f"{process.pid:>6} {process.user[:8]:8} {state} {used}  {what}"


def _sockets(pulse: Pulse) -> Iterator[str]:
    listening = [each for each in pulse.listening() if each.local != RESOLVER]
    shown = 0
    connected = [each for each in pulse.sockets if each.remote_port and each.state != "time_wait"]
    for socket in [*listening, *connected]:
        if shown == MOST_SOCKETS:
            break
        yield ("\n" if not shown else "") + socket_line(socket, pulse)
        shown += 1
    named = sum(each.protocol == "unix" and each.listening for each in pulse.sockets)
    rest = len(listening) + len(connected) - shown
    more = [f"{rest} more"] * (rest > 0) + [f"{named} unix sockets listen"] * (named > 0)
    if more and (shown or rest):
        yield f"sockets: and {', '.join(more)}"


def socket_line(socket: Socket, pulse: Pulse) -> str:
    """Return the line of an internet socket, with its owners."""
    local = _place(socket.local, socket.local_port)
    where = (
        f"listens {local}" if socket.listening else f"{local} - {_place(socket.remote, socket.remote_port)}"
    )
    state = "" if socket.listening else f" {socket.state}"
    owners = [_named(pulse.process(owner.pid), owner.pid) for owner in socket.owners]
    waiting = f" · {socket.receive_queue} waiting" if socket.receive_queue else ""
    return f"{socket.protocol} {where}{state} · {', '.join(owners) or 'owner unknown'}{waiting}"


def _place(host: str | None, port: int | None) -> str:
    return f"[{host}]:{port}" if host and ":" in host else f"{host or '*'}:{port}"


def _named(process: Process | None, pid: int) -> str:
    return f"{process.name if process else 'process'} ({pid})"


def _files(pulse: Pulse) -> Iterator[str]:
    # Files being written, locked or deleted; a file that is only read says little.
    found = [each for each in pulse.files if each.locks or each.deleted or "w" in each.access]
    found = [each for each in found if each.kind in ("file", "memory") and not _ours(each, pulse)]
    if found:
        yield ""
    yield from (file_line(each, pulse) for each in found[:MOST_FILES])
    rest = len(found) - MOST_FILES
    if rest > 0:
        yield f"files: and {rest} more are written, locked or deleted"


def _ours(file: OpenFile, pulse: Pulse) -> bool:
    process = pulse.process(file.pid)
    if file.path.startswith(f"{STATE_DIR}/"):
        return True
    return process is not None and process.origin is not None and process.origin.kind == "supervisor"


def file_line(file: OpenFile, pulse: Pulse) -> str:
    """Return the line of an open file: access, offset, locks, and owner."""
    parts = [f"{file.access} at {file.offset} of {'?' if file.size is None else file.size}"]
    parts += [f"{lock.mode} lock ({lock.kind})" for lock in file.locks]
    parts += ["deleted"] * file.deleted
    return f"{file.path} · {', '.join(parts)} · {_named(pulse.process(file.pid), file.pid)} fd {file.fd}"


def _disk(disk: Disk) -> Sequence[str]:
    counts = f"{disk.added} added, {disk.changed} changed, {disk.deleted} deleted"
    return [
        "",
        f"written since {disk.since}: {size(disk.bytes)}; files {counts}",
        *(f"  {size(each.bytes or 0):>7} {each.kind:7} {each.path}" for each in disk.top),
    ]

"""Gathers the pulse of a session in one pass over `/proc` that takes a few milliseconds.

Thin: the parsers know what the texts mean. It yields to the loop in between, so that no command waits for a
pulse, however many processes there are.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import termios
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.base.value_classes import replace
from holdfast.procfs import socket_tables
from holdfast.procfs.process_stat import Stat
from holdfast.procfs.socket_tables import SocketRow
from holdfast.runtime.guest.pulse import access, cgroup_limits, descriptors, processes, sockets
from holdfast.runtime.guest.pulse.descriptors import DescriptorTable, ScanBounds
from holdfast.runtime.guest.shells.terminal import command_of

if TYPE_CHECKING:
    from holdfast.kernels.guest.kernel import RunningKernel
    from holdfast.runtime.guest.guest import Guest
    from holdfast.runtime.guest.shells.shell import Shell
    from holdfast.runtime.guest.shells.shell_access import ShellAccess

PARTS = ("processes", "files", "sockets", "limits", "terminals", "kernels", "variables")
TURN = 0.002
"""Seconds without yielding to the loop."""
MAX_PROCESSES = 4096
"""Number of processes a session can have by default."""
MAX_SOCKETS = 2000
BRIEF = ScanBounds(links=1024, files=64)
WHOLE = ScanBounds(links=16384, files=2000, others=True)
MAX_FILES = 8000
KERNEL_PATIENCE = 0.25
"""Seconds an idle kernel has to list its names. It takes 5 ms."""


class PulseGatherer:
    """Gathers pulses, and remembers the processor times of the last one."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._usage = processes.Usage()
        self._users: dict[int, str] = {}
        self._turn = 0.0

    async def gather(self, parts: frozenset[str], wanted: ScanBounds = BRIEF) -> dict[str, Any]:
        """Return the requested parts."""
        guest = self._guest
        began = self._turn = time.perf_counter()
        found: dict[str, Any] = {"at": time.time()}
        kernels = None
        if "kernels" in parts:
            # Query the kernels first: they answer while the rest is gathered.
            kernels = asyncio.gather(
                *(_kernel(kernel, variables="variables" in parts) for kernel in guest.kernels.values())
            )
            await asyncio.sleep(0)
        if parts & {"processes", "files", "sockets"}:
            less = wanted if "files" in parts else replace(wanted, files=0, others=False)
            found.update(await self._processes(parts, less))
        if "limits" in parts:
            found["limits"] = cgroup_limits.look()
            memory = found["limits"]["memory"]
            memory["oom_kills"] = guest.watch.own_kills(memory["oom_kills"])
        if "terminals" in parts:
            found["terminals"] = [
                described_terminal(shell, guest.accesses[name]) for name, shell in guest.shells.items()
            ]
        found["uptime"] = _uptime()
        identity = guest.identity
        found["lineage"] = {
            "session": identity.session,
            "name": identity.name,
            "generation": identity.generation,
        }
        found["took"] = time.perf_counter() - began
        if kernels is not None:
            found["kernels"] = await kernels
        return found

    async def _processes(self, parts: frozenset[str], wanted: ScanBounds) -> dict[str, Any]:
        self._guest.lineage.look()
        at = _boot_time()
        rows: list[dict[str, Any]] = []
        files: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        unseen, stats = [], []
        owners: dict[int, list[tuple[int, int]]] = {}
        files_left_out = 0
        pids = sorted(access.numbers("/proc"))
        for pid in pids[:MAX_PROCESSES]:
            await self._breathe()
            stat, who = access.stat(pid), access.owner(pid)
            if stat is None or who is None:
                continue  # it ended in the meantime
            stats.append(stat)
            row = self._row(stat, who[0], at)
            table = DescriptorTable()
            if parts & {"files", "sockets"}:
                for table in descriptors.look(pid, *who, wanted):  # noqa: B007  (the last one is kept)
                    await self._breathe()
            if table.count is None and stat.state != "Z":
                unseen.append(pid)
            row["descriptors"] = table.count
            rows.append(row)
            for number, fd in table.sockets.items():
                owners.setdefault(number, []).append((pid, fd))
            room = MAX_FILES - len(files)
            files += table.files[:room]
            others += table.others[: max(0, MAX_FILES - len(others))]
            files_left_out += table.left_out + max(0, len(table.files) - room)
        self._usage.looked(stats, at)
        found: dict[str, Any] = {}
        if "processes" in parts:
            found["processes"] = {"rows": rows, "left_out": max(0, len(pids) - MAX_PROCESSES)}
        if "files" in parts:
            found["files"] = {"rows": files, "others": others, "left_out": files_left_out, "unseen": unseen}
        if "sockets" in parts:
            found["sockets"] = await self._sockets(owners)
        return found

    def _row(self, stat: Stat, uid: int, at: float) -> dict[str, Any]:
        command = access.read(f"/proc/{stat.pid}/cmdline") if stat.state != "Z" else None
        return processes.row(
            stat,
            uid=uid,
            user=self._user(uid),
            command=processes.command_line(command or b""),
            usage=self._usage.percent(stat, at),
            at=at,
            origin=self._guest.lineage.origin(stat.pid),
        )

    async def _sockets(self, owners: dict[int, list[tuple[int, int]]]) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        left_out = 0
        tcp = sockets.tcp()
        tables = [tcp] if tcp is not None else [read_table("tcp"), read_table("tcp6")]
        # Unix sockets without a name say nothing; their inode number is among the descriptors.
        text = access.whole("/proc/net/unix") or b""
        unix = (one for one in socket_tables.unix(text) if one.local or one.state == "listening")
        for table in (*tables, read_table("udp"), read_table("udp6"), unix):
            for one in table:
                if len(rows) < MAX_SOCKETS:
                    rows.append({**sockets.row(one), **_owned(one.inode, owners)})
                else:
                    left_out += 1
            await self._breathe()
        return {"rows": rows, "left_out": left_out}

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            try:
                self._users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                return str(uid)
        return self._users[uid]

    async def _breathe(self) -> None:
        """Yield to the loop if it has not run for a while."""
        if time.perf_counter() - self._turn > TURN:
            await asyncio.sleep(0)
            self._turn = time.perf_counter()


async def _kernel(kernel: RunningKernel, *, variables: bool) -> dict[str, Any]:
    found = kernel.as_dict()
    for name in ("language", "cwd", "cell_id"):  # facts of `kernels`, not of what is going on
        del found[name]
    if variables:
        found["variables"] = (await kernel.variables(KERNEL_PATIENCE)).as_dict()
    return found


def read_table(name: str) -> Iterator[SocketRow]:
    """Yield the sockets of one of the tables of /proc/net."""
    return socket_tables.internet(access.whole(f"/proc/net/{name}") or b"", name)


def _owned(inode: int, owners: dict[int, list[tuple[int, int]]]) -> dict[str, Any]:
    who = owners.get(inode, ())
    return {"owners": [{"pid": pid, "fd": fd} for pid, fd in who]}


def _uptime() -> float | None:
    """Return the age of the container's first process."""
    first = access.stat(1)
    return None if first is None else round(max(0.0, _boot_time() - first.start), 2)


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def file_status(path: str) -> dict[str, Any] | None:
    """Return the state of a file (stat(2)), or None if there is no such file."""
    from holdfast.runtime.guest.pulse.descriptors import kind_of_mode

    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return {
        "kind": kind_of_mode(status.st_mode),
        "size": status.st_size,
        "modified": status.st_mtime,
        "mode": status.st_mode & 0o7777,
        "uid": status.st_uid,
        "device": status.st_dev,
        "inode": status.st_ino,
    }


def terminal_modes(attributes: list[Any] | None) -> dict[str, bool] | None:
    """Return the termios(3) settings that decide how typed text is processed; None if not known."""
    if attributes is None:
        return None
    local, output = attributes[3], attributes[1]
    canonical = bool(local & termios.ICANON)
    signals = bool(local & termios.ISIG)
    return {
        "echo": bool(local & termios.ECHO),
        "canonical": canonical,
        "signals": signals,
        "raw": not canonical and not signals and not output & termios.OPOST,
    }


def described_terminal(shell: Shell, shell_access: ShellAccess) -> dict[str, Any]:
    """Return the report of a shell and its terminal."""
    terminal, held, current = shell.terminal, shell.kept.state(), shell.current
    group = terminal.foreground() if terminal else None
    picture = shell.screen_modes.describe()
    return {
        "shell": shell.name,
        "pid": shell.pid,
        "name": (access.link(f"/proc/{shell.pid}/fd/0") or "").removeprefix("/dev/") or None,
        "rows": shell.size.rows,
        "cols": shell.size.columns,
        "modes": terminal_modes(_attributes(terminal.fd) if terminal else None),
        "foreground": group,
        "command": command_of(group),
        "exec": current.id if current else None,
        "observed": shell.watching.state().as_dict(),
        "alternate_screen": picture["entered"] is not None and picture["left"] is None,
        "cwd": shell.kept.cwd(),
        "variables": len(held.variables),
        "exported": sum(variable.exported for variable in held.variables.values()),
        "functions": len(held.functions),
        "aliases": len(held.aliases),
        "output_offset": shell.log.end,
        "holder": shell_access.lease.holder,
        "attached": [seat.actor for seat in shell_access.seats],
    }


def _attributes(fd: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None

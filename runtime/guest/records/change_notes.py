"""The state of the session besides files, and the record of the changes by each command and cell.

An entry `changed` soon follows the end of a command, so that the state of shells and kernels at any journal
entry, and which ports were open, can be computed later by undoing these. Nothing is written where nothing
changed. Values that look like secrets are masked here, so they never leave the session this way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from holdfast.kernels.guest.kernel import RunningKernel
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.origins import Origins
from holdfast.runtime.guest.pulse.sockets import ListeningSockets, listening_sockets
from holdfast.runtime.guest.records import masking
from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest.records.masking import MASK
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_state import ShellState, ShellVariable

SOON = 0.2
"""Seconds after a cell or command in which kernels and ports are looked at; later ones share the look."""
MOST = 200
"""Names listed in one entry, of each kind; `more` counts the rest."""
MOST_IDS = 16
_TABLES = ("variables", "functions", "aliases")

Pairs = dict[str, list[Any]]
PATIENCE = 5.0
"""Seconds an idle kernel can take to report its names, on a busy machine."""
MAX_PROCESSES = 2000
MAX_NAMES = 3000
SUBSHELL = "(subshell)"
"""Stands for a fork of a shell, whose command line is the shell's own."""
_COMMAND = 120

Named = dict[str, list[Any]]
"""Variables by name, each as attributes, size, digest, and the value to show or None."""


def processes(
    shells: Mapping[str, Shell], kernels: Mapping[str, RunningKernel], lineage: Origins
) -> list[dict[str, Any]]:
    """Return the processes of the session, with the role of the supervisor's own."""
    roles = dict.fromkeys((1, *lineage.adopters), "supervisor")
    roles |= {shell.pid: "shell" for shell in shells.values() if shell.pid}
    roles |= dict.fromkeys((pid for kernel in kernels.values() for pid in kernel.own_pids), "kernel")
    table = lineage.look()[:MAX_PROCESSES]
    ports = ListeningSockets().ports(frozenset(each.pid for each in table))
    started_as = {command_of(pid) for pid, role in roles.items() if role == "shell"}
    zero = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    found = []
    for each in table:
        origin = lineage.origin(each.pid) or {}
        command = command_of(each.pid)
        if command in started_as and each.pid not in roles:
            command = SUBSHELL
        found.append(
            {
                "pid": each.pid,
                "command": command,
                "started": round(zero + each.start, 2),
                "ports": list(ports.get(each.pid, ())),
                "role": roles.get(each.pid, ""),
                "origin": origin.get("id", ""),
            }
        )
    return found


def command_of(pid: int) -> str:
    """Return the command line a process was started with, shortened."""
    words = (access.read(f"/proc/{pid}/cmdline", 1000) or b"").split(b"\0")
    text = b" ".join(words).decode("utf-8", "replace").strip()
    if not text:
        name = (access.read(f"/proc/{pid}/comm") or b"").decode("utf-8", "replace").strip()
        text = f"[{name}]"
    return masking.command(text)[:_COMMAND]


def shell_of(held: ShellState) -> dict[str, Any]:
    """Return the state of a shell."""
    return {
        "cwd": _clean(held.cwd or ""),
        "umask": held.umask,
        "variables": named(held.variables),
        "functions": named(held.functions, values=False),
        "aliases": named(held.aliases),
    }


def named(table: Mapping[str, ShellVariable], *, values: bool = True) -> Named:
    """Return variables as they go over the wire."""
    found: Named = {}
    for one in list(table.values())[:MAX_NAMES]:
        value = None if one.value is None or not values else masking.shown(one.name, _clean(one.value))
        found[_clean(one.name)] = [one.attributes, one.size, one.digest, value]
    return found


async def kernel_of(kernel: RunningKernel) -> dict[str, Any]:
    """Return the names of a kernel described for people, as of its last answer; None if it never gave one."""
    found = await kernel.variables(PATIENCE)
    names = None
    if found.as_of is not None:
        names = {_clean(str(row["name"])): about(row) for row in found.rows}
    return {"epoch": kernel.epoch, "names": names, "stale": not found.current}


def about(row: Mapping[str, Any]) -> list[str]:
    """Return a description of a kernel's name, and a digest where a small value has one."""
    kind = str(row.get("kind", "value"))
    words = str(row.get("type", "?")).rpartition(".")[2] if kind == "value" else kind
    if isinstance(shape := row.get("shape"), list):
        words += " " + "x".join(str(side) for side in shape)
    elif isinstance(length := row.get("length"), int) and not row.get("digest"):
        words += f" of {length}"
    return [words[:_COMMAND], str(row.get("digest", ""))[:32]]


def _clean(text: str) -> str:
    """Return text without bytes that are not UTF-8: they cannot go into JSON."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class ChangeNotes:
    """The last recorded state, and pending comparisons."""

    def __init__(
        self,
        shells: Mapping[str, Shell],
        kernels: Mapping[str, RunningKernel],
        lineage: Origins,
        journal: Journal,
    ) -> None:
        self._live_shells = shells
        self._live_kernels = kernels
        self._lineage = lineage
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._shells: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, tuple[int, int, int]] = {}
        self._secrets: dict[str, dict[str, str]] = {}
        """For each shell, the digests of variables that were set while something hidden was typed."""
        self._kernels: dict[str, dict[str, Any]] = {}
        self._cells: dict[str, list[str]] = {}
        self._sockets: dict[int, int] | None = None
        self._ports: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def heard(self, kind: str, entry: Mapping[str, Any]) -> None:
        """Process a new entry of the journal."""
        if kind == "command_ended":
            # After the answer to the command's waiters, before anything else can run in the shell.
            self._loop.call_soon(self._look_at_shell, str(entry.get("shell", "")), str(entry.get("id", "")))
            self._look_soon()
        elif kind == "cell_ended":
            self._cells.setdefault(str(entry.get("kernel", "")), []).append(str(entry.get("id", "")))
            self._look_soon()
        elif kind == "woken":
            for name in self._live_shells:
                self._loop.call_soon(self._look_at_shell, name, "")

    def settle(self) -> None:
        """Look at the shells and ports now: the present is about to be compared with the past."""
        for name in self._live_shells:
            self._look_at_shell(name, "")
        self._look_at_ports()

    def seen(self, name: str, now: dict[str, Any]) -> None:
        """Process a look at a kernel, as `kernel_of` returns it."""
        if now["names"] is None or now["stale"]:
            return
        before, self._kernels[name] = self._kernels.get(name), now
        ids = self._cells.pop(name, [])
        changes: dict[str, Any] = {}
        pairs = difference(before["names"] if before else {}, now["names"])
        if pairs:
            changes["names"] = dict(list(pairs.items())[:MOST])
        if before and before["epoch"] != now["epoch"]:
            changes["epoch"] = [before["epoch"], now["epoch"]]
        if changes:
            more = max(0, len(pairs) - MOST) or None
            several = ids[-MOST_IDS:] if len(ids) > 1 else None
            last = ids[-1] if ids else None
            self._journal.append("changed", kernel=name, id=last, ids=several, more=more, **changes)

    def _look_at_shell(self, name: str, id_: str) -> None:
        shell = self._live_shells.get(name)
        if shell is None or (version := shell.kept.version()) == self._versions.get(name):
            return
        held = shell.kept.state()
        if not held.pid:
            return
        self._versions[name] = version
        now = shell_of(held)
        before, self._shells[name] = self._shells.get(name), now
        if before is None:
            begun = shell.kept.state(first=True)
            if not begun.pid:
                return
            before = shell_of(begun)
        secrets = self._secrets.setdefault(name, {})
        hide(now["variables"], before["variables"], secrets, typed=shell.command_journal.hidden)
        shell.command_journal.hidden = False
        more = 0
        changes: dict[str, Any] = {}
        for table in _TABLES:
            pairs = difference(before[table], now[table])
            more += max(0, len(pairs) - MOST)
            if pairs:
                changes[table] = dict(list(pairs.items())[:MOST])
        changes |= {key: [before[key], now[key]] for key in ("cwd", "umask") if before[key] != now[key]}
        if changes:
            self._journal.append("changed", shell=name, id=id_ or None, more=more or None, **changes)

    def _look_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(SOON, self._due)

    def _due(self) -> None:
        self._timer = None
        self._look_at_ports()
        if self._cells and (self._looking is None or self._looking.done()):
            self._looking = self._loop.create_task(self._look_at_kernels())

    def _look_at_ports(self) -> None:
        sockets = listening_sockets()
        if sockets == self._sockets:
            return
        first, self._sockets = self._sockets is None, sockets
        pids = frozenset(each.pid for each in self._lineage.look())
        now = {port: pid for pid, ports in ListeningSockets().ports(pids).items() for port in ports}
        before, self._ports = self._ports, now
        closed, opened = sorted(before.items() - now.items()), sorted(now.items() - before.items())
        if not first and (opened or closed):
            self._journal.append("changed", ports=[closed, opened])

    async def _look_at_kernels(self) -> None:
        for name in list(self._cells):
            kernel = self._live_kernels.get(name)
            if kernel is not None and kernel.state == "idle":  # the end of what runs now arrives here as well
                self.seen(name, await kernel_of(kernel))


def hide(now: Pairs, before: Mapping[str, Any], secrets: dict[str, str], *, typed: bool) -> None:
    """Remove possible typed secrets from variables, including their size and digest. Pure but for its
    arguments.

    `secrets` remembers their digests; `typed` tells that one more can be among the values that differ now.
    """
    for name, one in now.items():
        if typed and one[:3] != (before.get(name) or [])[:3]:
            secrets[name] = one[2]
        if secrets.get(name) == one[2]:
            now[name] = [one[0], 0, "", MASK]


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> Pairs:
    """Return the differences as pairs of old and new; None for missing values. Pure."""
    return {
        name: [before.get(name), now.get(name)]
        for name in [*now, *(name for name in before if name not in now)]
        if before.get(name) != now.get(name)
    }

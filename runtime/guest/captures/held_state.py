"""The session's present state besides files: processes, ports, shells, kernels.

It gathers and shortens; the caller compares. Values that look like secrets are masked here, so they never
leave the session this way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from holdfast.kernels.guest.kernel import RunningKernel
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.origins import Origins
from holdfast.runtime.guest.pulse.sockets import Listening
from holdfast.runtime.guest.records import masking
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_state import ShellState, ShellVariable

PATIENCE = 5.0
"""Seconds an idle kernel may take to report its names, on a busy machine."""
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
    roles |= {kernel.pid: "kernel" for kernel in kernels.values() if kernel.pid}
    table = lineage.look()[:MAX_PROCESSES]
    ports = Listening().ports(frozenset(each.pid for each in table))
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

"""The requirements of a machine on which jobs can be captured alive, each tested.

No virtual machine is needed, so no KVM. Instead, the engine must start one container with rights over others:
the checkpointer. Where that is not allowed, jobs still run, and the files of failed jobs can be kept.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.quantities import gib_text
from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.doctor import doctor
from holdfast.runtime.guest_rpc.results import Check

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

GIB = 1 << 30
MEMORY_LEAST = 2 * GIB
"""Available memory: a session with a kernel takes 150 MiB, a capture as much as page cache; then tests."""
DISK_LEAST = 6 * GIB
"""Disk: images take 3 GB, a snapshot the job's memory and files, an exported one a third of a GB more."""
KERNEL_LEAST = (5, 10)
LIVE = ("checkpointer", "kernel features", "live capture", "live restore", "what is restored")
"""Checks whose failure only prevents live captures; jobs still run."""
ONLY_FILES = 3
"""Exit code: jobs run here, and their files can be kept; live captures are not possible."""
_KCMP = {"x86_64": 312, "aarch64": 272}


def checks(context: Context) -> list[Check]:
    """Return all checks; missing images are built for them, and a session is captured and restored."""
    engine = doctor.guarded("engine", lambda: _engine(context))
    found = [
        engine,
        doctor.guarded("memory", _memory),
        doctor.guarded("disk", lambda: _disk(context)),
        Check("virtualization", True, "not needed; KVM is not used"),
        doctor.guarded("kernel features", _kernel),
    ]
    if not engine.ok:
        return found
    return [
        *found,
        doctor.guarded("checkpointer", lambda: _checkpointer(context)),
        *_round_trip(context),
    ]


def exit_code(found: Sequence[Check]) -> int:
    """Return 0 if all checks pass, 3 if only live capture fails, else 1. Pure."""
    missing = {check.name for check in found if not check.ok}
    if not missing:
        return 0
    return ONLY_FILES if missing <= set(LIVE) else 1


def _engine(context: Context) -> Check:
    found = doctor.engine_check(context)
    options = " ".join(str(each) for each in context.engine.info().get("SecurityOptions") or ())
    if found.ok and "seccomp" not in options:
        hint = "use a kernel and an engine that have it"
        return Check("engine", False, f"{found.detail}; without seccomp", hint)
    return found


def _memory() -> Check:
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(rows["MemAvailable"].split()[0]) << 10
    hint = "" if available >= MEMORY_LEAST else "use a larger runner, or give jobs less memory with --memory"
    return Check("memory", not hint, f"{gib_text(available)} available", hint)


def _disk(context: Context) -> Check:
    free = {
        "of the home": shutil.disk_usage(context.home.root).free,
        "of the engine": doctor.engine_room(context),
    }
    summary = ", ".join(f"{gib_text(size)} free {name}" for name, size in free.items())
    short = min(free.values()) < DISK_LEAST
    hint = "remove what the job does not need from the runner, or set HOLDFAST_HOME" if short else ""
    return Check("disk", not short, summary, hint)


def _kernel() -> Check:
    release = platform.release()
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    lacking = [name for name, has in KERNEL.items() if not has()]
    if version < KERNEL_LEAST:
        lacking.insert(0, f"a version of {'.'.join(map(str, KERNEL_LEAST))} or newer")
    detail = f"Linux {release} on {platform.machine()}" + (f" lacks {', '.join(lacking)}" if lacking else "")
    return Check("kernel features", not lacking, detail, "use another kernel or runner" if lacking else "")


def _kcmp() -> bool:
    """Check kcmp(2): CRIU compares what processes share, which needs CONFIG_KCMP."""
    number = _KCMP.get(platform.machine())
    if number is None:
        return True
    call: Any = ctypes.CDLL(None, use_errno=True).syscall
    return int(call(number, os.getpid(), os.getpid(), 0, 0, 0)) == 0


KERNEL: dict[str, Callable[[], bool]] = {
    "overlayfs": lambda: "overlay" in Path("/proc/filesystems").read_text(),
    "time namespaces": Path("/proc/self/ns/time").exists,
    "checkpoint/restore (/proc/self/map_files)": Path("/proc/self/map_files").exists,
    "page maps": Path("/proc/self/pagemap").exists,
    "seccomp": lambda: "\nSeccomp:" in Path("/proc/self/status").read_text(),
    "kcmp": _kcmp,
}


def _checkpointer(context: Context) -> Check:
    from holdfast.snapshots import service

    try:
        home, progress = context.home, context.progress
        with service.ask(context.engine, home, progress, "hello", container=None) as link:
            said = link.until("done")
    except HoldfastError as error:
        hint = (
            "allow the engine to start containers with SYS_ADMIN, SYS_PTRACE and the host's processes "
            "(GitLab: `privileged = true`; inside of a container: `--privileged`)"
        )
        return Check("checkpointer", False, str(error), hint)
    return Check("checkpointer", True, f"CRIU {plain(str(said['criu']), 20)} can look into other containers")


def _round_trip(context: Context) -> list[Check]:
    """Check a session, its reach, its capture and a restore."""
    from holdfast.runtime.doctor import round_trip

    return summary(round_trip.checks(context))


def summary(found: list[Check]) -> list[Check]:
    """Return the checks of a round trip with one verdict for all of the restored state. Pure."""
    if found[0].name == "session":  # it failed
        return found
    tried = [check for check in found if check.name in ("network", "live capture", "live restore")]
    rest = [check for check in found if check not in tried]
    tried.insert(0, Check("session", True, "jobs run in containers of their own"))
    if not rest:
        return tried
    wrong = [check for check in rest if not check.ok]
    if wrong:
        names = ", ".join(check.name for check in wrong)
        return [*tried, Check("what is restored", False, f"differs: {names}", wrong[0].hint)]
    return [*tried, Check("what is restored", True, f"{len(rest)} kinds of state are unchanged")]

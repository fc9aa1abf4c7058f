"""Reads the facts about this machine that decide how well sessions are confined. Judges nothing.

What cannot be read is left out. Files are those of the machine this process runs on; they say nothing of a
remote engine's, which Holdfast does not support.
"""

from __future__ import annotations

import grp
import os
import platform
import pwd
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.engine import engine_place
from holdfast.engine.machine_facts import EngineFacts, HomeFacts, MachineFacts, SocketFacts
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

SYSCTLS = (
    "kernel.dmesg_restrict",
    "kernel.kptr_restrict",
    "kernel.perf_event_paranoid",
    "kernel.unprivileged_bpf_disabled",
    "kernel.yama.ptrace_scope",
)
_QUOTAS = frozenset({"prjquota", "pquota"})
"""Mount options of XFS with project quotas in force (xfs(5))."""
_PROC_SYS = Path("/proc/sys")
_VULNERABILITIES = Path("/sys/devices/system/cpu/vulnerabilities")
_APPARMOR = Path("/sys/module/apparmor/parameters/enabled")

# A session whose rules are not in force is never started.
_NETWORK = "closed to host and private networks before anything runs; `holdfast doctor` tries it"


def read(context: Context) -> MachineFacts:
    """Read all facts. Starts the checkpointer, to ask for CRIU's version, if its image exists.

    Raises:
        EngineUnavailable: no engine answers.
    """
    place = engine_place.find()
    host = place.url
    engine = EngineFacts.parse(context.engine.info())
    if host.startswith("tcp://") and not (os.environ.get("DOCKER_TLS_VERIFY") or place.certificates):
        engine = replace(engine, exposed=True)
    images = _images(context)
    return MachineFacts(
        engine=engine,
        home=home_facts(context.home.root),
        socket=socket_facts(Path(place.path)) if place.path else SocketFacts(),
        sysctls=sysctls(_PROC_SYS),
        weaknesses=weaknesses(_VULNERABILITIES),
        quota=has_quota(Path(engine.data_root), _text(Path("/proc/self/mounts")).splitlines()),
        apparmor=_text(_APPARMOR) == "Y",
        kernel=platform.release(),
        network=(True, _NETWORK),
        images=images,
        criu=_criu(context) if all(images.values()) else "",
    )


def home_facts(root: Path) -> HomeFacts:
    """Return owner and mode of the state directory; mode 0 if it does not exist."""
    try:
        found = root.stat()
    except OSError:
        return HomeFacts(str(root))
    return HomeFacts(str(root), stat.S_IMODE(found.st_mode), found.st_uid == os.getuid())


def socket_facts(path: Path) -> SocketFacts:
    """Return the users who can write to the engine's socket: members by the group's list and as their own
    group (group(5)).
    """
    try:
        found = path.stat()
    except OSError:
        return SocketFacts()
    try:
        group = grp.getgrgid(found.st_gid)
    except KeyError:
        return SocketFacts(str(path), stat.S_IMODE(found.st_mode), str(found.st_gid))
    users = {user.pw_name for user in pwd.getpwall() if user.pw_gid == found.st_gid}
    members = sorted((users | set(group.gr_mem)) - {"root"})
    return SocketFacts(str(path), stat.S_IMODE(found.st_mode), group.gr_name, tuple(members))


def sysctls(root: Path) -> Mapping[str, str]:
    """Return switches of the kernel by name; those it does not have are left out."""
    found = {name: _text(root / name.replace(".", "/")) for name in SYSCTLS}
    return {name: text for name, text in found.items() if text}


def weaknesses(folder: Path) -> tuple[str, ...] | None:
    """Return vulnerabilities of the processor without a mitigation; None if the kernel does not report them.

    The files are described in Documentation/ABI/testing/sysfs-devices-system-cpu of Linux.
    """
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return None
    return tuple(name for name in names if _text(folder / name).startswith("Vulnerable"))


def has_quota(folder: Path, mounts: Iterable[str]) -> bool:
    """Check by lines of /proc/mounts whether the mount that a folder is on enforces project quotas."""
    best, found = -1, False
    for line in mounts:
        words = line.split()
        if len(words) < 4:
            continue
        # Blanks and the like are octal there (proc_pid_mounts(5)).
        point = Path(words[1].encode().decode("unicode_escape"))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), bool(_QUOTAS & set(words[3].split(",")))
    return found


def _images(context: Context) -> Mapping[str, bool]:
    from holdfast.images import build

    return {
        tag: context.engine.images.exists(tag)
        for tag in (build.reference("session"), build.reference("toolbox"))
    }


def _criu(context: Context) -> str:
    from holdfast.runtime.restore.compat import snapshot_ladder

    try:
        return plain(snapshot_ladder.probe_machine(context, live=True).machine.criu, 40)
    except HoldfastError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

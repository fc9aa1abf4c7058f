"""The confinement of untrusted code on this machine: facts, and pure rules that judge them.

A finding is `ok`; `limit`, where nothing can be done with live snapshots; `better`, where the machine could
do more; or `weak`, where something that Holdfast promises does not hold. Facts that cannot be read are left
out. The facts describe the machine of this process, not a remote engine's, which Holdfast does not support.
"""

from __future__ import annotations

import grp
import os
import platform
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.base.text import plain
from holdfast.engine import engine_place
from holdfast.engine.machine_facts import EngineFacts, HomeFacts, MachineFacts, SocketFacts
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

Level = Literal["ok", "limit", "better", "weak"]


@dataclass(frozen=True, slots=True)
class PostureFinding:
    """One finding: the fact, its importance, and the remedy (empty if none is needed)."""

    name: str
    level: Level
    state: str
    why: str
    improve: str = ""


def judge(facts: MachineFacts) -> list[PostureFinding]:
    """Return all findings, from the confinement of a session outwards."""
    return [found for rule in _RULES for found in rule(facts)]


def _users(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "in a user namespace, root of a session would be an unprivileged user on the host"
    used = facts.engine.options & {"userns", "rootless"}
    if used:
        what = "rootless Docker" if "rootless" in used else "userns-remap"
        yield PostureFinding(
            "user namespace",
            "weak",
            f"{what}: sessions cannot run on this engine",
            why,
            "use an engine without user namespaces: CRIU cannot restore there (docs/decisions/0016)",
        )
    else:
        yield PostureFinding("user namespace", "limit", "none: CRIU cannot restore into one", why)


def _labels(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "denies mounts and writes to /proc and /sys even if a capability or filter is lost"
    options = facts.engine.options
    if "apparmor" in options:
        yield PostureFinding(
            "access control", "ok", "AppArmor, the engine's profile, also after a restore", why
        )
    elif "selinux" in options:
        yield PostureFinding(
            "access control",
            "better",
            "SELinux: a restored session that would lose its label is refused",
            why,
            "CRIU as Debian builds it cannot give labels back; live snapshots want AppArmor",
        )
    elif facts.apparmor:
        yield PostureFinding(
            "access control",
            "better",
            "the kernel has AppArmor, the engine does not use it",
            why,
            "install apparmor (for apparmor_parser) and restart Docker",
        )
    else:
        yield PostureFinding(
            "access control",
            "better",
            "neither AppArmor nor SELinux",
            why,
            "boot a kernel with AppArmor (Debian's and Ubuntu's have it), and restart Docker",
        )


def _seccomp(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "keeps system calls that sessions do not need out of reach"
    if "seccomp" in facts.engine.options:
        yield PostureFinding("seccomp", "ok", "Holdfast's own profile, an allowlist", why)
    else:
        yield PostureFinding(
            "seccomp",
            "weak",
            "the engine has none: every system call is open",
            why,
            "use an engine and a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)",
        )


def _privileges(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "stops setuid programs from gaining rights, at most to the capabilities of a session"
    if "no-new-privileges" in facts.engine.options:
        yield PostureFinding("no_new_privs", "ok", "set by the engine; sudo does not work in sessions", why)
    else:
        yield PostureFinding("no_new_privs", "limit", "not set, so that sudo works in sessions", why)


def _limits(facts: MachineFacts) -> Iterator[PostureFinding]:
    engine = facts.engine
    why = "limits a session's memory, processors and process ids"
    if engine.missing_limits:
        missing = ", ".join(engine.missing_limits)
        yield PostureFinding(
            "cgroups",
            "weak",
            f"v{engine.cgroup_version}; no limits of {missing}",
            why,
            "enable these cgroup controllers (kernel command line: cgroup_enable=memory)",
        )
    elif engine.cgroup_version == "2":
        yield PostureFinding("cgroups", "ok", "v2, with limits", why)
    else:
        yield PostureFinding(
            "cgroups",
            "better",
            "v1, with limits",
            why + "; v2 also accounts for page cache and writes",
            "boot with systemd.unified_cgroup_hierarchy=1",
        )


def _storage(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "without one, a session can fill the disk that all containers share"
    if facts.quota and facts.engine.backing == "xfs":
        yield PostureFinding(
            "storage quota", "ok", f"{facts.engine.data_root} is XFS with project quotas", why
        )
    else:
        yield PostureFinding(
            "storage quota",
            "better",
            f"none: {facts.engine.driver or '?'} on {facts.engine.backing or '?'}",
            why,
            "put Docker's data root on XFS mounted with pquota",
        )


@dataclass(frozen=True, slots=True)
class _Switch:
    """A protection of the kernel: the least acceptable value of a sysctl."""

    name: str
    least: int
    why: str


_SWITCHES = (
    _Switch("kernel.kptr_restrict", 1, "hides addresses of the kernel, which exploits need"),
    _Switch("kernel.dmesg_restrict", 1, "hides the kernel's messages, which reveal addresses and devices"),
    _Switch("kernel.unprivileged_bpf_disabled", 1, "keeps the BPF verifier, a frequent target, from users"),
    _Switch("kernel.perf_event_paranoid", 2, "keeps kernel profiling from users"),
    _Switch("kernel.yama.ptrace_scope", 1, "a process can trace its own children only"),
)


def _kernel(facts: MachineFacts) -> Iterator[PostureFinding]:
    for switch in _SWITCHES:
        text = facts.sysctls.get(switch.name, "")
        if not text:
            yield PostureFinding(
                switch.name, "better", "this kernel does not have it", switch.why, "boot a kernel with it"
            )
        elif text.lstrip("-").isdigit() and int(text) >= switch.least:
            yield PostureFinding(switch.name, "ok", text, switch.why)
        else:
            yield PostureFinding(
                switch.name, "better", text, switch.why, f"sysctl -w {switch.name}={switch.least}"
            )


def _processor(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "containers share the processor: without mitigations, one can read the memory of others"
    if facts.weaknesses is None:
        yield PostureFinding("processor", "better", "the kernel does not report its vulnerabilities", why, "")
    elif facts.weaknesses:
        listed = ", ".join(facts.weaknesses)
        yield PostureFinding(
            "processor", "better", f"vulnerable: {listed}", why, "update microcode, firmware and kernel"
        )
    else:
        yield PostureFinding("processor", "ok", "every known vulnerability is mitigated", why)


_OTHER_KERNELS = ("runsc", "kata")
"""Parts of the usual names of runtimes that give containers a kernel of their own."""


def _runtimes(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "every session shares the host's kernel: an exploit of it is not stopped"
    listed = ", ".join(facts.engine.runtimes) or "?"
    default = facts.engine.default_runtime
    if any(word in default for word in _OTHER_KERNELS):
        yield PostureFinding(
            "runtime",
            "weak",
            f"{default} by default: snapshots there contain neither files nor processes of a session",
            why,
            '"default-runtime": "runc" in /etc/docker/daemon.json (docs/decisions/0023)',
        )
        return
    yield PostureFinding("runtime", "limit", f"{listed}: containers on Linux {facts.kernel}".rstrip(), why)


def _home(facts: MachineFacts) -> Iterator[PostureFinding]:
    home = facts.home
    why = "a user who can write to it controls sessions; one who can read it can read the memory in snapshots"
    mode = f"{home.path} is {home.mode:04o}"
    if not home.own:
        yield PostureFinding(
            "home", "weak", f"{home.path} belongs to another user", why, "use a home of your own"
        )
    elif home.mode & 0o022:
        yield PostureFinding("home", "weak", f"{mode}: others can write", why, f"chmod 700 {home.path}")
    elif home.mode & 0o077:
        yield PostureFinding(
            "home", "better", f"{mode}: others can look inside", why, f"chmod 700 {home.path}"
        )
    else:
        yield PostureFinding("home", "ok", mode, why)


def _socket(facts: MachineFacts) -> Iterator[PostureFinding]:
    socket = facts.socket
    why = "a user who can write to the engine's socket is root on this machine"
    if not socket.path:
        return
    mode = f"{socket.path} is {socket.mode:04o}"
    if socket.mode & 0o002:
        yield PostureFinding("engine's socket", "weak", f"{mode}: everybody", why, f"chmod 660 {socket.path}")
    elif socket.mode & 0o020 and socket.members:
        listed = ", ".join(socket.members[:5])
        yield PostureFinding(
            "engine's socket",
            "limit",
            f"{mode}: group {socket.group}, that is {listed}",
            why,
        )
    else:
        yield PostureFinding("engine's socket", "ok", f"{mode}: root only", why)


def _exposed(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "any client of such a port is root on this machine"
    if facts.engine.exposed:
        yield PostureFinding(
            "engine on TCP",
            "weak",
            "its API is open without TLS",
            why,
            "remove tcp:// from the daemon's hosts, or use --tlsverify",
        )
    else:
        yield PostureFinding("engine on TCP", "ok", "not without TLS", why)


def _live_restore(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "sessions outlive a restart of the engine, so that security updates do not have to wait"
    if facts.engine.live_restore:
        yield PostureFinding("live-restore", "ok", "on", why)
    else:
        yield PostureFinding(
            "live-restore", "better", "off", why, '"live-restore": true in /etc/docker/daemon.json'
        )


def _network(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "isolates sessions from each other and from forbidden hosts"
    if facts.network is None:
        yield PostureFinding("sessions' network", "weak", "not known", why, "`holdfast doctor`")
    else:
        holds, state = facts.network
        improve = "" if holds else "`holdfast doctor` says what to do"
        yield PostureFinding("sessions' network", "ok" if holds else "weak", state, why, improve)


def _images(facts: MachineFacts) -> Iterator[PostureFinding]:
    why = "the first process of sessions, and the program that captures and restores them"
    missing = [tag for tag, ready in facts.images.items() if not ready]
    criu = f"; CRIU {facts.criu}" if facts.criu else ""
    if missing:
        listed = ", ".join(missing)
        yield PostureFinding("images", "better", f"not built: {listed}", why, "`holdfast image build`")
    else:
        yield PostureFinding("images", "ok", ", ".join(facts.images) + criu, why)


def _capabilities(_facts: MachineFacts) -> Iterator[PostureFinding]:
    from holdfast.runtime.sessions.session_options import CAPABILITIES

    why = "a session's root is the host's root with fewer rights"
    yield PostureFinding("capabilities", "ok", f"{len(CAPABILITIES)}: {', '.join(CAPABILITIES).lower()}", why)


_RULES: tuple[Callable[[MachineFacts], Iterator[PostureFinding]], ...] = (
    _users,
    _capabilities,
    _seccomp,
    _labels,
    _privileges,
    _limits,
    _storage,
    _network,
    _home,
    _socket,
    _exposed,
    _live_restore,
    _images,
    _runtimes,
    _kernel,
    _processor,
)


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
    images = _current_images(context)
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
    """Return switches of the kernel by name; missing ones are left out."""
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


def _current_images(context: Context) -> Mapping[str, bool]:
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

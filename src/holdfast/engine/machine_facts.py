"""Facts about an engine and its host that decide how well sessions are confined. Pure; see
`doctor/posture.py`.

Unknown facts are None or empty: no rule takes that for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine's own description in `docker info`.

    `options` are the names in SecurityOptions; `missing_limits` are limits of containers that it cannot
    enforce; `exposed` is set if its API is open on a TCP port without TLS.
    """

    version: str = "?"
    options: frozenset[str] = frozenset()
    cgroup_version: str = "1"
    driver: str = ""
    backing: str = ""
    data_root: str = ""
    missing_limits: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    default_runtime: str = ""
    live_restore: bool = False
    exposed: bool = False

    @classmethod
    def parse(cls, info: Mapping[str, Any]) -> EngineFacts:
        """Parse the answer of GET /info, whose fields differ by version of the engine."""
        limits = {"MemoryLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}
        status = {str(pair[0]): str(pair[1]) for pair in info.get("DriverStatus") or [] if len(pair) == 2}
        # Such as io.containerd.runc.v2, which names a shim and not a runtime that can be chosen.
        runtimes = sorted(name for name in info.get("Runtimes") or {} if not str(name).startswith("io."))
        warnings = " ".join(map(str, info.get("Warnings") or []))
        return cls(
            version=str(info.get("ServerVersion") or "?"),
            options=security_options(info),
            cgroup_version=str(info.get("CgroupVersion") or "1"),
            driver=str(info.get("Driver") or ""),
            backing=status.get("Backing Filesystem", ""),
            data_root=str(info.get("DockerRootDir") or ""),
            missing_limits=tuple(word for key, word in limits.items() if info.get(key) is False),
            runtimes=tuple(map(str, runtimes)),
            default_runtime=str(info.get("DefaultRuntime") or ""),
            live_restore=bool(info.get("LiveRestoreEnabled")),
            exposed="API is accessible on" in warnings,
        )


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """The engine's socket: mode, its group, and that group's members. Empty path: not local."""

    path: str = ""
    mode: int = 0
    group: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """The state directory: permission bits, and whether it belongs to the current user."""

    path: str = ""
    mode: int = 0
    own: bool = True


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """All the facts to be judged.

    `sysctls` by name with dots, as text; `weaknesses` are names of processor vulnerabilities without a
    mitigation; `quota`: the data root is mounted with project quotas; `apparmor`: the kernel has it enabled.
    `network` is whether the sessions' network rules hold, with a sentence, None if it was not tried.
    """

    engine: EngineFacts
    home: HomeFacts = HomeFacts()
    socket: SocketFacts = SocketFacts()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    weaknesses: tuple[str, ...] | None = None
    quota: bool = False
    apparmor: bool = False
    kernel: str = ""
    network: tuple[bool, str] | None = None
    images: Mapping[str, bool] = field(default_factory=dict)
    criu: str = ""


def security_options(info: Mapping[str, Any]) -> frozenset[str]:
    """Return the names in SecurityOptions, such as apparmor, seccomp, userns, rootless, no-new-privileges."""
    words = (str(option).partition(",")[0] for option in info.get("SecurityOptions") or [])
    return frozenset(word.removeprefix("name=") for word in words)


INSTEAD = (
    "use a Docker engine that runs as root without userns-remap, as a member of its socket's group: "
    "`docker context use default`, or DOCKER_HOST=unix:///var/run/docker.sock"
)
"""The advice for an unfit engine."""


def unfit(info: Mapping[str, Any]) -> str:
    """Return the reason why sessions cannot run on an engine of this description; empty if they can."""
    options = security_options(info)
    if "BuildahVersion" in info:  # Podman, whose API has the same paths
        return "it is Podman, whose API does not accept a session's seccomp profile"
    if "rootless" in options:
        return "it runs without root, and capturing processes takes rights over them that it cannot give"
    if "userns" in options:
        return "it remaps users (userns-remap), and CRIU cannot restore there"
    return ""

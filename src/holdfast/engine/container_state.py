"""The engine's description of a container, as a value.

Pure: takes the engine's answer to an inspection, and asks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The engine's description of a container. `pid` is that of its first process, in the host's numbering.

    `program` is the path in it of what that runs. `subnets` are its networks as `address/prefix length`,
    `gateways` the addresses of the host in these. `sources` are the files and folders of the host that are
    mounted, by their paths in the container.
    """

    id: str
    running: bool
    paused: bool
    pid: int
    exit_code: int
    labels: Mapping[str, str]
    image_id: str
    oom_killed: bool
    addresses: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    program: str = ""
    hostname: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)


def state_of(found: Mapping[str, Any]) -> ContainerState:
    """Return the state in the engine's description of a container."""
    state = found["State"]
    return ContainerState(
        id=str(found["Id"]),
        running=bool(state["Running"]) and not state.get("Restarting"),
        paused=bool(state["Paused"]),
        pid=int(state["Pid"]),
        exit_code=int(state["ExitCode"]),
        labels=dict(found["Config"]["Labels"] or {}),
        image_id=str(found["Image"]),
        oom_killed=bool(state.get("OOMKilled")),
        addresses=_in_networks(found, "IPAddress", "GlobalIPv6Address"),
        subnets=_subnets(found),
        gateways=_in_networks(found, "Gateway", "IPv6Gateway"),
        program=str(found.get("Path") or ""),
        hostname=str(found["Config"].get("Hostname") or ""),
        sources={
            str(mount["Destination"]): str(mount["Source"])
            for mount in found.get("Mounts") or ()
            if mount.get("Type") == "bind"
        },
    )


def _in_networks(found: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    """Return a running container's values for these keys in its networks: IPv4, then IPv6."""
    return tuple(str(network[key]) for network in _networks(found) for key in keys if network.get(key))


def _subnets(found: Mapping[str, Any]) -> tuple[str, ...]:
    families = (("IPAddress", "IPPrefixLen"), ("GlobalIPv6Address", "GlobalIPv6PrefixLen"))
    return tuple(
        f"{network[address]}/{network[length]}"
        for network in _networks(found)
        for address, length in families
        if network.get(address)
    )


def _networks(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(((found.get("NetworkSettings") or {}).get("Networks") or {}).values())

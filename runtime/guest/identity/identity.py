"""The session's identity: given by the host in files, changed when the session is restored as another.

Publishes it inside: files for programs, and the environment of new processes. How a running shell follows it
is in `bash_self.h`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass, field, replace
from holdfast.runtime.guest.layout import IdentityPaths

CHOSEN = ("user", "workdir", "shell", "kernel", "python")
"""The options of a session that its supervisor needs to know, as the host names them."""
NAMES = ("HOLDFAST_SESSION", "HOLDFAST_NAME", "HOLDFAST_GENERATION", "HOLDFAST_IDENTITY")
"""Variables that belong to the session; `bash_state.h` does not count them as changes of the user."""
WAITS = ("shell", "kernel")
"""The parts that are ready in a session that waits in a pool: its shell alone, or its kernel as well."""
UNBEGUN = -1
"""The generation of a session that waits in a pool: shells see a change when it begins."""
_SIOCGIFADDR = 0x8915
_IFREQ = "16sH2x4s16x"
"""The ioctl(2) request for network interfaces: a name, then a family, a port and an address."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Id and name of the session, the user, directory and shell of its processes, and its number of restores.

    `container` is the id of its container, if the host gave it; `kernel` the spec of its main kernel, and
    `python` the interpreter of its Python kernels, if they were chosen.
    """

    session: str = ""
    name: str = ""
    user: str | None = None
    workdir: str | None = None
    shell: str | None = None
    kernel: str | None = None
    python: str | None = None
    generation: int = 0
    container: str = ""

    def updated(self, fields: dict[str, Any]) -> Identity:
        """Return this identity with the host's facts; values of the wrong type are ignored."""
        changes: dict[str, Any] = {
            key: fields[key]
            for key in ("session", "name", "container")
            if isinstance(fields.get(key), str) and fields[key]
        }
        if isinstance(fields.get("generation"), int):
            changes["generation"] = fields["generation"]
        for key in CHOSEN:
            if isinstance(fields.get(key), str) and fields[key]:
                changes[key] = fields[key]
        return replace(self, **changes)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None: the file can be missing, or half written."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Awakening:
    """How the session came to run: `event` is started, restarted, resumed or restored, `snapshot` the one
    concerned, `before` the identity recorded in it, `why` the reason for a restart if the host knows it.

    In a pool it is `waiting`, with or without a kernel (`why`), until the session begins.
    """

    event: str
    snapshot: str = ""
    before: Identity = field(default_factory=Identity)
    why: str = ""

    @classmethod
    def of(cls, facts: Mapping[str, Any], *, again: bool = False) -> Awakening:
        """Return the awakening of a supervisor that begins: in a fresh container, or from snapshot files;
        `again` if another one was killed there, or the host says so.
        """
        snapshot, before = facts.get("snapshot"), facts.get("before")
        if facts.get("waiting") in WAITS and not again:
            return cls("waiting", why=facts["waiting"])
        why = facts.get("again")
        why = why if isinstance(why, str) and not again else ""
        if not isinstance(snapshot, str) or not isinstance(before, dict):
            return cls("restarted" if again or why else "started", why=why)
        return cls("restarted" if again or why else "restored", snapshot, Identity().updated(before), why)


def variables(identity: Identity, paths: IdentityPaths) -> dict[str, str]:
    """Return the environment variables that carry the identity. Pure."""
    values = (identity.session, identity.name, str(identity.generation), str(paths.facts))
    return dict(zip(NAMES, values, strict=True))


def with_identity(environment: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as a shell reports it, plus the identity variables, which the shell leaves out,
    as they are in `own`. Pure.
    """
    hostname = {"HOSTNAME": own["HOSTNAME"]} if "HOSTNAME" in own else {}
    return {**hostname, **environment, **{name: own[name] for name in NAMES if name in own}}


def publish(paths: IdentityPaths, identity: Identity, awakening: Awakening) -> None:
    """Write the files and change this process's environment, which everything it starts inherits."""
    before, own = awakening.before, variables(identity, paths)
    hostname = socket.gethostname()
    os.environ.update(own, HOSTNAME=hostname)
    facts = {
        "session": identity.session,
        "name": identity.name,
        "generation": identity.generation,
        "container": identity.container,
        "hostname": hostname,
        "addresses": addresses(),
        "event": awakening.event,
        "snapshot": awakening.snapshot or None,
        "parent": {"session": before.session, "name": before.name, "generation": before.generation}
        if awakening.event == "restored" or before.session
        else None,
        "at": round(time.time(), 6),
    }
    # A full disk, or root who removed the folder: the session continues all the same.
    with suppress(OSError):
        paths.folder.mkdir(parents=True, exist_ok=True)
        paths.folder.chmod(0o755)
        paths.listeners.mkdir(exist_ok=True)
        paths.listeners.chmod(0o1777)
        _replace(paths.facts, json.dumps(facts, indent=1).encode() + b"\n")
        _replace(paths.variables, b"".join(f"{key}={value}\0".encode() for key, value in own.items()))
        _rewrite(paths.generation, b"%d\n" % identity.generation)


def addresses() -> list[str]:
    """Return the addresses of this network namespace, except loopback."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack(_IFREQ, name.encode()[:15], socket.AF_INET, b"")
            with suppress(OSError):
                found.append(socket.inet_ntoa(ioctl(probe, _SIOCGIFADDR, request)[20:24]))
    with suppress(OSError):
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
        found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0])) for line in lines]
    return [address for address in found if not address.startswith(("127.", "fe80:")) and address != "::1"]


def _replace(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.chmod(0o644)
    new.replace(path)


def _rewrite(path: Path, data: bytes) -> None:
    """Rewrite the file in place, in one call: programs that have it open, or watch it, see the change."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)

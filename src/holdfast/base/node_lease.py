"""The lease of a node, as two files in its home: until when its sessions may run, and which are frozen.

The agent writes the lease, the keeper what it has frozen; either can be killed at any instant, so files are
replaced as a whole. Ends are counted on CLOCK_BOOTTIME, which setting the clock does not change and which
continues while a machine sleeps. A lease of an earlier boot is over. Knows neither engine nor database.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from holdfast.base.value_classes import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.base.home import Home

FOLDER = "node"
_LEASE, _FROZEN = "lease.json", "frozen.json"
_LARGEST = 16 << 20
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class LeaseFile:
    """Until when a node may run its sessions.

    Attributes:
        boot: the id of the machine's boot that `until` belongs to.
        until: seconds on CLOCK_BOOTTIME.
        contact: when the database last answered, in Unix seconds.
        owned: the sessions that the database says are this node's; only these continue after a freeze.
    """

    boot: str
    until: float
    contact: float
    owned: frozenset[str] = frozenset()

    def holds(self, boot: str, now: float) -> bool:
        """Return whether sessions may run at this instant of this boot."""
        return self.boot == boot and now < self.until


@dataclass(frozen=True, slots=True)
class Frozen:
    """The keeper's freeze: since when, in Unix seconds, and the sessions of the containers.

    `contact` is when the database had last answered.
    """

    since: float = 0.0
    contact: float = 0.0
    containers: Mapping[str, str] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """The reason, after "frozen: "."""
        return f"the cluster's database is out of reach since {_clock(self.contact or self.since)}"


def now() -> float:
    """Return the seconds since the machine's boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the id of this boot; empty if the kernel does not tell."""
    return (_read(_BOOT) or b"").decode("ascii", "replace").strip()


def read_lease(home: Home) -> LeaseFile | None:
    """Return the lease of a home's node; None if it never had one.

    A file that cannot be read as one is a lease that is over.
    """
    data = _read(home.below(FOLDER, _LEASE))
    if data is None:
        return None
    try:
        found = json.loads(data)
        owned = frozenset(str(each) for each in found["owned"])
        return LeaseFile(str(found["boot"]), float(found["until"]), float(found["contact"]), owned)
    except (ValueError, TypeError, LookupError):
        return LeaseFile("", 0.0, 0.0)


def write_lease(home: Home, lease: LeaseFile) -> None:
    """Replace the lease.

    Raises:
        OSError: it cannot be written.
    """
    table = {
        "boot": lease.boot,
        "until": lease.until,
        "contact": lease.contact,
        "owned": sorted(lease.owned),
    }
    _write(home, _LEASE, table)


def forget(home: Home) -> None:
    """Remove the lease: the node has left its cluster, and its keeper ends."""
    for name in (_LEASE, _FROZEN):
        with suppress(FileNotFoundError):
            os.unlink(home.below(FOLDER, name))  # noqa: PTH108


def read_frozen(home: Home) -> Frozen:
    """Return the freeze by the keeper of a home's node; nothing if there is no keeper, or no node."""
    try:
        found = json.loads(_read(home.below(FOLDER, _FROZEN)) or b"{}")
        containers = {str(key): str(value) for key, value in found["containers"].items()}
        return Frozen(float(found["since"]), float(found["contact"]), containers)
    except (ValueError, TypeError, LookupError, AttributeError):
        return Frozen()


def write_frozen(home: Home, frozen: Frozen) -> None:
    """Replace that.

    Raises:
        OSError: it cannot be written.
    """
    table = {"since": frozen.since, "contact": frozen.contact, "containers": dict(frozen.containers)}
    _write(home, _FROZEN, table)


def why_frozen(home: Home, container: str) -> str:
    """Return why the keeper has frozen a container, in a few words; empty if it has not."""
    if not os.access(home.below(FOLDER, _FROZEN), os.F_OK):
        return ""
    found = read_frozen(home)
    return found.why if container in found.containers else ""


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(at))


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - `ls` does not load pathlib
            return file.read(_LARGEST)
    except OSError:
        return None


def _write(home: Home, name: str, table: Mapping[str, Any]) -> None:
    os.makedirs(home.below(FOLDER), mode=0o700, exist_ok=True)  # noqa: PTH103
    part = home.below(FOLDER, f"{name}.{os.getpid()}.part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, json.dumps(table).encode())
    finally:
        os.close(file)
    os.replace(part, home.below(FOLDER, name))  # noqa: PTH105

"""Decides what of a foreign snapshot's description is taken over: as little as will do. Pure.

A container that is made from it gets this host's defaults. What is kept can only make it smaller, or is
needed inside: the user and the folder its supervisor gives to new shells.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import BundleRefused, InvalidArgument
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.row_details import Moment, SnapshotDetails
from holdfast.snapshots import failure
from holdfast.snapshots.bundle import form
from holdfast.snapshots.manifest import Manifest, Processes

_ID = re.compile(r"[0-9a-f]{12}")
_TOKEN = re.compile(r"[0-9a-f]{16,128}")
_LAST_PID = 1 << 22
MEMORY_TMPFS = "/dev/shm"  # noqa: S108 - the session's, by its well-known name
"""The only file system in memory that a session has."""


def options(given: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the sessions to be made; `chosen` are those of whoever imports it, and count as they are.

    Raises:
        InvalidArgument: what was chosen cannot be.
        BundleRefused: what was given cannot be.
    """
    default = SessionOptions()
    kept: dict[str, Any] = {}
    if given.get("network") == "none":
        kept["network"] = "none"
    for key in ("memory", "pids"):
        value = given.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            kept[key] = min(value, getattr(default, key))
    for key in ("user", "workdir"):
        if given.get(key) is not None:
            kept[key] = given[key]
    try:
        SessionOptions.parse(**kept)
    except InvalidArgument as error:
        raise BundleRefused(f"cannot import: its options are not valid ({plain(str(error), 200)})") from error
    return SessionOptions.parse(**(kept | dict(chosen))).model_dump(mode="json")


def check(kept: Manifest) -> None:
    """See that the manifest of a foreign snapshot says what one can say. Raises BundleRefused."""
    if (kept.kind == "live") != (kept.processes is not None):
        raise _refused("it has processes, or has none, other than its kind says")
    if not _ID.fullmatch(kept.id) or not _ID.fullmatch(kept.session):
        raise _refused("it has an invalid id")
    try:
        ids.check_name(kept.session_name)
        if kept.label is not None:
            ids.check_name(kept.label, "snapshot")
    except InvalidArgument as error:
        raise _refused("it has a name that cannot be") from error
    if not 0 <= kept.generation < 1 << 20:
        raise _refused("it has a generation that cannot be")
    if kept.processes is not None:
        _check_processes(kept.processes)


def _check_processes(told: Processes) -> None:
    if not 1 < told.root_pid < _LAST_PID or not 1 < told.last_pid < _LAST_PID:
        raise _refused("it has process ids that cannot be")
    if not _TOKEN.fullmatch(told.token):
        raise _refused("it has a token that cannot be")
    if len(told.addresses) > 16 or told.memory_bytes < 0:
        raise _refused("it has addresses or a size that cannot be")
    for address in told.addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise _refused("it has invalid addresses") from error


def facts(data: bytes) -> None:
    """See that a session can have these file systems in memory. Raises BundleRefused."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused("its facts are not valid JSON") from error
    if not isinstance(found, dict) or found.get("tmpfs") not in ([], [MEMORY_TMPFS]):
        raise _refused("it brings file systems in memory that no session has")


def details(given: Mapping[str, Any]) -> SnapshotDetails:
    """What the store is told: where the journal stood, and what had failed."""
    moment, found = given.get("moment"), failure.of_row(given)
    if isinstance(moment, dict) and _number(moment.get("journal_seq")) and _number(moment.get("at")):
        moment = Moment(int(moment["journal_seq"]), float(moment["at"]))._asdict()
    else:
        moment = None
    return SnapshotDetails.of(moment=moment, failure=found.as_details() if found else None)


def origin(name: str, index: bytes, key: str | None, kept: Manifest) -> dict[str, Any]:
    """What is remembered of where a snapshot came from."""
    return {
        "from": plain(name, 500),
        "digest": form.described("", index).digest,
        "key": key,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "snapshot": kept.id,
        "session": kept.session,
        "session_name": kept.session_name,
        "created_at": kept.created_at.isoformat(),
    }


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53


def _refused(why: str) -> BundleRefused:
    return BundleRefused(f"cannot import: {why}", hint="it is forged, or a newer version made it")

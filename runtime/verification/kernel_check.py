"""Comparison of the names in a session's kernels with those before the capture.

The session itself reports them. Only names and their types are compared: threads and tasks of a kernel change
values on their own, even between the listing and the freeze.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import GuestError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import holdings
from holdfast.runtime.history.drift.holdings import HeldKernel, Holdings
from holdfast.snapshots import verification
from holdfast.snapshots.record import StateRecord
from holdfast.snapshots.verification import Deviation, Verification

MAX_NAMES = 500
"""The most names recorded of a kernel; a kernel reports no more."""
REPLY_SECONDS = 1.0
"""The longest time a restored session can take to report; an idle one takes milliseconds."""


def kernel_records(held: Holdings | None) -> dict[str, dict[str, Any]]:
    """Return the record of each kernel: epoch, last journal entry before, names with type and digest."""
    kernels = held.kernels if held is not None else {}
    return {
        name: {"epoch": one.epoch, "seq": held.seq if held is not None else 0, "names": _names(one)}
        for name, one in kernels.items()
    }


def compare(
    folder: Path, record: StateRecord | None, moment: int | None, found: Verification
) -> Verification:
    """Add the comparison of the kernels of the session in `folder` to a verification.

    `moment` is the last journal entry before the freeze: names listed before it can have changed since.
    """
    every = record.kernels if record is not None else {}
    busy = [
        f"kernel {name}: it was busy before the freeze" for name, one in every.items() if one["names"] is None
    ]
    found = found.plus(skipped=busy)
    before = {name: one for name, one in every.items() if one["names"]}
    if not before:
        return found
    if any(one.get("seq") != moment for one in before.values()):
        return found.plus(skipped=["kernels: something ran between their listing and the freeze"])
    try:
        with GuestClient(folder).connect() as connection:
            connection.socket.settimeout(REPLY_SECONDS)
            held = holdings.parse(wire_fields.body(connection.ask("holdings")))
    except GuestError:
        return found.plus(skipped=["kernels: the session did not answer in time"])
    return judge(before, held.kernels, found)


def judge(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, HeldKernel], found: Verification
) -> Verification:
    """Compare a session's reports. Pure."""
    compared = 0
    deviations: list[Deviation] = []
    skipped: list[str] = []
    for name, one in before.items():
        kernel = after.get(name)
        if kernel is None or kernel.epoch != one["epoch"]:
            deviations.append(Deviation(about="kernel", pid=0, text=f"{name} differs from the captured one"))
        elif kernel.names is None or kernel.stale:
            skipped.append(f"kernel {name}: it is busy")
        else:
            compared += len(one["names"])
            deviations += verification.names(name, _types(one["names"]), _types(_names(kernel) or {}))
    return found.plus({"names": compared}, deviations, skipped)


def _names(kernel: HeldKernel) -> dict[str, list[str]] | None:
    if kernel.names is None or kernel.stale:
        return None
    newest = list(kernel.names.items())[-MAX_NAMES:]
    return {name: [words.partition(" ")[0], digest] for name, (words, digest) in newest}


def _types(names: dict[str, list[str]]) -> dict[str, str]:
    return {name: str(about[0]) for name, about in names.items() if about}

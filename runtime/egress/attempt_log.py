"""Refused destinations of sessions, read from the rules of their networks and kept by this host.

The rules record destinations for an hour, as long as the container exists; here they are counted across
containers and changes of the rules. Each destination is an event when it is first refused, and again after an
hour without a refusal. The session itself is never asked: it could say anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import HoldfastError, StoreError
from holdfast.runtime.journal.mirror import mirror
from holdfast.snapshots.checkpointer.egress.attempts import LIFETIME, SETS, SIZE
from holdfast.snapshots.link import CheckpointerFailed

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

BY_NAME = "http"
"""Stands for the protocol where the gateway refused a name."""
KIND = "refused"
"""Kind of the entries in journals, and the key in a session's details."""
MOST = len(SETS) * SIZE
"""Limit of destinations kept per session: room for all that can be recorded at one time."""
MOST_EVENTS = 2000
"""Limit of entries of this kind in the journal of one session; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A destination that a session was refused. `port` is 0 for protocols without ports; times in Unix
    seconds.

    `counted` is the rules' count when they were last read. Where the gateway refused it, `address` is a name
    and `packets` counts refusals.
    """

    address: str
    protocol: str
    port: int
    packets: int
    first: float
    last: float
    counted: int = 0

    @property
    def destination(self) -> tuple[str, str, int]:
        """The fields that identify it."""
        return self.address, self.protocol, self.port

    @property
    def place(self) -> str:
        """The address, and the port if there is one."""
        host = f"[{self.address}]" if ":" in self.address and self.port else self.address
        return f"{host}:{self.port}" if self.port else host

    def as_dict(self) -> dict[str, Any]:
        """Return the refusal for programs."""
        times = {"first": _time(self.first), "last": _time(self.last)}
        return {**as_table(self, "counted"), "port": self.port or None, **times}


def of(row: SessionRow) -> list[Refusal]:
    """Return the kept refusals of a session, the latest first."""
    refused = row.details.refused
    return [] if refused is None else _kept(refused)[1]


def is_full(refused: Iterable[Refusal], now: float) -> bool:
    """Return whether rules record no further destinations of a family for now. Pure."""
    recent = [one for one in refused if one.protocol != BY_NAME and now - one.last < LIFETIME]
    recorded = [":" in one.address for one in recent]
    return max(recorded.count(True), recorded.count(False)) >= SIZE


def read(context: Context, row: SessionRow) -> list[Refusal]:
    """Read the rules of a running session, and return the known refusals, the latest first.

    Raises:
        HoldfastError: they cannot be read.
    """
    from holdfast.snapshots import service

    if row.container_id is None or row.options.get("network") == "none":
        return of(row)
    state = context.engine.inspect(row.container_id)
    if state is None or not state.running:
        return of(row)
    asked = {"container": state.id, "init_pid": state.pid}
    try:
        with service.ask(context.engine, context.home, context.progress, "attempts", **asked) as link:
            found = link.until("done")
    except CheckpointerFailed as refusal:
        raise HoldfastError(f"cannot read what session {row.name} was refused: {refusal}") from refusal
    return keep(context, row, state.id, [*found["refused"], *_by_gateway(context, row.id)])


def glance(context: Context, row: SessionRow) -> bool:
    """Do the same as `read` where something else matters more; return whether it succeeded."""
    try:
        read(context, row)
    except HoldfastError:
        return False
    return True


def keep(
    context: Context,
    row: SessionRow,
    container: str,
    found: Sequence[Mapping[str, Any]],
    *,
    emptied: bool = False,
) -> list[Refusal]:
    """Keep the refusals recorded by a container's rules; new destinations are events.

    `emptied`: the rules were replaced after that, and count from 0 again.

    Raises:
        StoreError: the home cannot be written.
    """
    now = time.time()
    new: list[Refusal] = []
    known: list[Refusal] = []

    def change(value: Any) -> dict[str, Any]:
        before, kept = _kept(value)
        if before != container:
            kept = _uncounted(kept)
        known[:], new[:] = merged(kept, found, now)
        if emptied:
            known[:] = _uncounted(known)
        return {"container": container, "seen": [_packed(one) for one in known]}

    if found or row.details.refused is not None:
        context.store.change_detail(row.id, KIND, change)
    _report(context, row, new)
    return known


def merged(
    known: Sequence[Refusal], found: Iterable[Mapping[str, Any]], now: float
) -> tuple[list[Refusal], list[Refusal]]:
    """Return all of them, the latest first, and those among them that are events. Pure."""
    every = {one.destination: one for one in known}
    new = []
    for refusal in found:
        packets, last = int(refusal["packets"]), now - int(refusal["ago"])
        one = Refusal(
            plain(str(refusal["address"]), 253),
            plain(str(refusal["protocol"]), 20),
            int(refusal["port"]),
            packets,
            last,
            last,
            packets,
        )
        old = every.get(one.destination)
        if old is not None:
            # A counter that is lower than before is a new one.
            more = packets - old.counted if packets >= old.counted else packets
            one = replace(one, packets=old.packets + more, first=old.first)
        if old is None or last - old.last > LIFETIME:
            new.append(one)
        every[one.destination] = one
    latest = sorted(every.values(), key=lambda one: one.last, reverse=True)
    return latest[:MOST], new


def _uncounted(known: Iterable[Refusal]) -> list[Refusal]:
    """Return the same, where rules count from 0 again. The gateway's record continues."""
    return [one if one.protocol == BY_NAME else replace(one, counted=0) for one in known]


def _by_gateway(context: Context, session_id: str) -> list[dict[str, Any]]:
    """Return the gateway's refusals of a session, in the form of the rules' refusals."""
    if not context.home.has_gateway:
        return []
    from holdfast.runtime.egress import session_policy

    now = time.time()
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for one in session_policy.refused(context.home, session_id):
        before = found.get((one.host, one.port), {"packets": 0})
        found[one.host, one.port] = {
            "address": one.host,
            "protocol": BY_NAME,
            "port": one.port,
            "packets": before["packets"] + 1,
            "ago": max(int(now - one.at), 0),
        }
    return list(found.values())


def _report(context: Context, row: SessionRow, new: Sequence[Refusal]) -> None:
    """Append entries to the host's part of the session's journal; report it if that fails."""
    if not new:
        return
    found = [
        (
            one.last,
            {
                "protocol": one.protocol,
                "address": one.address,
                **({"port": one.port} if one.port else {}),
                "packets": one.packets,
            },
        )
        for one in sorted(new, key=lambda one: one.last)
    ]
    try:
        mirror(context.store, context.home, row.id)
        context.store.entries.note_many(row.id, KIND, found, actor="system", most=MOST_EVENTS)
    except StoreError as error:
        context.progress(f"the journal of session {row.name} lacks its refusals: {error}")


def _kept(value: Any) -> tuple[str, list[Refusal]]:
    if not isinstance(value, dict):
        return "", []
    return str(value.get("container", "")), [Refusal(*one) for one in value.get("seen", [])]


def _packed(one: Refusal) -> list[Any]:
    times = (round(one.first, 3), round(one.last, 3))
    return [one.address, one.protocol, one.port, one.packets, *times, one.counted]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

"""The third line of fencing: the end of the lease, passed on to the kernel for the network of each session.

The agent freezes nothing and the keeper freezes everything; if both are gone, the networks of the sessions
still close at the end of the last lease that was passed on (`lease_gate`). Until the first time, at most one
round after a session has started, its network has no such end. Does not decide which sessions may run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.snapshots.link import CheckpointerFailed, LinkLost

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

RENEWED_BELOW = 2 / 3
"""A gate is set again once less than this part of the lease is left to it: not at every beat."""
logger = logging.getLogger("holdfast.node")


@dataclass(frozen=True, slots=True)
class NetworkGate:
    """The gate of a container, and when it closes, in seconds on CLOCK_BOOTTIME."""

    container: str
    until: float


def is_due(gate: NetworkGate | None, container: str, ttl: float, now: float) -> bool:
    """Return whether the gate of a container is to be set again. Pure."""
    return gate is None or gate.container != container or gate.until - now < ttl * RENEWED_BELOW


class NetworkLeases:
    """Keeps the gates of one node's sessions open while its lease lasts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._gates: dict[str, NetworkGate] = {}
        self._failed: dict[str, str] = {}

    def renew(self, rows: Iterable[SessionRow], until: float, ttl: float, now: float) -> None:
        """Have the networks of these sessions stay open until `until`, and no longer.

        One that cannot be set is logged once, and tried again. A lease that has ended is not passed on.
        """
        if until <= now:
            return
        running = [row for row in rows if row.state == "running" and row.options.get("network") != "none"]
        self._gates = {row.id: self._gates[row.id] for row in running if row.id in self._gates}
        for row in running:
            container = row.container_id
            if container is None or not is_due(self._gates.get(row.id), container, ttl, now):
                continue
            try:
                self._set(container, until)
            except (HoldfastError, CheckpointerFailed, LinkLost) as error:
                self._tell(row, plain(str(error), 300))
            else:
                self._failed.pop(row.id, None)
                self._gates[row.id] = NetworkGate(container, until)

    def _set(self, container: str, until: float) -> None:
        from holdfast.snapshots import service

        context = self._context
        state = context.engine.inspect(container)
        if state is None or not state.running:
            return
        asked = {"container": state.id, "init_pid": state.pid, "until": until}
        with service.ask(context.engine, context.home, context.progress, "lease", **asked) as link:
            link.until("done")

    def _tell(self, row: SessionRow, why: str) -> None:
        if self._failed.get(row.id) != why:
            self._failed[row.id] = why
            logger.error("%s: its network does not learn when the lease ends: %s", row.name, why)

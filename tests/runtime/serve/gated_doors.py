"""The gate before some doors, and a last one that lets everything in."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from holdfast.runtime.http_doors.admission import Admission, App, Refusal, Scope, Send
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.serve.request_gate import RequestGate, ServedDoor
from holdfast.runtime.serve.server_metrics import ServerMetrics


class OpenDoor(ServedDoor):
    """A door that takes and lets in whatever comes."""

    single = frozenset()

    def __init__(self, app: App) -> None:
        super().__init__(Admission("", None))
        self._app = app

    def takes(self, scope: Scope) -> Scope | None:
        return scope

    def elsewhere(self, scope: Scope) -> Refusal | None:
        return None

    async def opens(self, scope: Scope) -> App | Refusal:
        return self._app

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        raise AssertionError


def gated(*doors: ServedDoor, other: App, **how: Any) -> RequestGate:
    """Return the gate before doors; the other application gets the rest."""
    metrics = ServerMetrics(lambda: 0, lambda: 0)
    return RequestGate([*doors, OpenDoor(other)], RequestRate(0, 1), metrics, **how)


async def nothing() -> MutableMapping[str, Any]:
    """Receive nothing."""
    raise AssertionError("nothing is read of it")

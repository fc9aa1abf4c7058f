"""Snapshots over a URL.

How sessions are made of them is imported on first use: these have snapshots themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.base import shell_words
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.api.snapshot_trials import SnapshotTrials
from holdfast.runtime.client import bound_methods, client_values
from holdfast.runtime.client.aio.async_handle import AsyncHandle, requesting
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like, nothing

if TYPE_CHECKING:
    from holdfast.runtime.client.aio.async_session import AsyncSession
    from holdfast.runtime.flaky.spread import Spread
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.snapshots.failure import Failure


class AsyncSnapshot(AsyncHandle):
    """One snapshot, as `Snapshot` is. Attributes are as of the last answer."""

    def __init__(self, transport: AsyncTransport, told: Any) -> None:
        self._told = client_values.table(told)
        super().__init__(transport, "snapshots", str(self._told["id"]))

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} {self.kind} {self.state}>"

    @property
    @like(Snapshot.id)
    def id(self) -> str:
        return str(self._told["id"])

    @property
    @like(Snapshot.name)
    def name(self) -> str:
        return str(self._told["name"])

    @property
    @like(Snapshot.label)
    def label(self) -> str | None:
        return self._text("label")

    @property
    @like(Snapshot.kind)
    def kind(self) -> SnapshotKind:
        kind: SnapshotKind = self._told["kind"]
        return kind

    @property
    @like(Snapshot.state)
    def state(self) -> str:
        return str(self._told["state"])

    @property
    @like(Snapshot.size)
    def size(self) -> int:
        return int(self._told["bytes"])

    @property
    @like(Snapshot.shared)
    def shared(self) -> int:
        return int(self._told["shared_bytes"])

    @property
    @like(Snapshot.created_at)
    def created_at(self) -> datetime:
        return client_values.moment(self._told["created_at"])

    @property
    @like(Snapshot.session_id)
    def session_id(self) -> str:
        return str(self._told["session_id"])

    @property
    @like(Snapshot.parent_id)
    def parent_id(self) -> str | None:
        return self._text("parent_id")

    @property
    @like(Snapshot.reason)
    def reason(self) -> str | None:
        return self._text("reason")

    @property
    @like(Snapshot.failure)
    def failure(self) -> Failure | None:
        from holdfast.runtime.client import insight_values

        return insight_values.failure(self.details.get("failure"))

    @property
    @like(Snapshot.pinned)
    def pinned(self) -> bool:
        return bool(self._told["pinned"])

    @property
    @like(Snapshot.template)
    def template(self) -> bool:
        return bool(self._told["template"])

    @property
    def details(self) -> Mapping[str, Any]:
        """The recorded facts of the capture."""
        return client_values.table(self._told["details"])

    @like(Snapshot.as_dict)
    def as_dict(self) -> dict[str, Any]:
        return {**{name: value for name, value in self._told.items() if name != "details"}, **self.details}

    async def _restored(self, _verb: str, told: dict[str, Any]) -> AsyncSession:
        from holdfast.runtime.client.aio.async_session import AsyncSession

        return AsyncSession(self._transport, await self._ask("POST", "restore", body=told))

    async def _forked(self, _verb: str, told: dict[str, Any]) -> list[AsyncSession]:
        from holdfast.runtime.client.aio.async_session import AsyncSession

        found = client_values.tables(await self._ask("POST", "fork", body=told))
        return [AsyncSession(self._transport, each) for each in found]

    async def _retried(self, _verb: str, told: dict[str, Any]) -> Spread:
        patience = told.pop("patience", None)
        if not isinstance(told["command"], str):
            told["command"] = shell_words.join(told["command"])
        found = await self._ask("POST", "retry", body=told, patience=patience)
        spread: Spread = bound_methods.late("spread")(found)
        return spread

    async def _pinned(self, _verb: str, told: dict[str, Any]) -> AsyncSnapshot:
        self._told = client_values.table(await self._ask("PATCH", body={"pinned": True, **told}))
        return self

    restore = asking(Snapshot.restore, _restored)
    fork = asking(Snapshot.fork, _forked)
    retry = asking(SnapshotTrials.retry, _retried)
    fits = requesting(Snapshot.fits, Route("GET", "fits"), bound_methods.late("ladder"))
    recorded = requesting(Snapshot.recorded, Route("GET", "commands"), each(bound_methods.late("recorded")))
    actions = requesting(Snapshot.actions, Route("GET", "actions"), each(bound_methods.late("action")))
    redo = requesting(Snapshot.redo, Route("POST", "redo"), bound_methods.late("redo"))
    pin = asking(Snapshot.pin, _pinned)
    remove = requesting(Snapshot.remove, Route("DELETE"), nothing)

    def _text(self, name: str) -> str | None:
        found = self._told[name]
        return None if found is None else str(found)

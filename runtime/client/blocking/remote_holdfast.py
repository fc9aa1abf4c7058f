# Made by setup/blocking from ../aio/async_holdfast.py; do not edit.
"""All sessions and snapshots of a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.base import actors
from holdfast.base.home import Home
from holdfast.errors import SessionNotFound, SnapshotNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.client import bound_methods, client_values
from holdfast.runtime.client.blocking import remote_local
from holdfast.runtime.client.blocking.remote_handle import RemoteHandle, requesting
from holdfast.runtime.client.blocking.remote_session import RemoteSession
from holdfast.runtime.client.blocking.remote_snapshot import RemoteSnapshot
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like, nothing
from holdfast.runtime.client.http_call import session_options
from holdfast.runtime.sessions import session_labels

if TYPE_CHECKING:
    from holdfast.runtime.client.blocking.remote_task import RemoteArtifacts
    from holdfast.runtime.operations.step import Step


class RemoteHoldfast(RemoteHandle):
    """All sessions and snapshots of a server, or of a home, as `Holdfast` has them.

    Args:
        url: of the server, `http://…`, `https://…` or `unix:///…`; or a home, by default that of this
            process, for which it starts a server of its own.
        token: by default that of HOLDFAST_TOKEN, else the one in the home if the server is on this machine.
        actor: who uses it, for the journal; by default that of HOLDFAST_ACTOR, else `agent`.
        on_step: is called with each `Step` of an operation of the server as it begins, and with None at the
            end.

    Raises:
        InvalidArgument: the URL or the actor is not valid, or there is no token.
    """

    def __init__(
        self,
        url: str | Path | Home | None = None,
        *,
        token: str | None = None,
        actor: str | None = None,
        on_step: Callable[[Step | None], None] | None = None,
    ) -> None:
        address, self._end = remote_local.opened(url, token)
        super().__init__(RemoteTransport(address, {"Holdfast-Actor": actors.checked(actor)}, on_step))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @like(Holdfast.close)
    def close(self) -> None:
        self._transport.close()
        self._end()

    def _made(self, _verb: str, told: dict[str, Any]) -> RemoteSession:
        remove, labels = told.pop("remove", False), told.pop("labels", None)
        if labels is not None:
            told["labels"] = session_labels.parse(labels)
        options = session_options(told.pop("options", {}))
        body = {**told, **options}
        return RemoteSession(self._transport, self._ask("POST", "sessions", body=body), remove=remove)

    def _listed(self, _verb: str, told: dict[str, Any]) -> list[RemoteSession]:
        wanted = session_labels.wanted(told.get("labels")).items()
        asked = [key if value is None else f"{key}={value}" for key, value in wanted]
        found = client_values.tables(self._ask("GET", "sessions", label=asked or None))
        return [RemoteSession(self._transport, each) for each in found]

    def _found(self, _verb: str, told: dict[str, Any]) -> RemoteSession:
        ref, removed = told["ref"], told.get("removed") or None
        return RemoteSession(self._transport, self._ask("GET", "sessions", ref, removed=removed))

    new = asking(Holdfast.new, _made)
    sessions = asking(Holdfast.sessions, _listed)
    session = asking(Holdfast.session, _found)
    remove_session = requesting(Holdfast.remove_session, Route("DELETE", "sessions/{ref}"), nothing)
    board = requesting(Holdfast.board, Route("GET", "board"), each(bound_methods.late("standing")))
    report = requesting(Holdfast.report, Route("GET", "report"), bound_methods.late("work_report"))

    @property
    @like(Holdfast.artifacts)
    def artifacts(self) -> RemoteArtifacts:
        from holdfast.runtime.client.blocking.remote_task import RemoteArtifacts

        return RemoteArtifacts(self._transport)

    def _snapshots(self, _verb: str, _told: dict[str, Any]) -> list[RemoteSnapshot]:
        found = client_values.tables(self._ask("GET", "snapshots"))
        return [RemoteSnapshot(self._transport, each) for each in found]

    def _snapshot(self, _verb: str, told: dict[str, Any]) -> RemoteSnapshot:
        return RemoteSnapshot(self._transport, self._ask("GET", "snapshots", told["ref"]))

    snapshots = asking(Holdfast.snapshots, _snapshots)
    snapshot = asking(Holdfast.snapshot, _snapshot)
    diff = requesting(Holdfast.diff, Route("GET", "snapshots/diff"), bound_methods.late("diff"))
    remove_snapshot = requesting(Holdfast.remove_snapshot, Route("DELETE", "snapshots/{ref}"), nothing)

    @like(Holdfast.remove_snapshots)
    def remove_snapshots(self, *refs: str) -> list[RemoteSnapshot]:
        found = {one.id: one for one in [self.snapshot(ref) for ref in refs]}
        for one in found.values():
            one.remove()
        return list(found.values())

    def _forked(self, _verb: str, told: dict[str, Any]) -> list[RemoteSession]:
        ref = told.pop("ref")
        try:
            source: RemoteSession | RemoteSnapshot = self.session(ref)
        except SessionNotFound as missing:
            try:
                source = self.snapshot(ref)
            except SnapshotNotFound:
                text = str(missing).replace("session", "session or snapshot", 1)
                raise SessionNotFound(text, hint=missing.hint) from None
        return source.fork(**told)

    fork = asking(Holdfast.fork, _forked)

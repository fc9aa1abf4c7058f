# Made by setup/blocking from ../aio/async_snapshot.py; do not edit.
"""Snapshots over a URL.

How sessions are made of them is imported on first use: these have snapshots themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.base import shell_words
from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, given, place

if TYPE_CHECKING:
    from holdfast.runtime.api.redo_snapshot import Redo
    from holdfast.runtime.client.blocking.remote_session import RemoteSession
    from holdfast.runtime.flaky.repeat import Keep, KeepAs
    from holdfast.runtime.flaky.spread import Spread
    from holdfast.runtime.restore.compat.command_history import Recorded
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.runtime.task.stated_actions import StatedAction
    from holdfast.snapshots.failure import Failure
    from holdfast.snapshots.fitness import Ladder, Name


class RemoteSnapshot:
    """One snapshot, as `Snapshot` is. Attributes are as of the last answer."""

    def __init__(self, transport: RemoteTransport, told: Any) -> None:
        self._transport, self._told = transport, client_values.table(told)

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} {self.id} {self.kind}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    @property
    def id(self) -> str:
        """12 hex digits."""
        return str(self._told["id"])

    @property
    def name(self) -> str:
        """Its label, or its id."""
        return str(self._told["name"])

    @property
    def label(self) -> str | None:
        """Its label, if it has one."""
        return self._text("label")

    @property
    def kind(self) -> SnapshotKind:
        """`live` or `filesystem`."""
        kind: SnapshotKind = self._told["kind"]
        return kind

    @property
    def state(self) -> str:
        """`ready`, or why it cannot be used."""
        return str(self._told["state"])

    @property
    def size(self) -> int:
        """Bytes that it alone takes."""
        return int(self._told["bytes"])

    @property
    def shared(self) -> int:
        """Bytes that it shares with others."""
        return int(self._told["shared_bytes"])

    @property
    def created_at(self) -> datetime:
        """When it was taken, in UTC."""
        return client_values.moment(self._told["created_at"])

    @property
    def session_id(self) -> str:
        """The session it was taken of."""
        return str(self._told["session_id"])

    @property
    def parent_id(self) -> str | None:
        """The snapshot before it, if any."""
        return self._text("parent_id")

    @property
    def reason(self) -> str | None:
        """Why it was taken; None if no reason was given."""
        return self._text("reason")

    @property
    def failure(self) -> Failure | None:
        """The failure it was taken for; None if it was taken for another reason."""
        from holdfast.runtime.client import insight_values

        return insight_values.failure(self.details.get("failure"))

    @property
    def pinned(self) -> bool:
        """True if it is kept until it is removed by hand."""
        return bool(self._told["pinned"])

    @property
    def template(self) -> bool:
        """True if sessions start from it by its name."""
        return bool(self._told["template"])

    @property
    def details(self) -> Mapping[str, Any]:
        """What was recorded of the capture."""
        return client_values.table(self._told["details"])

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**{name: value for name, value in self._told.items() if name != "details"}, **self.details}

    def restore(
        self,
        name: str | None = None,
        *,
        rung: Name | None = None,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        keep_id: bool = False,
    ) -> RemoteSession:
        """Make a session that continues from here; `keep_id`: the snapshot's own, not a copy."""
        from holdfast.runtime.client.blocking.remote_session import RemoteSession

        body = given(
            name=name, rung=rung, network=network, allow=list(allow), deny=list(deny) or None, keep_id=keep_id
        )
        return RemoteSession(self._transport, self._ask("POST", "restore", body=body))

    def fork(
        self,
        n: int = 1,
        name: str | None = None,
        *,
        rung: Name | None = None,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        eager: bool = False,
    ) -> list[RemoteSession]:
        """Make n sessions that continue from here. All of them or none."""
        from holdfast.runtime.client.blocking.remote_session import RemoteSession

        body = given(
            n=n,
            name=name,
            rung=rung,
            network=network,
            allow=list(allow),
            deny=list(deny) or None,
            eager=eager,
        )
        told = client_values.tables(self._ask("POST", "fork", body=body))
        return [RemoteSession(self._transport, each) for each in told]

    def retry(
        self,
        command: str | Sequence[str],
        n: int = 20,
        *,
        jobs: int = 4,
        timeout: float | None = None,
        keep: Keep = "diverging",
        keep_as: KeepAs = "sessions",
        until_differs: bool = False,
        compare_output: bool = False,
        name: str | None = None,
    ) -> Spread:
        """Run a command n times from here, each in a copy of its own, and report how the outcomes are
        distributed. Leaving the call early ends all runs, and leaves no copy.

        Of runs with the same outcome, only the first one's output is known.
        """
        from holdfast.runtime.client import insight_values

        body = given(
            command=command if isinstance(command, str) else shell_words.join(command),
            n=n,
            jobs=jobs,
            timeout=timeout,
            keep=keep,
            keep_as=keep_as,
            until_differs=until_differs,
            compare_output=compare_output,
            name=name,
        )
        return insight_values.spread(self._ask("POST", "retry", body=body))

    def fits(self) -> Ladder:
        """Return what is possible with it on the server's machine, and why not more. Changes nothing."""
        from holdfast.runtime.client import insight_values

        return insight_values.ladder(self._ask("GET", "fits"))

    def recorded(self) -> list[Recorded]:
        """Return the commands up to the snapshot since its processes began, as far as they are known."""
        from holdfast.runtime.client import insight_values

        told = client_values.tables(self._ask("GET", "commands"))
        return [insight_values.recorded(each) for each in told]

    def actions(self, since: str | None = None) -> list[StatedAction]:
        """Return each action that led to it, with its stated reason and its result, the oldest first."""
        from holdfast.runtime.client import insight_values

        told = client_values.tables(self._ask("GET", "actions", params=given(since=since)))
        return [insight_values.action(each) for each in told]

    def redo(
        self,
        name: str | None = None,
        *,
        since: str | None = None,
        rung: Name | None = None,
        skip: Sequence[str] = (),
        repeat: Sequence[str] = (),
        exit_codes: bool = False,
        timeout: float = 600.0,
    ) -> Redo:
        """Repeat in a new session what led to it. Leaving the call early ends it after the present action."""
        from holdfast.runtime.client import insight_values

        how = given(name=name, since=since, rung=rung, exit_codes=exit_codes, timeout=timeout)
        body = {**how, "skip": list(skip), "repeat": list(repeat)}
        return insight_values.redo(self._ask("POST", "redo", body=body))

    def pin(self, *, pinned: bool = True) -> RemoteSnapshot:
        """Keep it until it is removed by hand, or leave it to policy and quota again."""
        self._told = client_values.table(self._ask("PATCH", body={"pinned": pinned}))
        return self

    def remove(self) -> None:
        """Delete it."""
        self._ask("DELETE")

    def _ask(
        self,
        method: str,
        *what: str,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        call = HttpCall(method, place("snapshots", self.id, *what), params or {}, body=body)
        return self._transport.ask(call)

    def _text(self, name: str) -> str | None:
        found = self._told[name]
        return None if found is None else str(found)

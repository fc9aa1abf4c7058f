"""The facts of a sandbox, and the changes that requests make to its life.

A client gives the facts when it makes a sandbox; they are kept with the session. Its timeout is the session's
lifetime, as for every session, and the process that carries out lifetimes ends sandboxes as well. Sessions
that a client of this wire did not make never get facts, even after a client connects to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.lifetimes import session_ends
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.rows import SessionRow
from holdfast.runtime.store.store import Store

DETAIL = "sandbox"
"""Its key among the details of a session."""
ACCOUNT = "user"
"""The account as which requests act that name no other."""
WOKEN_SECONDS = 300.0
"""The shortest timeout of a sandbox that a request has resumed."""
MAKING_SECONDS = 600.0
"""How much later a sandbox ends whose server ended before it was handed over: nothing else ends it."""


class SandboxFacts(BaseModel):
    """The kept facts.

    `public_ports`: its ports are open to those without its token. `request_host` is the name under which
    its servers see requests, with `${PORT}` for the port; None for the account that the client has used.

    `javascript`: a context of this language is there from the start.

    `home` belongs to the account `user`, as whom requests act; None if the session has its own user only.

    `env` is for every process. `key` and `asked` are digests of the key and the body of the request that made
    it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    template: str = "base"
    metadata: dict[str, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    public_ports: bool = False
    request_host: str | None = None
    javascript: bool = False
    home: str | None = None
    key: str | None = None
    asked: str | None = None

    @classmethod
    def of(cls, row: SessionRow) -> SandboxFacts | None:
        """Return the facts of a session; None if no client of this wire made it."""
        return cls.kept(row.details.get(DETAIL))

    @classmethod
    def kept(cls, detail: Any) -> SandboxFacts | None:
        """Return the facts of a detail; None if it has none."""
        try:
            return cls.model_validate(detail)
        except ValidationError:
            return None


def being_made(asked: Lifetime, now: float) -> Lifetime:
    """Return the lifetime of a sandbox that is being made: its life begins when it is handed over.  Pure."""
    return replace(asked, ends_at=now + (asked.life or 0.0) + MAKING_SECONDS)


def woken(kept: Lifetime, now: float) -> Lifetime:
    """Return the lifetime of a sandbox that a request has resumed.  Pure."""
    return replace(kept, ends_at=now + max(kept.life or 0.0, WOKEN_SECONDS))


def change_facts(
    store: Store, session_id: str, how: Callable[[SandboxFacts], SandboxFacts]
) -> SandboxFacts | None:
    """Change the facts of a session in one step and return them; None if it has none, and never gets any."""
    found: list[SandboxFacts] = []
    row = store.find_session(session_id)
    if row is None or SandboxFacts.of(row) is None:
        return None

    def changed(detail: Any) -> Any:
        facts = SandboxFacts.kept(detail)
        if facts is None:
            return detail
        found[:] = [how(facts)]
        # What earlier versions kept of its life stays as it was.
        return {**(detail if isinstance(detail, dict) else {}), **found[0].model_dump(mode="json")}

    store.change_detail(session_id, DETAIL, changed)
    return found[0] if found else None


def change_life(store: Store, session_id: str, how: Callable[[Lifetime], Lifetime]) -> Lifetime | None:
    """Change the lifetime of a sandbox in one step and return it; None if no client of this wire made it."""
    row = store.find_session(session_id)
    if row is None or SandboxFacts.of(row) is None:
        return None
    return lifetime.change(store, session_id, how)


def ended(row: SessionRow) -> bool:
    """Return whether a session is being removed: clients no longer find it."""
    return Lifetime.of(row.details).ended


def kill_sandbox(hf: Holdfast, row: SessionRow) -> None:
    """Remove a session. Requested snapshots stay.

    Clients do not find it any more: one whose answer is cut by this asks whether it still runs.

    Raises:
        SessionBusy: it is being captured; it is removed afterwards.
        SessionNotFound: it is gone.
    """
    if SandboxFacts.of(row) is None:
        hf.remove_session(row.id)
    else:
        session_ends.remove(hf.context, row)


def pause_sandbox(hf: Holdfast, row: SessionRow, *, memory: bool = True) -> None:
    """Suspend a session; its clock stops. Without `memory` its processes end, and it resumes with new ones.

    Raises:
        LiveUnsupported, CaptureFailed, SessionBusy, SessionDead, SessionError: it continues, or does not run.
    """
    if memory:
        Session(hf.context, row).suspend()
    else:
        snapshot_service.suspend(hf.context, row, kind="filesystem")
    if SandboxFacts.of(row) is not None:
        session_ends.forget_captures(hf.context, row)

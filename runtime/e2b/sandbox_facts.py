"""What a client said of a sandbox when it made it, as it is kept with the session.

Sessions that were made otherwise have none of it: they have no end, even after a client connects to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
    """What is kept.

    `public_ports`: its ports are open to those without its token. `request_host` is the name under which its
    servers see requests, with `${PORT}` for the port; None for the one that the client has used.

    `keeps_memory`: its processes continue after a pause at its end. `files_only`: its last pause ended
    them.

    `javascript`: a context of this language is there from the start.

    `home` is that of the account `user`, as whom requests act; None if the session has its own user only.

    `env` is for every process. `ends_at` is in seconds since 1970, None for no end; `seconds` is its timeout,
    which it gets again when a request resumes it. `ended` is set once it is being removed. `key` and
    `asked` are digests of the key and the body of the request that made it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    template: str = "base"
    metadata: dict[str, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    ends_at: float | None = None
    at_end: Literal["kill", "pause"] = "kill"
    keeps_memory: bool = True
    files_only: bool = False
    auto_resume: bool = False
    seconds: float = 300.0
    ended: bool = False
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

    def due(self, now: float) -> bool:
        """Return whether its time is over."""
        return self.ended or (self.ends_at is not None and self.ends_at <= now)

    def given(self, seconds: float, now: float, *, longer: bool = False) -> SandboxFacts:
        """Return these facts with an end `seconds` from `now`; with `longer`, not before the present end."""
        end = now + seconds
        if longer and self.ends_at is not None:
            end = max(end, self.ends_at)
        return self.model_copy(update={"ends_at": end, "seconds": seconds})

    def left(self, now: float) -> float | None:
        """Return the seconds until its end; None if it has none."""
        return None if self.ends_at is None else max(0.0, self.ends_at - now)

    def being_made(self, now: float) -> SandboxFacts:
        """Return these facts for a sandbox that is being made: its life begins when it is handed over."""
        return self.model_copy(update={"ends_at": now + self.seconds + MAKING_SECONDS})

    def woken(self, now: float) -> SandboxFacts:
        """Return these facts for a sandbox that a request has resumed."""
        return self.model_copy(update={"ends_at": now + max(self.seconds, WOKEN_SECONDS)})

    def paused(self, *, memory: bool = True) -> SandboxFacts:
        """Return these facts for a sandbox that is paused, with its memory or without: its clock stops."""
        return self.model_copy(update={"ends_at": None, "files_only": not memory})


def change(store: Store, session_id: str, how: Callable[[SandboxFacts], SandboxFacts]) -> SandboxFacts | None:
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
        return found[0].model_dump(mode="json")

    store.change_detail(session_id, DETAIL, changed)
    return found[0] if found else None

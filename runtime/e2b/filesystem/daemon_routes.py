"""What clients ask of the daemon in their sandboxes itself: whether it runs, and what processes are given."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from holdfast.errors import SessionNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.e2b_errors import NotOffered, SandboxUnavailable
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller, sandbox_caller
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts

router = APIRouter()
From = Annotated[SandboxCaller, Depends(sandbox_caller)]


@router.get("/health", status_code=204)
async def health(who: From) -> Response:
    """Tell whether the sandbox runs. One that is paused stays so: clients ask this again and again."""

    def look(hf: Holdfast) -> None:
        try:
            found = hf.session(who.sandbox)
            facts = SandboxFacts.of(found.row)
            state = "gone" if facts is not None and facts.ended else found.state
        except SessionNotFound:
            state = "gone"
        if state != "running":
            raise SandboxUnavailable(f"cannot reach the sandbox: {who.sandbox} was not found: it is {state}")

    await who.brief(look)
    return Response(status_code=204)


@router.get("/envs")
async def envs(who: From) -> dict[str, str]:
    """Return the variables that the sandbox was made with."""

    def work(found: Session) -> dict[str, str]:
        facts = SandboxFacts.of(found.row)
        return {} if facts is None else facts.env

    return await who.in_session(who.sandbox, work)


@router.post("/files/compose")
async def compose() -> None:
    """Refuse to join files."""
    raise NotOffered("cannot join files here: sessions do that with a command", hint="run `cat a b > c`")

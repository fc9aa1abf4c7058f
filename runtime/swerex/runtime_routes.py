"""The paths of a runtime, each below the session that it is for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from holdfast.errors import SessionNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.swerex import program_commands, runtime_shells, text_files, uploaded_forms
from holdfast.runtime.swerex.ascii_answers import AsciiAnswer
from holdfast.runtime.swerex.runtime_bodies import (
    Action,
    ClosedShell,
    FileToRead,
    FileToWrite,
    NewShell,
    Observation,
    PlainCommand,
    ShellCommand,
    ShellInterrupt,
)
from holdfast.runtime.swerex.runtime_caller import RuntimeCaller, runtime_caller
from holdfast.runtime.swerex.runtime_shells import CommandAction
from holdfast.runtime.swerex.shell_interrupts import ForcedInterrupt

router = APIRouter(prefix="/swerex/{session}", default_response_class=AsciiAnswer)
From = Annotated[RuntimeCaller, Depends(runtime_caller)]
Answer = dict[str, Any]


@router.get("/is_alive")
async def is_alive(who: From, session: Ref) -> Answer:
    """Report whether the session runs; asks the store only, since clients wait 150 ms."""

    def why_not() -> str:
        try:
            state = who.session(session).state
        except SessionNotFound as error:
            return str(error)
        hint = f": `holdfast resume {session}`" if state == "suspended" else ""
        return "" if state == "running" else f"cannot reach session {session}: it is {state}{hint}"

    message = await who.all.brief.run(why_not)
    return {"is_alive": not message, "message": message}


@router.post("/create_session")
async def create_session(who: From, session: Ref, body: NewShell) -> Answer:
    """Open a shell."""

    def work(found: Session, patience: Patience) -> str:
        return runtime_shells.open_shell(found, body, patience)

    output = await who.patiently(session, body.startup_timeout, work)
    return {"output": output, "session_type": "bash"}


@router.post("/run_in_session")
async def run_in_session(who: From, session: Ref, body: Action) -> Answer:
    """Run a command in a shell, type a line for the program there, or interrupt it."""
    asked, key = body, who.key

    def work(found: Session, patience: Patience) -> Observation:
        if isinstance(asked, ShellInterrupt):
            return ForcedInterrupt(found, asked, patience, who.unread).run()
        return CommandAction(found, asked, patience, key, who.unread).run()

    seconds = body.timeout if isinstance(body, ShellCommand) else None
    return (await who.patiently(session, seconds, work)).as_dict()


@router.post("/close_session")
async def close_session(who: From, session: Ref, body: ClosedShell) -> Answer:
    """Close a shell, and end what runs in it."""
    await who.in_session(session, lambda found: runtime_shells.close_shell(found, body.session))
    return {"session_type": "bash"}


@router.post("/execute")
async def execute(who: From, session: Ref, body: PlainCommand) -> Answer:
    """Run a program beside the shells, to its end."""

    def work(found: Session, patience: Patience) -> Answer:
        return program_commands.execute(found, body, patience, lambda: who.all.stopping)

    return await who.patiently(session, None, work)


@router.post("/read_file")
async def read_file(who: From, session: Ref, body: FileToRead) -> Answer:
    """Return the text of a file."""
    return {"content": await who.in_session(session, lambda found: text_files.read(found, body))}


@router.post("/write_file")
async def write_file(who: From, session: Ref, body: FileToWrite) -> Answer:
    """Write a text file."""
    await who.in_session(session, lambda found: text_files.write(found, body))
    return {}


@router.post("/upload")
async def upload(who: From, session: Ref) -> Answer:
    """Write a file, or unpack an archive into a folder."""
    form = await uploaded_forms.form_of(who.request)
    try:
        sent = uploaded_forms.upload_in(form)
        await who.waits(lambda: uploaded_forms.store(who.session(session), sent))
    finally:
        await form.close()
    return {}


@router.post("/close")
async def close(who: From, session: Ref) -> Answer:
    """Close the shells, and leave the session."""
    await who.in_session(session, runtime_shells.close_shells)
    return {}

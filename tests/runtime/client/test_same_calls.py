"""The library over a URL has the calls that it has in process, by the same names, and each as async, too."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import holdfast
from holdfast.errors import OnlyInProcess, ServerUnavailable
from holdfast.runtime.api import (
    artifact_handles,
    session_files,
    session_kernels,
    session_shells,
    session_task,
    terminal_handle,
)
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.job import Job
from holdfast.runtime.api.running_program import RunningProgram, SessionPrograms
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.client import client_errors
from holdfast.runtime.client.aio import (
    async_files,
    async_holdfast,
    async_kernel,
    async_programs,
    async_session,
    async_shell,
    async_snapshot,
    async_task,
)
from holdfast.runtime.client.blocking import (
    remote_files,
    remote_holdfast,
    remote_kernel,
    remote_programs,
    remote_session,
    remote_shell,
    remote_snapshot,
    remote_task,
)
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.serve.models import task_models

ROOT = Path(holdfast.__file__).parent.parent.parent
PAIRS: list[tuple[type, type, type]] = [
    (Holdfast, remote_holdfast.RemoteHoldfast, async_holdfast.AsyncHoldfast),
    (Session, remote_session.RemoteSession, async_session.AsyncSession),
    (Snapshot, remote_snapshot.RemoteSnapshot, async_snapshot.AsyncSnapshot),
    (Job, remote_programs.RemoteJob, async_programs.AsyncJob),
    (RunningProgram, remote_programs.RemoteRunningProgram, async_programs.AsyncRunningProgram),
    (SessionPrograms, remote_programs.RemotePrograms, async_programs.AsyncPrograms),
    (session_kernels.SessionKernel, remote_kernel.RemoteKernel, async_kernel.AsyncKernel),
    (session_kernels.SessionKernels, remote_kernel.RemoteKernels, async_kernel.AsyncKernels),
    (session_files.SessionFiles, remote_files.RemoteFiles, async_files.AsyncFiles),
    (FileWatch, remote_files.RemoteFileWatch, async_files.AsyncFileWatch),
    (session_shells.SessionShells, remote_shell.RemoteShells, async_shell.AsyncShells),
    (artifact_handles.HomeArtifacts, remote_task.RemoteArtifacts, async_task.AsyncArtifacts),
    (session_task.SessionTask, remote_task.RemoteTask, async_task.AsyncTask),
    (terminal_handle.SessionTerminal, remote_shell.RemoteTerminal, async_shell.AsyncTerminal),
]
ONLY_THERE = {"parts", "details", "address"}
"""What streams, or tells as a table, what a handle in process has otherwise; and what a server alone has."""
ONLY_IN_PROCESS = {
    # Of the server's machine: its home, its engine, its disk.
    Holdfast: {
        "doctor",
        "engine",
        "fits",
        "home",
        "images",
        "import_",
        "keeping",
        "new(build_network)",
        "new(devcontainer)",
        "new(remote_sources)",
        "new(entrypoint)",
        "pull",
        "store",
        "thaw",
        "verify",
    },
    Session: {"move", "row", "serve_captures", "snapshot(failure)"},
    Snapshot: {
        "export",
        "pack",
        "push",
        "redo(on_action)",
        "redo(patience)",
        "retry(patience)",
        "row",
        "tried",
    },
    Job: {"send(patience)"},
    RunningProgram: {"write(patience)"},
    session_task.SessionTask: {"done(patience)"},
    FileWatch: {"next"},
    terminal_handle.SessionTerminal: {"link"},
}
"""What a handle over a URL does not have: names, and `name(argument)`."""


def test_what_is_only_in_process_is_told_from_a_wrong_name() -> None:
    """The list by which a handle over a URL says so is that of what is missing."""
    missing = {name for names in ONLY_IN_PROCESS.values() for name in names if "(" not in name}
    assert missing == client_errors.ONLY_IN_PROCESS
    assert isinstance(client_errors.missing("doctor"), OnlyInProcess)
    assert type(client_errors.missing("exce")) is AttributeError


def _members(kind: type) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_")}


def _calls(kind: type) -> dict[str, Any]:
    return {name: each for name, each in _members(kind).items() if callable(each)}


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: kinds[0].__name__)
def test_nothing_else_is_missing(kinds: tuple[type, type, type]) -> None:
    """Whoever adds something in process adds it over a URL, or says here that it is not there."""
    local, remote = _members(kinds[0]), _members(kinds[1])
    missing = set(local) - set(remote)
    for name in set(_calls(kinds[0])) & set(_calls(kinds[1])):
        here, there = (inspect.signature(each[name]).parameters for each in (local, remote))
        missing |= {f"{name}({argument})" for argument in set(here) - set(there)}
    assert missing == ONLY_IN_PROCESS.get(kinds[0], set())


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: kinds[0].__name__)
def test_each_call_has_the_arguments_of_the_one_in_process(kinds: tuple[type, type, type]) -> None:
    local, remote = _calls(kinds[0]), _calls(kinds[1])
    for name in set(remote) - ONLY_THERE:
        given, expected = (inspect.signature(each[name]).parameters for each in (remote, local))
        assert set(given) <= set(expected), name
        for argument in given:
            here, there = given[argument], expected[argument]
            assert (here.default, here.kind) == (there.default, there.kind), (name, argument)


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: kinds[0].__name__)
def test_the_async_ones_are_the_same(kinds: tuple[type, type, type]) -> None:
    blocking, waiting = _calls(kinds[1]), _calls(kinds[2])
    assert set(blocking) == set(waiting)
    for name in set(blocking) - {"spawn"}:  # refused there: pexpect blocks
        found, expected = (list(inspect.signature(each[name]).parameters) for each in (waiting, blocking))
        assert found == expected, name


def test_the_blocking_ones_are_made_of_them() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "setup/blocking", "--check"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("set", task_models.TaskSetRequest),
        ("plan", task_models.TaskTextRequest),
        ("step", task_models.StepRequest),
        ("claim", task_models.ClaimRequest),
        ("release", task_models.ReleaseRequest),
        ("decide", task_models.DecisionRequest),
        ("alternative", task_models.DecisionRequest),
        ("note", task_models.TaskNoteRequest),
        ("answer", task_models.QuestionAnswerRequest),
        ("read_again", task_models.ReadAgainRequest),
        ("artifact", task_models.ArtifactRequest),
        ("drop", task_models.DropRequest),
        ("block", task_models.BlockRequest),
        ("unblock", task_models.UnblockRequest),
        ("import_", task_models.TaskImportRequest),
    ],
)
def test_changes_of_a_task_are_sent_by_the_names_of_their_arguments(name: str, form: type[BaseModel]) -> None:
    """The server reads all of them, and what was not given is not sent."""
    sent: list[tuple[str, dict[str, Any]]] = []

    class Told(remote_task.RemoteTask):
        def __init__(self) -> None:
            """It needs no server."""

        def _tell(self, verb: str, body: dict[str, Any] | None) -> Any:
            sent.append((verb, body or {}))
            raise ServerUnavailable("cannot answer: there is none")

    _, *names = inspect.signature(getattr(Told, name)).parameters
    assert set(names) == set(form.model_fields)
    with pytest.raises(ServerUnavailable):
        getattr(Told(), name)(**dict.fromkeys(names, "x") | {names[-1]: None})
    assert sent == [(name.strip("_").replace("_", "-"), dict.fromkeys(names[:-1], "x"))]

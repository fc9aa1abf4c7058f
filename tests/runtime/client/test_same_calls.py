"""The library over a URL has the calls that it has in process, by the same names, and each also as async."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import holdfast
from holdfast.errors import OnlyInProcess, ServerUnavailable
from holdfast.runtime.api import (
    artifact_handles,
    session_files,
    session_git,
    session_kernels,
    session_shells,
    session_task,
    terminal_handle,
)
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.job import Job
from holdfast.runtime.api.running_program import RunningProgram, SessionPrograms
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_snapshots import Rewound
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.client import bound_methods, client_errors
from holdfast.runtime.client.aio import (
    async_commands,
    async_files,
    async_git,
    async_holdfast,
    async_session,
    async_snapshot,
    async_task,
)
from holdfast.runtime.client.blocking import (
    remote_commands,
    remote_files,
    remote_git,
    remote_holdfast,
    remote_session,
    remote_snapshot,
    remote_task,
)
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.history.recording.recording import Recording
from holdfast.runtime.serve.calls import call_table
from holdfast.runtime.serve.models import command_models, session_models, task_models

ROOT = Path(holdfast.__file__).parent.parent.parent
PAIRS: list[tuple[type, type, type]] = [
    (Holdfast, remote_holdfast.RemoteHoldfast, async_holdfast.AsyncHoldfast),
    (Session, remote_session.RemoteSession, async_session.AsyncSession),
    (Snapshot, remote_snapshot.RemoteSnapshot, async_snapshot.AsyncSnapshot),
    (Job, remote_commands.RemoteJob, async_commands.AsyncJob),
    (RunningProgram, remote_commands.RemoteRunningProgram, async_commands.AsyncRunningProgram),
    (SessionPrograms, remote_commands.RemotePrograms, async_commands.AsyncPrograms),
    (session_kernels.SessionKernel, remote_commands.RemoteKernel, async_commands.AsyncKernel),
    (session_kernels.SessionKernels, remote_commands.RemoteKernels, async_commands.AsyncKernels),
    (session_files.SessionFiles, remote_files.RemoteFiles, async_files.AsyncFiles),
    (session_git.SessionGit, remote_git.RemoteGit, async_git.AsyncGit),
    (FileWatch, remote_files.RemoteFileWatch, async_files.AsyncFileWatch),
    (session_shells.SessionShells, remote_commands.RemoteShells, async_commands.AsyncShells),
    (artifact_handles.HomeArtifacts, remote_task.RemoteArtifacts, async_task.AsyncArtifacts),
    (session_task.SessionTask, remote_task.RemoteTask, async_task.AsyncTask),
    (terminal_handle.SessionTerminal, remote_commands.RemoteTerminal, async_commands.AsyncTerminal),
    (Recording, remote_commands.RemoteRecording, async_commands.AsyncRecording),
    (Rewound, remote_session.RemoteRewound, async_session.AsyncRewound),
]
ONLY_THERE = {
    **dict.fromkeys(("AsyncFileWatch.path", "AsyncFileWatch.ended"), "in process, attributes of an instance"),
    "AsyncFiles.address": "a server signs addresses of files",
    "AsyncFiles.parts": "what comes in parts from a server; in process `read` of ranges is as good",
    "AsyncSnapshot.details": "what `as_dict` adds in process, where the store has it in a row",
}
"""What a handle over a URL has and one in process does not, and why."""
ONLY_IN_PROCESS = {
    **dict.fromkeys(
        (f"Holdfast.{name}" for name in ("doctor", "engine", "home", "keeping", "pool", "store", "verify")),
        "it is about the machine, the home and the disk of the server, which its owner looks after there",
    ),
    **dict.fromkeys(
        (f"Holdfast.{name}" for name in ("context", "images", "import_", "pull", "thaw", "fits")),
        "it reads files, keys or registries of the machine on which it is called",
    ),
    **dict.fromkeys(
        ("Snapshot.export", "Snapshot.push", "Snapshot.pack"), "it writes for the server's owner"
    ),
    "Session.move": "it moves a session away from its server, with keys of the server's owner",
    "Session.row": "a row of the store",
    "Session.serve_captures": "it calls back into its process while a session waits",
    "Snapshot.row": "a row of the store",
    "Snapshot.tried": "it calls back into its process for each run",
    "FileWatch.next": "changes come as they are found, and an iteration waits for them",
    "Recording.write(matcher)": "the rules for secrets are the server's",
    "SessionTerminal.link": "over a URL it is the call `terminal` of a channel, for terminals in browsers",
}
"""What a handle in process has and one over a URL does not, and why. This list only shrinks."""
REFUSED = {
    "Holdfast.new": {"build_network", "devcontainer", "entrypoint", "remote_sources"},
    "Session.resume": {"here"},
    "Session.snapshot": {"failure"},
    "Snapshot.redo": {"on_action"},
}
"""Arguments that are refused by name, because they are of the server's machine, or call back from there."""
LOCAL_NAMES = {each.__name__: local.__name__ for local, *remote in PAIRS for each in remote} | {
    "AsyncIterator": "Iterator",
    "AsyncIterable": "Iterable",
}


def test_in_process_methods_differ_from_wrong_names() -> None:
    """The list of methods that a handle over a URL refuses is the list of the missing ones."""
    missing = {name.partition(".")[2] for name in ONLY_IN_PROCESS if "(" not in name}
    assert missing - {"context"} == client_errors.ONLY_IN_PROCESS
    assert isinstance(client_errors.missing("doctor"), OnlyInProcess)
    assert type(client_errors.missing("exce")) is AttributeError


def _members(kind: type) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_")}


def _described(member: Any) -> Any:
    """Return the function of a property, or a function itself."""
    return getattr(member, "fget", None) or getattr(member, "func", None) or member


def _in_process(annotation: object, kind: str) -> str:
    """Return an annotation with the names of handles in process, and each part of a union once."""
    words = re.sub(r"\bbuiltins\.", "", str(annotation))
    words = re.sub(r"\b[A-Z]\w+", lambda found: LOCAL_NAMES.get(found[0], found[0]), words)
    parts = re.sub(r"\bSelf\b", kind, words).split(" | ")
    return " | ".join(dict.fromkeys(parts))


def _signature(member: Any, kind: str) -> tuple[list[tuple[Any, ...]], str]:
    found = inspect.signature(_described(member))
    parameters: list[tuple[Any, ...]] = [
        (each.name, each.kind, each.default, _in_process(each.annotation, kind))
        for each in found.parameters.values()
    ]
    return parameters, _in_process(found.return_annotation, kind)


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: kinds[0].__name__)
def test_each_member_is_the_same_over_a_url(kinds: tuple[type, type, type]) -> None:
    """Names, parameters with defaults and types, results and docstrings; one change is for all."""
    local, name = _members(kinds[0]), kinds[0].__name__
    for remote in kinds[1:]:
        there, shown = (
            _members(remote),
            f"Async{remote.__name__.removeprefix('Async').removeprefix('Remote')}",
        )
        listed = {each.partition(".")[2] for each in ONLY_IN_PROCESS if each.startswith(f"{name}.")}
        only = {each for each in listed if "(" not in each}
        more = {each.partition(".")[2] for each in ONLY_THERE if each.startswith(f"{shown}.")}
        assert set(local) - set(there) == only - {"context"}
        assert set(there) - set(local) == more
        for member in set(local) & set(there) - {"spawn"}:
            here, far = local[member], there[member]
            assert isinstance(far, property | cached_property) == isinstance(here, property | cached_property)
            if callable(_described(here)):
                parameters, result = _signature(here, name)
                known = [each for each in parameters if f"{member}({each[0]})" not in listed]
                assert _signature(far, name) == (known, result), member
                said, expected = inspect.getdoc(_described(far)), inspect.getdoc(_described(here))
                assert said == expected or known != parameters, member


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: kinds[0].__name__)
def test_requests_to_the_server_are_awaited(kinds: tuple[type, type, type]) -> None:
    """Of async handles, each method is a coroutine function or yields, except for makers of handles."""
    _, blocking, waiting = kinds
    for name, each in _members(waiting).items():
        if callable(each) and name not in PLAIN:
            yields = "Iterator" in str(inspect.signature(each).return_annotation)
            assert inspect.iscoroutinefunction(each) or yields, name
            assert not inspect.iscoroutinefunction(_members(blocking)[name]), name


PLAIN = {"as_dict", "as_user", "get", "terminal_of"} | {"cell", "run"}
"""The last two are those of a part, whose coroutine they return."""


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_of_the_servers_machine_is_refused_by_name(name: str) -> None:
    kind, _, method = name.partition(".")
    remote = next(remote for local, remote, _ in PAIRS if local.__name__ == kind)
    made: Any = object.__new__(remote)
    for argument in REFUSED[name]:
        with pytest.raises(OnlyInProcess, match=argument):
            getattr(made, method)(**{argument: "x"})
    assert set(chain(*REFUSED.values())) == bound_methods.ONLY_IN_PROCESS


ASKED: list[tuple[Callable[..., Any], type[BaseModel]]] = [
    (Session.exec, command_models.ExecRequest),
    (Session.join, call_table.JoinArgs),
    (Session.answer, command_models.AnswerRequest),
    (Session.interrupt, command_models.InterruptRequest),
    (Session.check_syntax, command_models.SyntaxRequest),
    (Session.cell, command_models.CellRequest),
    (session_kernels.SessionKernel.join, call_table.JoinCellArgs),
    (session_kernels.SessionKernels.open, session_models.KernelRequest),
    (session_shells.SessionShells.open, session_models.ShellRequest),
    (terminal_handle.SessionTerminal.attach, call_table.AttachArgs),
    (Session.detach, command_models.JobRequest),
    (Job.wait, command_models.JobQuery),
    (SessionPrograms.start, command_models.ProgramRequest),
    (session_files.SessionFiles.watch, command_models.WatchQuery),
    (Session.snapshot, session_models.SnapshotRequest),
    (Session.template, session_models.TemplateRequest),
    (Session.fork, session_models.ForkRequest),
    (Session.rewind, session_models.RewindRequest),
    (Session.change_network, session_models.NetworkRequest),
    (Snapshot.restore, session_models.RestoreRequest),
    (Snapshot.fork, session_models.SnapshotForkRequest),
    (Snapshot.retry, session_models.RetryRequest),
    (Snapshot.redo, task_models.RedoRequest),
    (session_task.SessionTask.done, task_models.StepDoneRequest),
    (session_task.SessionTask.checkpoint, task_models.CheckpointRequest),
    (Holdfast.new, session_models.SessionRequest),
]
OPTIONAL = {("SessionTerminal.attach", "status")}
"""A person's terminal has it by default; a program that joins a terminal over the channel asks for it."""
HELD = {"self", "key", "patience", "options", "remove"}
"""What is not an argument of the request: sent beside it, or the client's own business."""


@pytest.mark.parametrize(("method", "form"), ASKED, ids=lambda each: each.__qualname__)
def test_the_server_has_the_same_arguments_and_defaults(
    method: Callable[..., Any], form: type[BaseModel]
) -> None:
    """A client sends what it was given; the rest is up to the server."""
    parameters = inspect.signature(method).parameters
    for name, parameter in parameters.items():
        if name not in HELD | bound_methods.ONLY_IN_PROCESS and not name.startswith("on_"):
            field = form.model_fields.get(name)
            if field is None:
                assert (method.__qualname__, name) == ("SessionFiles.watch", "timeout")
                continue  # sent as the patience of the channel
            default = () if field.default_factory is not None else field.default
            assert field.is_required() == (parameter.default is inspect.Parameter.empty), name
            if not field.is_required() and (method.__qualname__, name) not in OPTIONAL:
                assert (default or None) == (parameter.default or None), name


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
    """The server reads all of them, and omitted ones are not sent."""
    sent: list[tuple[Any, ...]] = []

    class Told(remote_task.RemoteTask):
        def __init__(self) -> None:
            """It does not need a server."""

        def _ask(self, method: str, *what: str, body: Mapping[str, Any] | None = None, **_: Any) -> Any:
            sent.append((*what, dict(body or {})))
            raise ServerUnavailable("cannot answer: there is none")

    _, *names = inspect.signature(getattr(Told, name)).parameters
    assert set(names) == set(form.model_fields)
    with pytest.raises(ServerUnavailable):
        getattr(Told(), name)(**dict.fromkeys(names, "x") | {names[-1]: None})
    assert sent == [(name.strip("_").replace("_", "-"), dict.fromkeys(names[:-1], "x"))]

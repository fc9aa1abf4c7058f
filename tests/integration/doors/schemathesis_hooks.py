"""Facts the document cannot tell schemathesis: existing names, and requests that would end or outlast the
run.

Owns the changes of requests before they are sent; schemathesis.toml loads it. Knows no checks, and weakens
none: an invalid value is sent as it is, and must be refused.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import re
import tarfile
from typing import Any

import schemathesis
from hypothesis import strategies

SESSIONS = {"session": "suite", "snapshot": "point"}
NOBODY = dict.fromkeys(SESSIONS, "nobody")
PARTS: dict[str, str] = json.loads(os.environ["HOLDFAST_KNOWN"])
"""What the test has prepared in the session, by the names of parameters."""
assert not PARTS.keys() & SESSIONS.keys(), "they would stand in the place of nobody"
SPARE = {
    "shells.close_shell": {"shell": "spare"},
    "jobs.signal": {"job": "spare"},
    "programs.signal": {"program": os.environ["HOLDFAST_SPARE_PROGRAM"]},
}
"""What may end: the others are needed by other operations."""
ASKING = "asking"
"""A shell in which a command asks for a line, again and again: in others nothing waits for an answer."""

TASK: dict[str, str] = json.loads(os.environ["HOLDFAST_TASK"])
"""What requests about the task can name: a step, the entry of a command, a plan, a whole record, a file."""
TASK_FIELDS = {
    "number": (re.compile(r"\d{1,3}\.\d{1,3}"), TASK["step"]),
    "step": (re.compile(r"\d{1,3}\.\d{1,3}"), TASK["step"]),
    "entry": (re.compile(r"#[1-9]\d{0,15}"), TASK["entry"]),
    "verify": (re.compile(r".+", re.DOTALL), "true"),  # it would be run
}
TASK_TEXTS = {"task.plan": "plan", "task.import_": "record"}

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
NUMBER = re.compile(r"\d{1,30}(\.\d{1,30})?(e[+-]?\d{1,3})?")
KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
LONGEST_TEXT = 4096
WAIT = 0.3
"""Seconds that a request waits at most: there are a thousand."""

ENDING = {
    # These end, replace or multiply what all others are tested with, or take seconds each.
    *("sessions.remove", "sessions.suspend", "sessions.resume", "sessions.rewind", "sessions.fork"),
    *(
        "sessions.snapshot",
        "sessions.template",
        "snapshots.remove_snapshot",
        "snapshots.restore",
        "snapshots.fork",
        "snapshots.retry",
        "snapshots.redo",
        "task.checkpoint",
    ),
}
STREAMING_BODIES = {"shells.exec_", "shells.answer", "kernels.cell", "kernels.answer_cell"}
STREAMING_QUERIES = {"shells.join", "kernels.join_cell", "programs.follow", "jobs.follow"}
STREAMING = STREAMING_BODIES | STREAMING_QUERIES | {"programs.run"}
"""Operations that wait, and send events if they are asked to."""

SHORTEST = {
    # The shortest values that are valid exist nowhere: what they stand for is tested with these.
    "cwd": ("0", "/tmp"),
    "user": ("_", "root"),
    "argv": ([""], ["true"]),
}
FILES = {
    # The same for paths.
    "files.list_folder": "/workspace",
    "files.read_tree": "/workspace",
    "files.write_tree": "/workspace",
    "insight.watch": "/workspace",
    "files.read": "/workspace/known.txt",
    "files.stat": "/workspace/known.txt",
    "files.find": "/workspace",
}
CHANGED = {"files.change_mode", "files.replace", "files.sign_address"}
"""Operations on a file that their body names, which is always the same one."""


def before_load_schema(_context: Any, document: dict[str, Any]) -> None:
    """Leave out limits of megabytes: texts of that length take minutes, and have tests of their own."""
    _without_long_texts(document)


def before_call(_context: Any, case: Any, _options: dict[str, Any]) -> None:
    """Change a request before it is sent."""
    operation = case.operation.definition.raw["operationId"]
    phase = case.meta.phase.name.value if case.meta is not None else ""
    _name_what_exists(case, NOBODY if operation in ENDING else SESSIONS)
    if phase == "coverage":
        _use_known_parts(case, operation)
        _replace_shortest(case, operation)
        _use_known_texts(case, operation)
        if operation.startswith("artifacts."):
            _name_an_artifact(case, operation)
    if operation.startswith("task."):
        _name_parts_of_the_task(case, operation)
    if phase == "fuzzing" and operation in STREAMING:
        case.headers["Accept"] = "text/event-stream"  # the other phases ask for one answer
    _wait_briefly(case, operation)
    _do_no_harm(case, operation)


def _name_what_exists(case: Any, known: dict[str, str]) -> None:
    """Put known names into the path: of random ones nothing but 404 would be tested."""
    for each in known.keys() & case.path_parameters.keys():
        if _is_name(case.path_parameters[each]):
            case.path_parameters[each] = known[each]


def _use_known_parts(case: Any, operation: str) -> None:
    """Name the shells, commands and programs there are; the other phases learn of them from answers."""
    _name_what_exists(case, PARTS | SPARE.get(operation, {}))
    body = case.body if operation == "shells.answer" else None
    if isinstance(body, dict) and _is_name(body.get("shell", "main")):
        body["shell"] = ASKING
    if operation == "snapshots.diff":
        for each in ("before", "after"):
            if _is_name(case.query.get(each)):
                case.query[each] = SESSIONS["snapshot"]


def _name_an_artifact(case: Any, operation: str) -> None:
    """Name an artifact that there is; one of its own for the removal."""
    name = case.query.get("name")
    if isinstance(name, str) and name and "\0" not in name:
        spare = operation == "artifacts.remove"
        case.query = {"name": TASK["spare_artifact" if spare else "artifact"], "session": "suite"}


def _replace_shortest(case: Any, operation: str) -> None:
    """Replace the shortest values by some that exist."""
    for where in (case.body, case.query):
        if isinstance(where, dict):
            for each, (shortest, known) in SHORTEST.items():
                if where.get(each) == shortest:
                    where[each] = known
    if case.query.get("path") == "0" and operation in FILES:
        case.query["path"] = FILES[operation]


def _use_known_texts(case: Any, operation: str) -> None:
    """Send a plan and a record that can be read: of other texts there are only refusals."""
    if not isinstance(case.body, dict):
        return
    text = case.body.get("text")
    if operation in TASK_TEXTS and isinstance(text, str) and "\0" not in text:
        case.body["text"] = TASK[TASK_TEXTS[operation]]
    if operation == "task.artifact" and case.body.get("path") == "0":
        case.body["path"] = TASK["file"]


def _name_parts_of_the_task(case: Any, operation: str) -> None:
    """Name a step and an entry that exist; and let neither a session be suspended nor a text be run."""
    if not isinstance(case.body, dict):
        return
    for name, (form, known) in TASK_FIELDS.items():
        value = case.body.get(name)
        if isinstance(value, str) and form.fullmatch(value):
            case.body[name] = known
    if operation == "task.block" and case.body.get("suspend") is True:
        case.body["suspend"] = False
    if operation == "task.done":
        _bound(case.body, "timeout", WAIT)


def _wait_briefly(case: Any, operation: str) -> None:
    """Bound the wait of a request: without a limit it waits for ever, and much of its subject has no end."""
    if operation in STREAMING_QUERIES:
        _bound(case.query, "patience", WAIT)
    if operation == "ports.wait_port":
        _bound(case.query, "patience", WAIT)
    if operation == "insight.events":
        _ask_for_past_events(case)
    if not isinstance(case.body, dict):
        return
    if operation in STREAMING_BODIES:
        _bound(case.body, "patience", WAIT)
    if operation == "programs.run":
        _bound(case.body, "timeout", WAIT)
    for each in {"busy_wait", "lease_wait"} & case.body.keys():
        _bound(case.body, each, WAIT)
    if operation == "kernels.cell" and _seconds(case.body.get("busy_wait", 0)) == 0:
        case.body["busy_wait"] = WAIT  # the cell before may still run, and would refuse most of them


def _ask_for_past_events(case: Any) -> None:
    """Ask for events that there are: others would have to happen while the request waits."""
    _bound(case.query, "after", 0)
    kinds = case.query.get("kind")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if all(isinstance(each, str) and KIND.fullmatch(each) for each in kinds):
        case.query["kind"] = ["job_started"]
    if re.fullmatch(r"\d{1,15}", str(case.headers.get("Last-Event-ID", ""))):
        case.headers["Last-Event-ID"] = "0"


def _do_no_harm(case: Any, operation: str) -> None:
    """Leave the system of the session as it is, and its size out of the answers."""
    path = posixpath.normpath(str(case.query.get("path"))).strip("/")
    if operation == "files.read_tree" and path == "":
        case.query["path"] = "/etc"  # the whole system would be hundreds of megabytes
    if operation == "files.remove" and case.query.get("recursive") in (True, "true"):
        case.query["recursive"] = "false"  # what else is tested needs the system's files
    if operation in CHANGED and isinstance(case.body, dict):
        named = case.body.get("path")
        if isinstance(named, str) and 0 < len(named) <= 4096 and "\0" not in named:
            case.body["path"] = FILES["files.read"]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _seconds(value: object) -> float | None:
    """Return a number, or one that is written as a query has it; None for a refused value."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bound(where: dict[str, Any], name: str, most: float) -> None:
    value = where.get(name)
    seconds = _seconds(value)
    if value is None or (seconds is not None and seconds > most):
        where[name] = most


def _without_long_texts(part: Any) -> None:
    if isinstance(part, dict):
        if isinstance(part.get("maxLength"), int) and part["maxLength"] > LONGEST_TEXT:
            del part["maxLength"]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            _without_long_texts(each)


def _tar() -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("packed"), io.BytesIO())
    return body.getvalue()


schemathesis.hook(before_load_schema)
schemathesis.hook(before_call)
# The document says only that these are bytes: one tree, and none.
schemathesis.openapi.media_type("application/x-tar", strategies.sampled_from([_tar(), b""]))

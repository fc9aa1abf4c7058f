"""Every operation on a task, with every argument, by the library, the command line, HTTP's client and MCP.

One script is played at each door in a session of its own, and leaves the same record.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.integration.conftest import Cli
from tests.integration.served import serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_task import SessionTask
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.agent_sessions import Default
from holdfast.runtime.task import task_form

pytestmark = pytest.mark.thorough

PLAN = """Prepare
- Look
- Write it :: grep -q ready answer
- Report :: cp case.xml report.xml
Change
- Ask
- Later"""
CASE = '<testsuite><testcase classname="a" name="b"/></testsuite>'


@dataclass(frozen=True)
class Call:
    """A call of a task's handle, and how an agent over MCP and a person at the shell make it.

    `mcp` are the arguments of the tool; `cli` the words after `holdfast`. Both see S for the session. A value
    `#failed` is the entry of the command that failed.
    """

    name: str
    given: Mapping[str, Any]
    cli: str | Sequence[str]
    mcp: Mapping[str, str]
    refused: bool = False
    """The command line ends with exit code 1, because a step is not done."""


def call(
    name: str,
    cli: str | Sequence[str],
    mcp: Mapping[str, str],
    /,
    *,
    refused: bool = False,
    **given: Any,
) -> Call:
    return Call(name, given, cli, mcp, refused)


SCRIPT = (
    call(
        "set",
        ["task", "set", "S", "--goal", "Port it"],
        {"action": "goal", "text": "Port it"},
        goal="Port it",
    ),
    call("plan", ["task", "plan", "S", PLAN], {"action": "plan", "text": PLAN}, text=PLAN),
    call(
        "set",
        "task set S --retry-limit 5 --back-end sqlite --profile q=true --checkpoint 9h --artifacts *.kept",
        {
            "action": "policy",
            "text": "retry limit: 5\nback end: sqlite\nprofile: q=true\ncheckpoint: 9h\nartifacts: *.kept",
        },
        retry_limit=5,
        back_end="sqlite",
        profiles={"q": "true"},
        checkpoint="9h",
        artifacts="*.kept",
    ),
    call("set", "task set S --verify @q", {"action": "verify", "text": "@q"}, verify="@q"),
    call("set", "task set S --resume-at 1.2", {"action": "resume_at", "text": "1.2"}, resume_at="1.2"),
    call(
        "step",
        ["task", "step", "S", "2.1", "--title", "Ask them", "--verify", "true", "--back-end", "lmdb"],
        {"action": "step", "step": "2.1", "text": "title: Ask them\nverify: true\nback end: lmdb"},
        number="2.1",
        title="Ask them",
        verify="true",
        back_end="lmdb",
    ),
    call(
        "step",
        "task step S 2.2 --status skipped",
        {"action": "skip", "step": "2.2"},
        number="2.2",
        status="skipped",
    ),
    call("claim", "task claim S 1.1", {"action": "claim", "step": "1.1"}, number="1.1"),
    call(
        "claim",
        "task claim S 1.1 --take",
        {"action": "claim", "step": "1.1", "text": "take"},
        number="1.1",
        take=True,
    ),
    call("release", "task release S 1.1", {"action": "release", "step": "1.1"}, number="1.1"),
    call(
        "decide",
        ["task", "decide", "S", "SQLite", "--why", "no server"],
        {"action": "decide", "text": "SQLite", "why": "no server"},
        text="SQLite",
        why="no server",
    ),
    call(
        "alternative",
        ["task", "alternative", "S", "LMDB", "--why", "no SQL"],
        {"action": "alternative", "text": "LMDB", "why": "no SQL"},
        text="LMDB",
        why="no SQL",
    ),
    call("note", "task note S first", {"action": "note", "text": "first"}, text="first"),
    call("note", "task note S loss --risk", {"action": "risk", "text": "loss"}, text="loss", kind="risk"),
    call(
        "note",
        "task note S Which? --question --step 1.1",
        {"action": "question", "text": "Which?", "step": "1.1"},
        text="Which?",
        kind="question",
        step="1.1",
    ),
    call(
        "answer",
        "task answer S 1 both",
        {"action": "answer", "text": "1", "why": "both"},
        number=1,
        text="both",
    ),
    call(
        "read_again",
        "task reread S store.py --why forms",
        {"action": "reread", "text": "store.py", "why": "forms"},
        path="store.py",
        why="forms",
    ),
    call("done", "task done S 1.1", {"action": "done", "step": "1.1"}, number="1.1"),
    call("done", "task done S 1.2", {"action": "done", "step": "1.2"}, refused=True, number="1.2"),
    call(
        "done",
        "task done S 1.3 --junit report.xml --timeout 60 --busy-wait 5",
        {"action": "done", "step": "1.3", "text": "report.xml\ntimeout: 60\nbusy wait: 5"},
        number="1.3",
        junit="report.xml",
        timeout=60,
        busy_wait=5,
    ),
    call(
        "attempt",
        "task attempt S 1.2 #failed",
        {"action": "attempt", "step": "1.2", "text": "#failed"},
        number="1.2",
        entry="#failed",
    ),
    call(
        "artifact",
        "task artifact S made answer.txt --entry #failed",
        {"action": "artifact", "text": "answer.txt\nname: made\nentry: #failed"},
        name="made",
        path="answer.txt",
        entry="#failed",
    ),
    call("collect_artifacts", "task artifacts S", {"action": "artifacts", "text": "collect"}),
    call("orphans", "task artifacts S --orphans", {"action": "artifacts"}),
    call(
        "block",
        [
            "task",
            "block",
            "S",
            "no key",
            "--needs=a key",
            "--step=1.2",
            "--entry=#failed",
            "--tried=twice",
            "--suspend",
        ],
        {
            "action": "block",
            "text": "no key\ntried: twice\nentry: #failed\nsuspend: yes",
            "why": "a key",
            "step": "1.2",
        },
        why="no key",
        needs="a key",
        step="1.2",
        entry="#failed",
        tried="twice",
        suspend=True,
    ),
    call("unblock", "task unblock S --how found", {"action": "unblock", "text": "found"}, how="found"),
    call("drop", "task drop S note 1", {"action": "drop", "text": "note 1"}, kind="note", number=1),
    call(
        "checkpoint",
        ["checkpoint", "S", "--label", "at-S", "--resume-at", "2.1: ask", "--kind", "filesystem"],
        {"action": "checkpoint", "text": "at-S\nresume at: 2.1: ask\nkind: filesystem"},
        label="at-S",
        resume_at="2.1: ask",
        kind="filesystem",
    ),
    call("import_", "task import S -", {"action": "import", "text": "#export"}, text="#export"),
    call(
        "import_",
        "task import S - --replace",
        {"action": "replace", "text": "#older"},
        text="#older",
        replace=True,
    ),
    call("export", "task show S", {"action": "export"}),
    call("record", "task show S --json", {"action": "show"}),
    call("handoff", "handoff S --budget 900", {"action": "show", "text": "900"}, budget=900),
    call("resume", "task resume S", {"action": "resume"}),
)
Answer = Callable[[Call, Callable[[Any], Any]], str]


def test_the_script_has_every_operation_with_every_argument() -> None:
    """So that a new one cannot be left out at one of the doors."""
    told: dict[str, set[str]] = {}
    for each in SCRIPT:
        told.setdefault(each.name, set()).update(each.given)
    there = {name: method for name, method in inspect.getmembers(SessionTask, callable) if name[0] != "_"}
    expected = {name: set(inspect.signature(method).parameters) for name, method in there.items()}
    assert told == {name: parameters - {"self", "patience"} for name, parameters in expected.items()}


@pytest.fixture(scope="module")
def left(shared_hf: Holdfast) -> dict[str, Any]:
    """The library's result, for comparison with the other doors."""
    return _played(
        shared_hf, "library", lambda call, fill: _by_handle(shared_hf.session("library").task, call, fill)
    )


def test_the_command_line_matches_the_library(
    left: dict[str, Any], shared_hf: Holdfast, shared_home: Home
) -> None:
    cli = Cli(shared_home)

    def answer(each: Call, fill: Callable[[Any], Any]) -> str:
        words = each.cli.split(" ") if isinstance(each.cli, str) else each.cli
        text = str(fill(each.given["text"])) if "-" in words else None
        made = cli(*map(str, map(fill, words)), **({"stdin": text} if text is not None else {}))
        assert made.code == (1 if each.refused else 0), made.err
        return str(made.out)

    assert _played(shared_hf, "shell", answer) == left


def test_http_matches_the_library(left: dict[str, Any], shared_hf: Holdfast, shared_home: Home) -> None:
    with (
        serving(Cli(shared_home), shared_home) as server,
        RemoteHoldfast(server.url, token=server.token) as remote,
    ):
        found = _played(
            shared_hf, "http", lambda call, fill: _by_handle(remote.session("http").task, call, fill)
        )
    assert found == left


def test_an_agent_over_mcp_matches_the_library(left: dict[str, Any], shared_hf: Holdfast) -> None:
    async def play() -> dict[str, Any]:
        async with Client(AgentServer(shared_hf.home, Default("mcp"))) as client:
            told: dict[str, Any] = {}
            for each, fill in _script(shared_hf, "mcp", told):
                arguments = {name: fill(value) for name, value in each.mcp.items()}
                result = await client.call_tool("task", arguments)
                text = result.content[0].text  # type: ignore[union-attr]
                assert not result.is_error, (each, text)
                told[each.name] = text
            return _left(shared_hf, "mcp", told, compared=())

    expected = {name: value for name, value in left.items() if name == "record"}
    assert anyio.run(play) == expected


def _by_handle(task: Any, each: Call, fill: Callable[[Any], Any]) -> str:
    found = getattr(task, each.name)(**{name: fill(value) for name, value in each.given.items()})
    if each.name == "resume":
        return str(found.handoff("S", limit=12))
    return str(found)


def _played(hf: Holdfast, name: str, answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for each, fill in _script(hf, name, told):
        told[each.name] = answer(each, fill)
    return _left(hf, name, told)


def _script(hf: Holdfast, name: str, told: dict[str, Any]) -> Iterator[tuple[Call, Callable[[Any], Any]]]:
    """Yield the calls for a new session of this name, each with the source of its values."""
    session = hf.new(name)
    session.files.write("case.xml", CASE)
    assert session.exec("echo ready > answer.txt; echo kept > a.kept").ok

    def fill(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value == "#export":
            return session.task.export()
        if value == "#older":
            return session.task.export().replace("- SQLite", "- SQLite or so")
        return value.replace("#failed", _failed(session)) if "#failed" in value else _named(value, name)

    yield from ((each, fill) for each in SCRIPT)


def _named(value: str, name: str) -> str:
    return name if value == "S" else value.replace("at-S", f"at-{name}")


def _failed(session: Session) -> str:
    (entry,) = [each for each in session.journal(kinds=["command_started"]) if "grep" in str(each.details)]
    return f"#{entry.seq}"


def _left(
    hf: Holdfast, name: str, told: dict[str, Any], compared: Sequence[str] = ("export", "handoff")
) -> dict[str, Any]:
    """Return the record that a door leaves and its answers, without names, times and actors."""
    record = hf.session(name).task.record()
    assert record is not None
    assert "SQLite or so" in told["handoff"]
    assert told["resume"]
    plain = re.sub(r'"(at|by|updated)": ?"[^"]*"', "", json.dumps(task_form.dump(record)))
    texts = {each: re.sub(r"\d{4}-\d\d-\d\d[ T:\d]*Z?", "", told[each]).strip() for each in compared}
    found = {"record": plain, **texts}
    return {key: re.sub(rf"\b{name}\b", "S", re.sub(r"#\d+", "#N", value)) for key, value in found.items()}

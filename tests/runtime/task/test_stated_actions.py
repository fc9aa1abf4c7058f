"""Actions with the statements about them: of entries as journals have them, and of hostile ones."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.api import redo_snapshot
from holdfast.runtime.operations.context import Context
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.task import kept_task, task_changes, task_items
from holdfast.runtime.task.stated_actions import StatedAction, stated_actions
from holdfast.runtime.task.task_record import StepAttempt

CODER, TESTER = "agent:coder", "agent:tester"


class Line:
    """A line of entries, written as a session and its host write them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: str, actor: str | None = CODER, *, host: bool = False, **details: Any) -> None:
        seq = sum(not each.host for each in self.entries) + (not host)
        at = 100.0 + len(self.entries)
        self.entries.append(Entry("a" * 12, "work", seq, at, kind, actor, host=host, details=details))

    def ran(self, command: str, exit_code: int = 0, actor: str = CODER, **details: Any) -> None:
        ident = f"c{len(self.entries)}"
        self.add("command_started", actor, id=ident, shell="main", command=command, **details)
        self.add("command_ended", actor, id=ident, shell="main", exit_code=exit_code, output_digest="00ab")

    def task(self, actor: str = CODER, **facts: Any) -> None:
        self.add("task_changed", actor, host=True, what="something", revision=1, **facts)


def step(number: str, title: str, status: str = "active") -> dict[str, str]:
    return {"step": number, "step_title": title, "step_status": status}


def test_an_action_has_the_reasons_that_its_actor_had_stated() -> None:
    """The step, the decision and the note of the actor, as they were then; and nothing that came later."""
    line = Line()
    line.ran("ls")
    line.task(**step("1.1", "Look"))
    line.task(decision="SQLite", why="no server")
    line.task(note="mind the lock")
    line.ran("make", reason="before the change")
    line.ran("true", actor=TESTER)
    line.task(**step("1.1", "Look", "done"))
    line.task(**step("2.1", "Move"))
    line.ran("sed -i s/a/b/ x")
    found = stated_actions(line.entries)
    assert [each.why for each in found] == [
        "",
        "before the change; step 1.1 Look; SQLite (no server); mind the lock",
        "step 1.1 Look",
        "step 2.1 Move",
    ]
    assert [each.entry for each in found] == ["#1", "#3", "#5", "#7"]


def test_an_attempt_is_reported_with_its_command() -> None:
    """Also when it was recorded later, by someone else, after other commands."""
    line = Line()
    line.ran("make test", 2)
    line.ran("ls")
    failed = {"entry": "#1", "outcome": "failed", "failure_type": "tests_failed", "failure_detail": "a: no"}
    line.task(TESTER, **step("1.2", "Test"), **failed, verified=True)
    told, second = stated_actions(line.entries)
    assert (told.step, told.attempt, told.verified, told.failure_type, told.failure_detail) == (
        "1.2 Test",
        "failed",
        True,
        "tests_failed",
        "a: no",
    )
    assert told.outcome == "exit 2, verification failed, tests_failed"
    assert (second.step, second.attempt, second.outcome) == ("", "", "exit 0")


def test_every_kind_of_action_is_there_once() -> None:
    """With its result, its key, and the number of its inputs; also one that had not ended."""
    line = Line()
    line.ran("read x", key="ask-1")
    line.entries.insert(1, Entry("a" * 12, "work", 1, 100.5, "input", CODER, details={"shell": "main"}))
    line.add("cell_started", id="k", kernel="main", code="1/0")
    line.add("cell_ended", id="k", kernel="main", status="error")
    line.add("job_started", id="j", name="server", command="serve")
    line.add("job_ended", id="j", name="server", signal=9)
    line.add("run_started", id="r", argv="pytest -q", cwd="/srv")
    line.add("files", host=True, what="copied in", path="/srv/x")
    line.add("files", host=True, what="copied out", path="/srv/y")
    line.add("dropped", None, why="too many", entries=3)
    found = stated_actions(line.entries)
    assert [(each.kind, each.result) for each in found] == [
        ("command", 0),
        ("cell", "error"),
        ("job", 137),
        ("run", None),
        ("files_in", None),
        ("files_out", None),
        ("missing", None),
    ]
    assert (found[0].key, found[0].typed, found[0].output_digest) == ("ask-1", 1, "00ab")
    assert [each.outcome for each in found] == ["exit 0", "error", "exit 137", "had not ended", "", "", ""]


def test_actions_before_the_beginning_are_omitted_but_their_statements_hold() -> None:
    line = Line()
    line.task(**step("1.1", "Look"))
    line.ran("one")
    line.add("files", host=True, what="copied in", path="/srv/x")
    line.ran("two")
    found = stated_actions(line.entries, after=2, since=103.0)
    assert [(each.text, each.step) for each in found] == [("two", "1.1 Look")]


def test_a_text_that_is_not_whole_says_so() -> None:
    """Because it was too long, is missing, or has characters that are not shown."""
    line = Line()
    line.add("command_started", id="a", shell="main", command="head", command_bytes=100_000)
    line.add("command_started", id="b", shell="main")
    line.add("command_started", id="c", shell="main", command="printf '\x1b[2J'")
    line.add("command_started", id="d", shell="main", command="x" * 70_000)
    line.add("command_started", id="e", shell="main", command="echo\tfine\n")
    assert [each.cut for each in stated_actions(line.entries)] == [True, True, True, True, False]


HOSTILE: list[Any] = [None, 7, [], {}, True, "\x1b]0;x\x07" * 1000, "#1", "1.1"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_entries_are_read_without_harm(value: Any) -> None:
    """A session writes its journal itself; nothing of it reaches a terminal unfiltered, or raises."""
    names = [
        "id",
        "shell",
        "kernel",
        "name",
        "command",
        "code",
        "argv",
        "key",
        "reason",
        "exit_code",
        "status",
    ]
    names += ["signal", "output_digest", "step", "step_title", "step_status", "entry", "outcome", "decision"]
    fields = dict.fromkeys((*names, "why", "note", "failure_type", "failure_detail", "what", "path"), value)
    line = Line()
    for host in (False, True):
        for begun, ended in (("command", "command"), ("cell", "cell"), ("job", "job"), ("run", "run")):
            line.add(f"{begun}_started", host=host, **fields)
            line.add(f"{ended}_ended", host=host, **fields)
        for kind in ("task_changed", "input", "files", "dropped"):
            line.add(kind, "\x1b[2J", host=host, **fields)
    for each in stated_actions(line.entries):
        shown = (each.text, each.why, each.outcome, each.place, each.key or "", each.output_digest)
        assert "\x1b" not in "".join(shown)


def test_a_session_cannot_forge_stated_actions() -> None:
    """Changes of the task are the host's entries; the session's of that kind count for nothing."""
    line = Line()
    line.add("task_changed", CODER, what="x", decision="Trust me", why="because")
    line.ran("ls")
    assert [each.why for each in stated_actions(line.entries)] == [""]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Home(tmp_path / "home").create(), CODER)


def test_a_change_of_the_task_leaves_its_facts_in_the_journal(context: Context) -> None:
    """Of steps, attempts, decisions and notes, with the names that are read here."""
    session = context.store.add_session("work", "image", {}).id
    now = datetime.now(UTC)
    failed = StepAttempt(entry="#3", outcome="failed", at=now, by=CODER, failure_type="oom", verified=True)
    changes: list[Any] = [
        partial(task_changes.set_, goal="g"),
        partial(task_changes.plan, text="P\n- Look :: make\n- Go"),
        partial(task_changes.step, number="1.2", status="active"),
        partial(task_items.decide, text="SQLite", why="no server"),
        partial(task_items.note, text="slow", kind="risk"),
        partial(task_changes.attempt, number="1.1", made=failed),
        partial(task_changes.done, number="1.2", evidence="#5"),
    ]
    for change in changes:
        kept_task.change(context, session, change)
    bodies = [dict(row.body) for row in context.store.entries.of([session])]
    coming = [body.get("next_step") for body in bodies]
    assert coming == [None, *["1.1 Look"] * 6], "of each change, so that a reason needs no question"
    others = ("what", "revision", "next_step")
    facts = [{k: v for k, v in body.items() if k not in others} for body in bodies]
    assert facts == [
        {},
        {},
        {"step": "1.2", "step_title": "Go", "step_status": "active"},
        {"decision": "SQLite", "why": "no server"},
        {"note": "slow"},
        {
            "step": "1.1",
            "step_title": "Look",
            "step_status": "active",
            "entry": "#3",
            "outcome": "failed",
            "verified": True,
            "failure_type": "oom",
        },
        {"step": "1.2", "step_title": "Go", "step_status": "done", "evidence": "#5"},
    ]


def test_without_a_step_that_is_named_the_next_one_is_the_reason() -> None:
    """So that the work has a reason without a question; an active step takes precedence over it."""
    line = Line()
    line.task(next_step="1.1 Look")
    line.ran("ls")
    line.task(**step("2.1", "Move"), next_step="1.1 Look")
    line.ran("mv a b")
    line.task(**step("2.1", "Move", "done"))
    line.ran("true")
    assert [each.why for each in stated_actions(line.entries)] == [
        "step 1.1 Look (the next one)",
        "step 2.1 Move",
        "",
    ]


def test_actions_begin_at_the_last_checkpoint_or_where_they_are_asked_to(context: Context) -> None:
    """A snapshot that is not a checkpoint of the task does not count; one of a foreign past is refused."""
    store = context.store
    session = store.add_session("work", "image", {}).id
    other = store.add_session("other", "image", {}).id

    def taken(label: str, seq: int, parent: str | None, **details: Any) -> str:
        row = store.add_snapshot(session if label != "apart" else other, "live", label=label)
        moment = {"journal_seq": seq, "at": float(seq)}
        kept = SnapshotDetails.of(moment=moment, **details)
        store.update_snapshot(row.id, state="ready", parent_snapshot_id=parent, details=kept)
        return row.id

    checkpoint = taken("cp", 1, None, task={"checkpoint": {"snapshot": "cp"}})
    between = taken("auto", 2, checkpoint, task={"checkpoint": {"snapshot": "cp"}})
    last = store.snapshot(taken("last", 3, between))
    taken("apart", 1, None)
    assert [row.label for row in redo_snapshot.past(store, last)] == ["auto", "cp"]
    found = redo_snapshot.last_checkpoint(store, last)
    assert found is not None
    assert found.label == "cp"
    assert redo_snapshot.last_checkpoint(store, store.snapshot("cp")) is None
    assert redo_snapshot.earlier(context, last, "auto").id == between
    with pytest.raises(InvalidArgument, match="not an ancestor of last"):
        redo_snapshot.earlier(context, last, "apart")
    with pytest.raises(SnapshotNotFound):
        redo_snapshot.up_to(context, last, "nothing")
    assert redo_snapshot.up_to(context, last) == []


def test_a_command_without_reason_and_end_says_so() -> None:
    plain = StatedAction("#1", 1.0, CODER, "command", "ls")
    assert (plain.why, plain.outcome) == ("", "had not ended")

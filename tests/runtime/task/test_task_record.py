"""The task record: its changes, its JSON, its Markdown; a refused change leaves the old record as it was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.task import step_rules, task_form, task_items, task_markdown
from holdfast.runtime.task import task_changes as changes
from holdfast.runtime.task.task_changes import Stamp, TaskChange
from holdfast.runtime.task.task_record import (
    MOST_ATTEMPTS,
    StepAttempt,
    TaskArtifact,
    TaskRecord,
)

AT = datetime(2026, 11, 26, 21, 0, 5, 123456, UTC)
BY = Stamp("agent:coder", AT)
NONSENSE: Any = "nonsense"
OTHER_KIND: Any = "decision"
PLAN = "Prepare:\n- Read the code\n- Run the tests :: make test\n\nChange\n- Migrate :: make check\n"
SCHEMA = Path(__file__).parents[3] / "docs" / "task-record.schema.json"


def begun() -> TaskRecord:
    first = changes.set_(None, BY, goal="Port the store").record
    return changes.plan(first, BY, PLAN).record


def failed(entry: str = "#4") -> StepAttempt:
    return StepAttempt(entry=entry, outcome="failed", at=AT, by="agent", failure_type="tests_failed")


def full() -> TaskRecord:
    record = changes.done(begun(), BY, "1.1", None).record
    record = changes.attempt(record, BY, "1.2", failed()).record
    record = changes.done(record, BY, "1.2", "#5").record
    record = task_items.decide(record, BY, "SQLite", "no server: *one* file <here>").record
    record = task_items.note(record, BY, "Which version?", "question").record
    record = task_items.note(record, BY, "The disk is small", "risk", step="2.1").record
    record = task_items.alternative(record, BY, "LMDB", "no SQL: in it").record
    record = changes.claim(record, Stamp("agent:two/7", AT), "2.1").record
    record = changes.set_(record, BY, profiles={"quick-2": "make: -q"}, checkpoint="step 30m").record
    record = changes.step(record, BY, "1.1", back_end="sqlite").record
    record = task_items.note(record, BY, "- [x] 1.1 looks like a step").record
    record = task_items.read_again(record, BY, "src/a.py", "it has changed").record
    made = TaskArtifact(name="wheel", path="/w/a.whl", digest="sha256:" + "0" * 64, entry="#6")
    record = task_items.artifact(record, BY, made).record
    record = changes.block(record, BY, "no key", "a key", step_number="2.1", tried="both").record
    record = changes.set_(record, BY, resume_at="step 2.1", retry_limit=0, verify="make").record
    return changes.checkpoint(record, BY, "midway", None).record


def test_a_plan_has_phases_and_numbered_steps() -> None:
    """Each step has the number of its phase and its own, its title, and the command that verifies it."""
    assert [(number, step.title, step.verify) for number, step in begun().steps()] == [
        ("1.1", "Read the code", None),
        ("1.2", "Run the tests", "make test"),
        ("2.1", "Migrate", "make check"),
    ]


def test_every_change_counts_and_names_its_actor() -> None:
    """The revision grows by one; the time is kept to the second."""
    change = task_items.decide(begun(), Stamp("person:ann", AT), "SQLite", "no server")
    assert (change.record.revision, change.record.by) == (3, "person:ann")
    assert change.line == "decided: SQLite"
    assert change.record.decisions[0].at == AT.replace(microsecond=0)


def test_a_new_plan_keeps_finished_steps() -> None:
    """A step with the same title is still done, wherever the new plan has it."""
    record = changes.done(begun(), BY, "1.1", None).record
    replanned = changes.plan(record, BY, "Prepare\n- Ask\n- Read the code\nChange\n- Rewrite").record
    assert [(step.title, step.status) for _, step in replanned.steps()] == [
        ("Ask", "open"),
        ("Read the code", "done"),
        ("Rewrite", "open"),
    ]


def test_a_step_with_another_verification_is_not_done_any_more() -> None:
    """Evidence proves the command that ran, and no other."""
    record = changes.done(begun(), BY, "1.2", "#5").record
    for changed in (
        changes.plan(record, BY, PLAN.replace("make test", "make all")).record,
        changes.step(record, BY, "1.2", verify="make all").record,
    ):
        step = step_rules.find_step(changed, "1.2")
        assert (step.status, step.evidence, step.verify) == ("active", None, "make all")


def test_a_step_is_done_only_with_evidence_if_something_verifies_it() -> None:
    """Its own verification command, or the policy's for all steps."""
    record = begun()
    with pytest.raises(InvalidArgument, match="has not passed"):
        changes.done(record, BY, "1.2", None)
    with pytest.raises(InvalidArgument, match=r"cannot set step 1[.]1 to done"):
        changes.step(record, BY, "1.1", status="done")
    by_policy = changes.set_(record, BY, verify="make").record
    with pytest.raises(InvalidArgument, match="has not passed"):
        changes.done(by_policy, BY, "1.1", None)
    assert step_rules.find_step(changes.done(record, BY, "1.2", "#9").record, "1.2").evidence == "#9"


def test_a_verification_that_was_changed_while_it_ran_proves_nothing() -> None:
    """The result counts only if the step still has the command that ran."""
    changed = changes.step(begun(), BY, "1.2", verify="make all").record
    with pytest.raises(InvalidArgument, match="was changed in the meantime"):
        changes.verified(changed, BY, "1.2", "make test", "#3")
    assert changes.verified(changed, BY, "1.2", "make all", "#3").record.finished == (1, 3)


def test_old_attempts_are_counted_not_lost_silently() -> None:
    """The newest attempts are kept in full, the others as a number."""
    record = begun()
    for entry in range(1, MOST_ATTEMPTS + 4):
        record = changes.attempt(record, BY, "1.2", failed(f"#{entry}")).record
    step = step_rules.find_step(record, "1.2")
    assert (step.tries, len(step.attempts), step.earlier_attempts) == (11, MOST_ATTEMPTS, 3)
    assert step.attempts[-1].entry == "#11"
    assert step.status == "active"


def test_the_policy_limits_retries() -> None:
    """An attempt beyond the limit is refused, with the number of failures."""
    record = changes.set_(begun(), BY, retry_limit=1).record
    for entry in ("#1", "#2"):
        record = changes.attempt(record, BY, "1.2", failed(entry)).record
    with pytest.raises(InvalidArgument, match="failed 2 times, and the limit is 1"):
        changes.attempt(record, BY, "1.2", failed("#3"))


def test_blocked_work_names_its_step_and_continues_when_unblocked() -> None:
    """Record and step are blocked together, and active again together."""
    record = changes.block(begun(), BY, "no key", "a key", step_number="2.1").record
    assert (record.state, step_rules.find_step(record, "2.1").status) == ("blocked", "blocked")
    record = changes.unblock(record, BY).record
    assert (record.state, step_rules.find_step(record, "2.1").status) == ("active", "active")
    with pytest.raises(InvalidArgument, match="nothing blocks it"):
        changes.unblock(record, BY)


def test_settled_items_can_be_dropped() -> None:
    """By kind and number; unknown kinds and numbers are refused."""
    record = task_items.note(begun(), BY, "Which?", "question").record
    assert task_items.drop(record, BY, "question", 1).record.questions == ()
    for kind, number in (("question", 2), ("question", 0), ("goal", 1)):
        with pytest.raises(InvalidArgument, match="cannot drop"):
            task_items.drop(record, BY, kind, number)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r: changes.step(r, BY, "9.1", status="active"), "cannot find step 9.1"),
        (lambda r: changes.step(r, BY, "1.1"), "no change was given"),
        (lambda r: changes.plan(r, BY, "- Step without a phase"), "without a phase"),
        (lambda r: changes.plan(r, BY, "\n \n"), "no step"),
        (lambda r: changes.plan(changes.done(r, BY, "1.1", None).record, BY, "A\n- b"), "is missing"),
        (lambda r: task_items.decide(r, BY, "  ", "why"), "text: it is empty"),
        (lambda r: task_items.note(r, BY, "x", OTHER_KIND), "cannot add a 'decision'"),
        (lambda r: task_items.note(r, BY, "x", NONSENSE), "cannot add a 'nonsense'"),
        (lambda r: changes.step(r, BY, "1.1", status=NONSENSE), "status: "),
        (lambda r: task_items.decide(r, BY, "x" * 1001, "why"), "1001 characters"),
        (lambda r: task_items.decide(r, BY, "a\x1b[31mb", "why"), "control characters"),
        (lambda r: changes.set_(r, BY), "no value was given"),
        (lambda r: changes.set_(r, BY, retry_limit=-1), "retry_limit"),
        (lambda r: changes.set_(None, BY, resume_at="x"), "the session does not have one"),
        (lambda r: task_items.note(None, BY, "x"), "the session does not have one"),
        (
            lambda r: task_items.decide(task_items.decide(r, BY, "a", "b").record, BY, "a ", "c"),
            "locked already",
        ),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: Any, why: str) -> None:
    """The record is the same as before."""
    record = begun()
    before = task_form.dump(record)
    with pytest.raises(InvalidArgument, match=why):
        change(record)
    assert task_form.dump(record) == before


def test_a_record_that_is_too_large_is_refused_not_cut() -> None:
    """The message has the size and the number of bytes beyond the limit."""
    record = begun()
    for number in range(17):
        record = task_items.note(record, BY, f"{number} " + "ä" * 900).record
    with pytest.raises(InvalidArgument, match=r"would take 3\d{4} bytes, \d+ too many"):
        task_items.note(record, BY, "ä" * 1000)
    assert len(task_form.compact(task_form.dump(record))) <= task_form.MOST_BYTES


def test_json_round_trip() -> None:
    """A record with every field is the same after it was written and read."""
    assert task_form.parse(task_form.compact(task_form.dump(full()))) == full()


def test_json_has_no_empty_fields() -> None:
    """A record with a goal alone has its goal and its head."""
    values = task_form.dump(changes.set_(None, BY, goal="g").record)
    assert values == {
        "format": 1,
        "revision": 1,
        "updated": "2026-11-26T21:00:05Z",
        "by": "agent:coder",
        "goal": "g",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON|longer than"),
        ("[]", "not a JSON object"),
        ("{}", "format number is missing"),
        ('{"format": 2, "goal": {"new": "form"}}', "a newer version wrote it"),
        ('{"format": 1, "goal": "g"}', "Field required"),
        ('{"format": 1, "goal": "g", "updated": "2026-01-01T00:00:00", "by": "a"}', "timezone"),
        ('{"format": 1, "goal": "g", "updated": "2026-01-01T00:00:00Z", "by": "a", "x": 1}', "x: Extra"),
        (
            '{"format": true, "goal": "g", "updated": "2026-01-01T00:00:00Z", "by": "a"}',
            "format number is missing",
        ),
        ("x" * 200_000, "longer than"),
    ],
)
def test_other_json_is_refused_in_one_line(text: str, why: str) -> None:
    """The message begins with the action and says what is wrong."""
    with pytest.raises(InvalidArgument, match=why) as refused:
        task_form.parse(text)
    assert str(refused.value).startswith("cannot read the task record: ")
    assert "\n" not in str(refused.value)


def test_the_published_schema_is_the_record_s() -> None:
    """`setup/task-schema` writes it."""
    assert json.loads(SCHEMA.read_text()) == task_form.schema()


def test_markdown_round_trip() -> None:
    """A record with every field is the same after it was written and read, also with the line ends of
    trackers.
    """
    record = full()
    assert task_markdown.parse(task_markdown.export(record)) == record
    trackers = task_markdown.export(record).replace("\n", "\r\n")
    assert task_markdown.parse(trackers) == record


@pytest.mark.parametrize("seed", range(60))
def test_markdown_round_trip_of_random_records(seed: int) -> None:
    """Texts are made of the form's own characters."""
    record = _random(random.Random(seed))
    assert task_markdown.parse(task_markdown.export(record)) == record
    assert task_form.parse(task_form.compact(task_form.dump(record))) == record


@pytest.mark.parametrize("section", task_markdown.SECTIONS)
def test_markdown_without_a_section_is_refused(section: str) -> None:
    """Only the section of alternatives is optional."""
    text = task_markdown.export(full())
    without = text.replace(f"## {section}\n", "")
    if section in task_markdown.OPTIONAL:
        assert task_markdown.parse(without).alternatives == ()
        return
    with pytest.raises(InvalidArgument, match="cannot import the task record: "):
        task_markdown.parse(without)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("## Risks", "## Dangers", "'Dangers' is not a section"),
        ("## Risks", "## Policy", "section 'Policy' occurs twice"),
        ("## Risks\n\n- ", "## Risks\n\n", "line [0-9]+: .*is not an item"),
        ("- revision: 18", "- revision: many", "revision"),
        ("- format: 1", "- format: 7", "a newer version wrote it"),
        ("- format: 1\n", "", "format number is missing"),
        ("# Task: Port the store", "", "lacks the line '# Task: GOAL'"),
        ("    - outcome: failed", "    - outcome: failed\n    - outcome: passed", "occurs twice"),
    ],
)
def test_markdown_edited_into_nonsense_is_refused(old: str, new: str, why: str) -> None:
    """In one line that says what is wrong."""
    text = task_markdown.export(full())
    assert old in text
    with pytest.raises(InvalidArgument, match=why) as refused:
        task_markdown.parse(text.replace(old, new, 1))
    assert "\n" not in str(refused.value)


def test_markdown_is_taken_as_people_write_it() -> None:
    """Bullets, indentation, boxes and numbers as trackers have them; author and time are the importer's."""
    text = task_markdown.export(task_items.note(begun(), BY, "by the agent").record)
    edits = [
        ("# Task: Port the store", "<!-- please review\nby Friday -->\n# Task: Port the store"),
        ("- [ ] 1.1 Read the code", "* [X] Read the code\n- [ ] Added here\n\t- verify: make new"),
        ("### 2. Change", "### 7. Change"),
        ("  - verify: make check", "    * verify: make check"),
        ("## Risks\n\nNone.", "## Risks\n\nNone.\n+ It may rain"),
        ("## Decisions locked\n\nNone.", "## Decisions locked\n\n- SQLite\n- Tabs\n    - why: width"),
        ("## Notes\n\n", "## Notes\n\nI looked at it, and it is fine.\n\n"),
    ]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    record = task_markdown.parse(text, by="person:ada", at=AT)
    steps = {number: (step.title, step.status, step.verify) for number, step in record.steps()}
    assert steps == {
        "1.1": ("Read the code", "done", None),
        "1.2": ("Added here", "open", "make new"),
        "1.3": ("Run the tests", "open", "make test"),
        "2.1": ("Migrate", "open", "make check"),
    }
    assert [(each.text, each.why, each.by) for each in record.decisions] == [
        ("SQLite", "no reason was given", "person:ada"),
        ("Tabs", "width", "person:ada"),
    ]
    assert [(each.text, each.by) for each in record.risks] == [("It may rain", "person:ada")]
    assert [(each.text, each.by) for each in record.notes] == [
        ("I looked at it, and it is fine.", "person:ada"),
        ("by the agent", "agent:coder"),
    ]
    with pytest.raises(InvalidArgument, match=r"decisions\.0"):
        task_markdown.parse(text)


def test_a_block_follows_its_step_to_a_new_number() -> None:
    """A step inserted before it in Markdown moves both."""
    text = task_markdown.export(full())
    blocked = text.replace("- [ ] 2.1 Migrate", "- [ ] Before it\n- [ ] 2.1 Migrate", 1)
    record = task_markdown.parse(blocked, by="person:ada", at=AT)
    assert record.blocked is not None
    assert (record.blocked.step, step_rules.find_step(record, "2.2").title) == ("2.2", "Migrate")


def test_a_resume_point_goes_with_its_step_and_has_an_age() -> None:
    """It keeps the revision in which it was set, and ends when its step is done."""
    record = changes.set_(begun(), BY, resume_at="2.1: migrate.py, once").record
    assert record.resume_revision == record.revision
    later = changes.done(record, BY, "1.1", None).record
    assert (later.resume_at, later.resume_revision) == ("2.1: migrate.py, once", record.revision)
    ended = changes.verified(later, BY, "2.1", "make check", "#4").record
    assert (ended.resume_at, ended.resume_revision) == (None, None)


def test_the_limit_counts_failures_only() -> None:
    """Attempts that passed can be as many as they like."""
    record = changes.set_(begun(), BY, retry_limit=1).record
    passed = StepAttempt(entry="#9", outcome="passed", at=AT, by="agent")
    for _ in range(MOST_ATTEMPTS + 5):
        record = changes.attempt(record, BY, "1.2", passed).record
    record = changes.attempt(record, BY, "1.2", failed()).record
    assert step_rules.find_step(record, "1.2").failures == 1
    record = changes.attempt(record, BY, "1.2", failed()).record
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="failed 2 times"):
            changes.attempt(record, BY, "1.2", passed)


def test_a_plan_has_no_two_steps_of_one_title_in_a_phase() -> None:
    """The message names the line of the second one."""
    with pytest.raises(InvalidArgument, match="line 3 is a second step 'Same' of phase 'Phase'"):
        changes.plan(begun(), BY, "Phase\n- Same\n- Same\n")


def _random(dice: random.Random) -> TaskRecord:
    pieces = [
        "- ",
        "## Risks",
        "### 1. ",
        "[x] 1.1",
        "why: ",
        ":: ",
        "None.",
        "é",
        "#4",
        "`",
        "\\",
        "a b",
        "attempt ",
    ]

    def text() -> str:
        return "".join(dice.choice(pieces) for _ in range(dice.randint(1, 6))).strip() or "x"

    change: TaskChange = changes.set_(None, BY, goal=text())
    plan = "\n".join(
        line
        for number in range(dice.randint(1, 4))
        for line in (f"P{number} {text()}", *(f"- s{n} {text()}" for n in range(dice.randint(1, 4))))
    )
    change = changes.plan(change.record, BY, plan)
    numbers = [number for number, _ in change.record.steps()]
    for _ in range(dice.randint(0, 12)):
        record, number = change.record, dice.choice(numbers)
        possible: list[Callable[[], TaskChange]] = [
            partial(task_items.note, record, BY, text(), dice.choice(["note", "question", "risk"])),
            partial(task_items.decide, record, BY, f"{dice.random()} {text()}", text()),
            partial(changes.step, record, BY, number, status=dice.choice(["open", "active", "skipped"])),
            partial(changes.attempt, record, BY, number, failed()),
            partial(changes.done, record, BY, number, "#3"),
            partial(changes.block, record, BY, text(), text(), step_number=number, tried=text()),
            partial(task_items.read_again, record, BY, text(), text()),
            partial(task_items.artifact, record, BY, TaskArtifact(name=text(), path=text())),
            partial(changes.set_, record, BY, resume_at=text(), retry_limit=99, back_end=text()),
            partial(changes.checkpoint, record, BY, text(), text()),
        ]
        change = dice.choice(possible)()
    return change.record

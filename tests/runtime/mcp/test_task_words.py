"""What agents write into the tool for tasks, and what they read instead of commands."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.mcp import task_words
from holdfast.runtime.task import task_changes
from holdfast.runtime.task.handoff import handoff
from holdfast.runtime.task.task_changes import Stamp

ME = Stamp("agent:coder", datetime(2026, 3, 1, tzinfo=UTC))


def test_an_agent_reads_actions_of_its_tool_in_place_of_commands() -> None:
    """It has no command line: nothing of a blocked task's handoff suggests one."""
    record = task_changes.set_(None, ME, goal="Port it").record
    record = task_changes.plan(record, ME, "A\n" + "\n".join(f"- Step {n}" for n in range(60))).record
    record = task_changes.block(record, ME, "no key", "a key", step_number="1.1", entry="#12").record
    dead = "The session is dead: `holdfast task resume work` brings it back."
    for budget in (300, 5000):
        text = handoff("work", record, budget, standing=dead)
        assert "`holdfast " in text
        assert "holdfast " not in task_words.for_agents(text)
    assert "`task(unblock)`, `task(resume)`" in task_words.for_agents(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry limit: 3\nback end: sqlite", {"retry_limit": 3, "back_end": "sqlite"}),
        ("profile: quick=make: -q\nprofile: full=", {"profiles": {"quick": "make: -q", "full": ""}}),
        ("checkpoint: step 30m\nverify: @quick", {"checkpoint": "step 30m", "verify": "@quick"}),
    ],
)
def test_a_policy_is_read_from_lines(text: str, expected: dict[str, object]) -> None:
    assert task_words.policy(text) == expected


@pytest.mark.parametrize("text", ["nonsense", "retry limit: many", "profile: quick", "verify: a\nverify: b"])
def test_a_line_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        task_words.policy(text)


def test_the_first_line_of_a_block_is_what_blocks() -> None:
    """It may have a colon of its own."""
    known = ("why", "entry", "tried")
    found = task_words.fields("mirror: 403 for all\ntried: twice\nentry: #12", known, "why")
    assert found == {"why": "mirror: 403 for all", "tried": "twice", "entry": "#12"}
    with pytest.raises(InvalidArgument, match="cannot read line 2"):
        task_words.fields("no key\nand more", known, "why")

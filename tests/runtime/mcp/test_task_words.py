"""Agents' input to the tool for tasks, and the texts they read in place of commands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.mcp import task_tools
from holdfast.runtime.task import task_changes
from holdfast.runtime.task.handoff import handoff
from holdfast.runtime.task.task_changes import Stamp

ME = Stamp("agent:coder", datetime(2026, 3, 1, tzinfo=UTC))


def test_an_agent_reads_actions_of_its_tool_in_place_of_commands() -> None:
    """It does not have a command line: a blocked task's handoff suggests no commands."""
    record = task_changes.set_(None, ME, goal="Port it").record
    record = task_changes.plan(record, ME, "A\n" + "\n".join(f"- Step {n}" for n in range(60))).record
    record = task_changes.block(record, ME, "no key", "a key", step_number="1.1", entry="#12").record
    dead = "The session is dead: `holdfast task resume work` brings it back."
    for budget in (300, 5000):
        text = handoff("work", record, budget, standing=dead)
        assert "`holdfast " in text
        assert "holdfast " not in task_tools.for_agents(text)
    assert "`task(unblock)`, `task(resume)`" in task_tools.for_agents(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry limit: 3\nback end: sqlite", {"retry_limit": 3, "back_end": "sqlite"}),
        ("profile: quick=make: -q\nprofile: full=", {"profiles": {"quick": "make: -q", "full": ""}}),
        ("checkpoint: step 30m\nverify: @quick", {"checkpoint": "step 30m", "verify": "@quick"}),
    ],
)
def test_a_policy_is_read_from_lines(text: str, expected: dict[str, object]) -> None:
    assert task_tools.policy(text) == expected


@pytest.mark.parametrize("text", ["nonsense", "retry limit: many", "profile: quick", "verify: a\nverify: b"])
def test_malformed_rules_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        task_tools.policy(text)


def test_the_first_line_of_a_block_is_the_obstacle() -> None:
    """It can have a colon of its own."""
    known = ("why", "entry", "tried")
    found = task_tools.fields("mirror: 403 for all\ntried: twice\nentry: #12", known, "why")
    assert found == {"why": "mirror: 403 for all", "tried": "twice", "entry": "#12"}
    with pytest.raises(InvalidArgument, match="cannot read line 2"):
        task_tools.fields("no key\nand more", known, "why")


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (task_tools.done, "", {}),
        (task_tools.done, "out/junit.xml\nbusy wait: 2m", {"junit": "out/junit.xml", "busy_wait": 120.0}),
        (task_tools.done, "timeout: 5", {"timeout": 5.0}),
        (task_tools.block, "no key\nsuspend: yes", {"why": "no key", "suspend": True}),
        (task_tools.checkpoint, "kind: filesystem", {"kind": "filesystem"}),
        (task_tools.checkpoint, "good\nresume at: 2.1: ask", {"label": "good", "resume_at": "2.1: ask"}),
        (task_tools.artifact, "dist/a.whl", {"name": "a.whl", "path": "dist/a.whl"}),
        (task_tools.artifact, "a\nname: wheel\nentry: #3", {"name": "wheel", "path": "a", "entry": "#3"}),
    ],
)
def test_further_fields_of_an_action_are_read_from_lines(
    read: Callable[[str], dict[str, Any]], text: str, expected: dict[str, Any]
) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (task_tools.done, "a.xml\ntimeout: soon"),
        (task_tools.block, "no key\nsuspend: maybe"),
        (task_tools.checkpoint, "good\nkind: all"),
        (task_tools.artifact, "name: wheel"),
        (task_tools.artifact, "a\nb"),
    ],
)
def test_nonsense_besides_is_refused(read: Callable[[str], dict[str, Any]], text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot "):
        read(text)

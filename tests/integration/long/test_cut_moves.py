"""Moves of sessions that fail at different requests, and in different ways, than the moves of `make test`."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest
from tests.machines.login import HOST
from tests.machines.moves import REMOTE, There, here, is_whole, prepared, wait_until

from holdfast.base import polling
from holdfast.errors import MoveFailed, OutcomeUnknown, SessionBusy
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.moving import move_session

pytestmark = pytest.mark.timeout(300)


def test_a_suspended_session_moves(hf: Holdfast, there: There) -> None:
    session = prepared(hf)
    session.suspend()
    moved = session.move(HOST, remote_command=REMOTE)
    assert moved.rest == moved.bytes > 0
    assert there.states() == {"work": "running"}
    assert hf.sessions() == []
    is_whole(there.says)


@pytest.mark.parametrize(
    ("do", "when", "nth"),
    [
        ("prepare", "before", 1),
        ("import", "killed", 1),
        ("import", "delivered", 2),
        ("import", "answered", 2),
    ],
)
def test_other_failures_leave_it_here(hf: Holdfast, there: There, do: str, when: str, nth: int) -> None:
    """And running; another move brings it over."""
    session = prepared(hf)
    there.fails(do, when, nth)
    with pytest.raises(MoveFailed) as failed:
        session.move(HOST, remote_command=REMOTE)
    assert "it continues here" in failed.value.hint
    assert not (there.folder / "fault").exists()
    assert [each.state for each in hf.sessions()] == ["running"]
    assert there.states() == {}
    if when != "killed":
        assert polling.until(lambda: there.cli("snapshots", "--json") == "[]", 30, 0.5)
    is_whole(here(hf.session("work")))
    hf.session("work").move(HOST, remote_command=REMOTE)
    assert (hf.sessions(), there.states()) == ([], {"work": "running"})
    is_whole(there.says)


@pytest.mark.parametrize("when", ["delivered"])
def test_a_reply_that_never_came_is_asked_for_again(hf: Holdfast, there: There, when: str) -> None:
    """The session runs there, and only there."""
    session = prepared(hf)
    there.fails("start", when)
    moved = session.move(HOST, remote_command=REMOTE)
    assert not (there.folder / "fault").exists()
    assert (hf.sessions(), there.states()) == ([], {"work": "running"})
    assert moved.session_id in there.cli("ls", "--json")
    is_whole(there.says)


def test_a_receiver_that_dies_while_it_starts_the_session_leaves_it_here(hf: Holdfast, there: There) -> None:
    """Its partial work there is undone before the session is looked for."""
    session = prepared(hf)
    there.fails("start", "killed")
    try:
        session.move(HOST, remote_command=REMOTE)
    except MoveFailed:
        assert (there.states(), [each.state for each in hf.sessions()]) == ({}, ["running"])
        is_whole(here(hf.session("work")))
    else:  # it had started in time
        assert (hf.sessions(), there.states()) == ([], {"work": "running"})


@pytest.mark.parametrize("when", ["answered"])
def test_without_the_answer_it_runs_nowhere_until_another_move_settles_it(
    hf: Holdfast, there: There, cli: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    session = prepared(hf)
    monkeypatch.setattr(move_session, "ASKING", 1.0)
    there.fails("start", when, lost=True)
    with pytest.raises(OutcomeUnknown, match="cannot tell whether work runs at there"):
        session.move(HOST, remote_command=REMOTE)
    assert [each.state for each in hf.sessions()] == ["suspended"]
    (held,) = (each for each in hf.snapshots() if each.id == hf.session("work").parent_snapshot_id)
    for verb in (["resume", "work"], ["rewind", "work", held.id], ["move", "work", "elsewhere"]):
        said = cli(*verb)
        assert said.code != 0, verb
        assert "it possibly runs at there" in said.err, said.err
    with Holdfast(hf.home) as again:  # which looks for what was cut short
        assert [each.state for each in again.sessions()] == ["suspended"]
    there.returns()
    assert there.states() == ({} if when == "before" else {"work": "running"})
    said = cli("move", "work", HOST, "--remote-command", REMOTE)
    assert said.code == 0, said.err
    assert (hf.sessions(), hf.snapshots(), there.states()) == ([], [], {"work": "running"})
    is_whole(there.says)


def test_a_user_can_declare_that_a_session_does_not_run_there(
    hf: Holdfast, there: There, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After which the other machine is of no concern."""
    session = prepared(hf)
    monkeypatch.setattr(move_session, "ASKING", 1.0)
    there.fails("start", "before", lost=True)
    with pytest.raises(OutcomeUnknown):
        session.move(HOST, remote_command=REMOTE)
    assert cli("resume", "work", "--here").code == 0
    is_whole(here(hf.session("work")))
    there.returns()


@pytest.mark.parametrize(("do", "nth"), [("put", 2), ("import", 1), ("start", 1)])
def test_a_killed_source_is_settled_by_the_next_command(
    hf: Holdfast, there: There, cli: Any, do: str, nth: int
) -> None:
    """Before the other machine has permission to start it, it continues here; after that a move asks."""
    prepared(hf)
    there.fails(do, "held", nth)
    moving = cli.start("move", "work", HOST, "--remote-command", REMOTE)
    wait_until((there.folder / "held").exists, moving)
    moving.kill()
    moving.wait()
    with Holdfast(hf.home) as again:
        (session,) = again.sessions()
        if do == "start":
            assert session.state == "suspended"
            with pytest.raises(OutcomeUnknown):
                session.resume()
            session.move(HOST, remote_command=REMOTE)
            assert (again.sessions(), there.states()) == ([], {"work": "running"})
            is_whole(there.says)
        else:
            assert session.state == "running"
            is_whole(here(session))
            # As after `suspend` and `resume`: what it was suspended in stays.
            assert [each.id for each in again.snapshots()] == (
                [session.parent_snapshot_id] if (do, nth) == ("import", 2) else []
            )
            assert there.states() == {}


@pytest.mark.parametrize("nth", [1])
def test_an_early_interrupt_leaves_it_here(hf: Holdfast, there: There, cli: Any, nth: int) -> None:
    prepared(hf)
    there.fails("import", "held", nth)
    moving = cli.start("move", "work", HOST, "--remote-command", REMOTE, stderr=subprocess.PIPE)
    wait_until((there.folder / "held").exists, moving)
    os.kill(moving.pid, signal.SIGINT)
    _, said = moving.communicate(timeout=120)
    assert moving.returncode == 130, said
    assert [each.state for each in hf.sessions()] == ["running"]
    is_whole(here(hf.session("work")))
    assert len(hf.snapshots()) == nth - 1
    assert there.states() == {}


def test_two_moves_of_a_session_do_not_meet(hf: Holdfast, there: There, cli: Any) -> None:
    prepared(hf)
    there.fails("import", "held", 1)
    moving = cli.start("move", "work", HOST, "--remote-command", REMOTE)
    wait_until((there.folder / "held").exists, moving)
    try:
        with pytest.raises(SessionBusy):
            hf.session("work").move(HOST, remote_command=REMOTE)
    finally:
        moving.kill()
        moving.wait()
    with Holdfast(hf.home) as again:
        is_whole(here(again.session("work")))

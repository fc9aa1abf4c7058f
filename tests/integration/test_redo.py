"""The way to a snapshot: listed with its reasons, and repeated in sessions of files only and fresh ones."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.integration.conftest import Cli

from holdfast.errors import InvalidArgument, SessionExists, SnapshotNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast


@pytest.fixture(scope="module")
def worked(shared: Session) -> Session:
    """A session with two checkpoints: `first`, and `second` after some work on a task."""
    task = shared.task
    task.set(goal="Count")
    task.plan("Count\n- Write it\n- Check it :: test $(cat total) = 3")
    assert shared.exec("mkdir -p /tmp/work; cd /tmp/work; echo 1 > total").ok
    task.checkpoint("first", kind="filesystem")
    task.step("1.1", status="active")
    task.decide("A file", "no server")
    shared.exec("echo $(($(cat total) + 1)) > total; cat total", reason="one more")
    shared.exec("echo paid >> bill; cat bill", key="pay-1")
    shared.cell("open('/tmp/work/cell', 'w').write('x' * 3)")
    task.done("1.2")
    shared.exec("echo 3 > total")
    task.done("1.2")
    task.checkpoint("second", kind="filesystem")
    return shared


@pytest.fixture
def made(shared_hf: Holdfast) -> Iterator[list[str]]:
    """Names of sessions that a test makes, which are removed after it."""
    names: list[str] = []
    yield names
    for name in names:
        shared_hf.remove_session(name)


def test_actions_between_checkpoints_have_reasons_and_results(worked: Session, shared_hf: Holdfast) -> None:
    """From the checkpoint before, another snapshot, or the session's begin."""
    actions = shared_hf.snapshot("second").actions()
    assert [(each.kind, each.result, each.attempt) for each in actions] == [
        ("command", 0, ""),
        ("command", 0, ""),
        ("cell", "ok", ""),
        ("command", 1, "failed"),
        ("command", 0, ""),
        ("command", 0, "passed"),
    ]
    assert actions[0].why == "one more; step 1.1 Write it; A file (no server)"
    assert actions[1].key == "pay-1"
    assert (actions[3].step, actions[3].verified) == ("1.2 Check it", True)
    assert shared_hf.snapshot("first").actions()[0].text.startswith("mkdir")
    with pytest.raises(InvalidArgument, match="not an ancestor"):
        shared_hf.snapshot("first").actions("second")
    with pytest.raises(SnapshotNotFound):
        shared_hf.snapshot("first").actions("nothing")


def test_the_command_line_shows_why(worked: Session, shared_cli: Cli) -> None:
    """As a table and as JSON; options that only make sense on a terminal are refused in one line."""
    shown = shared_cli("replay", "second", "--why").out
    assert "one more; step 1.1 Write it; A file (no server)" in shown
    assert "verification failed" in shown
    told = json.loads(shared_cli("replay", "second", "--why", "--from", "first", "--json").out)
    assert told[0]["why"].startswith("one more")
    assert told[0]["outcome"] == "exit 0"
    refused = shared_cli("replay", "second", "--why", "--cast", "-")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "takes only --from and --json" in refused.err


def test_a_redo_begins_with_the_files_of_the_snapshot_before(
    worked: Session, shared_hf: Holdfast, made: list[str]
) -> None:
    """In the directory of that time; a command with a key is not repeated."""
    found = shared_hf.snapshot("second").redo("again")
    made.append("again")
    assert [each.fate for each in found.actions] == ["same", "skipped", "same", "same", "same", "same"]
    assert (found.complete, found.base, found.rung, found.left) == (True, "first", "files", 0)
    again = shared_hf.session("again")
    assert again.exec("pwd; cat total; cat cell; ls bill").plain.splitlines()[:2] == ["/tmp/work", "3"]
    assert not again.exec("test -e bill").ok
    reasons = [entry.details.get("reason") for entry in again.journal(kinds=["command_started"])]
    assert f"{found.actions[0].action.entry} of second again" in reasons
    with pytest.raises(SessionExists):
        shared_hf.snapshot("second").redo("again")


def test_a_redo_can_begin_with_a_fresh_session(worked: Session, shared_hf: Holdfast, made: list[str]) -> None:
    """Keys that the caller names are repeated, under the same key; entries can be left out."""
    entry = shared_hf.snapshot("second").actions()[0].entry
    found = shared_hf.snapshot("second").redo("fresh", since="begin", repeat=["pay-1"], skip=[entry])
    made.append("fresh")
    assert (found.base, found.rung, found.complete) == ("", "fresh", True)
    assert [each.fate for each in found.actions] == [
        "same",
        "skipped",
        "same",
        "same",
        "same",
        "same",
        "same",
    ]
    fresh = shared_hf.session("fresh")
    assert fresh.exec("cat /tmp/work/bill").text == "paid\n"
    fresh.exec("echo paid >> bill; cat bill", key="pay-1")
    assert fresh.exec("cat /tmp/work/bill").text == "paid\n", "the key is taken"


def test_a_redo_ends_at_the_first_difference(worked: Session, shared_hf: Holdfast, made: list[str]) -> None:
    """Of output or exit code; outputs that differ by nature can be left uncompared. The session continues."""
    before = worked.snapshot("before-dice", "filesystem")
    worked.exec("cat /proc/sys/kernel/random/uuid")
    worked.exec("test -e /nowhere || touch /tmp/after")
    last = worked.snapshot("after-dice", "filesystem")
    found = last.redo("dice")
    made.append("dice")
    assert [(each.fate, each.why) for each in found.actions] == [("differs", "its output differs")]
    assert (found.complete, found.left, found.base) == (False, 1, before.name)
    assert shared_hf.session("dice").exec("test -e /tmp/after || pwd").text == "/tmp/work\n"

    loose = last.redo("loose", exit_codes=True)
    made.append("loose")
    assert loose.complete


@pytest.mark.thorough
def test_an_unrepeatable_command_ends_the_redo(
    worked: Session, shared_hf: Holdfast, made: list[str], shared_cli: Cli
) -> None:
    """Files from outside, for instance; the caller can leave them out, and continue by hand."""
    worked.snapshot("before-files", "filesystem")
    worked.files.write("/tmp/work/given", b"5")
    worked.exec("cat given")
    worked.snapshot("after-files", "filesystem")
    ended = shared_cli("redo", "after-files", "--name", "given")
    made.append("given")
    assert (ended.code, ended.out.strip()) == (1, "given")
    assert "its files came from outside" in ended.err
    assert "holdfast attach given" in ended.err
    entry = shared_hf.snapshot("after-files").actions("before-files")[0].entry
    told = json.loads(shared_cli("redo", "after-files", "--skip", entry, "--json").out)
    made.append(told["session"])
    assert [each["fate"] for each in told["actions"]] == ["skipped", "differs"]
    with pytest.raises(InvalidArgument, match="cannot redo as 'commands'"):
        shared_hf.snapshot("after-files").redo(rung="commands")
    for words in (("--skip", "#99999"), ("--repeat", "nothing"), ("--from", "second-of-none")):
        refused = shared_cli("redo", "after-files", *words)
        assert (refused.code, refused.err.startswith("holdfast: cannot")) == (1, True)
    assert {each.name for each in shared_hf.sessions()} == {"shared", *made}


def test_a_redo_works_over_a_url(worked: Session, remote: RemoteHoldfast, made: list[str]) -> None:
    found = remote.snapshot("second").redo("far")
    made.append("far")
    assert found.complete
    assert [each.fate for each in found.actions].count("skipped") == 1
    assert [each.text for each in remote.snapshot("second").actions()] == [
        each.action.text for each in found.actions
    ]


@pytest.mark.thorough
def test_a_session_that_went_back_begins_where_it_began_and_has_free_keys(
    shared_hf: Holdfast, made: list[str]
) -> None:
    """A key of the timeline that was left is free; and once dead, the session still has its events."""
    session = shared_hf.new("back")
    made.append("back")
    assert session.exec("echo 1 > /tmp/one").ok
    session.snapshot("before-all", "filesystem")
    assert session.exec("echo left > /tmp/two", key="pay-2").ok
    session.rewind("before-all")
    assert session.exec("cat /tmp/one > /tmp/three", key="pay-2").ok
    session.snapshot("after-all", "filesystem")
    with pytest.raises(InvalidArgument, match="it was used for another call"):
        session.exec("echo again", key="pay-2")
    again = shared_hf.snapshot("after-all").redo("again-1", since="begin", repeat=["pay-2"])
    made.append("again-1")
    assert (again.rung, again.complete) == ("fresh", True)
    shared_hf.engine.client.containers.get(str(session.row.container_id)).kill()
    events = list(shared_hf.session("back").events(kinds=["command_started"]))
    assert [event.kind for event in events] == ["command_started", "command_started", "session_ended"]

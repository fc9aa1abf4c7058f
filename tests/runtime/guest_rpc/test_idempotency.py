"""Keys on the host: the knowledge of a key when its session can no longer be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, OutcomeUnknown, SessionBusy, SessionDead
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest_rpc import idempotency
from holdfast.runtime.guest_rpc.idempotency import IdempotentCall, Intents, cell_once, exec_once
from holdfast.runtime.guest_rpc.key_table import SLOT
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.journal import host_events, journal_query
from holdfast.runtime.store.rows import SessionRow

RESULT = ExecResult(0, b"out", 0, 3)


@pytest.fixture
def controller(home: Home) -> Holdfast:
    return Holdfast(home)


@pytest.fixture
def session(controller: Holdfast) -> SessionRow:
    row = controller.store.add_session("work", "image", {}, state="running")
    controller.home.run_dir(row.id).mkdir(parents=True)
    return row


@pytest.fixture
def journal(controller: Holdfast, session: SessionRow, tmp_path: Path) -> Journal:
    return Journal(tmp_path / "inside", controller.home.run_dir(session.id) / "journal")


def gone() -> Any:
    raise SessionDead("cannot use session work: its container is gone")


def test_the_intent_is_there_before_the_call(controller: Holdfast, session: SessionRow) -> None:
    """Whatever happens to this process from then on."""
    intents = Intents(controller.home.intents / f"{session.id}.jsonl")
    seen: list[Any] = []

    def call() -> ExecResult:
        seen.append(intents.find("k"))
        return RESULT

    assert exec_once(controller.context, session, "k", "true", "main", call) is RESULT
    assert seen[0]["state"] == "intent"


def test_a_session_that_died_with_a_key_leaves_it_unknown(controller: Holdfast, session: SessionRow) -> None:
    """It could have run; a later call says the same and runs nothing."""
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="key 'k'"):
            exec_once(controller.context, session, "k", "true", "main", gone)


def test_a_key_that_was_never_sent_is_not_unknown(controller: Holdfast, session: SessionRow) -> None:
    """A session that had already died has not run it."""
    dead = controller.store.update_session(session.id, state="dead")

    with pytest.raises(SessionDead):
        exec_once(controller.context, dead, "k", "true", "main", gone)


def test_a_key_that_was_refused_is_not_unknown(controller: Holdfast, session: SessionRow) -> None:
    """A shell that was busy has not run it."""

    def busy() -> ExecResult:
        raise SessionBusy("cannot run command: busy")

    with pytest.raises(SessionBusy):
        exec_once(controller.context, session, "k", "true", "main", busy)
    dead = controller.store.update_session(session.id, state="dead")
    with pytest.raises(SessionDead):
        exec_once(controller.context, dead, "k", "true", "main", gone)


def test_the_journal_says_how_it_ended(controller: Holdfast, session: SessionRow, journal: Journal) -> None:
    """The session has been removed with its output, but the result is known."""
    journal.append("command_started", id="x", key="k", offset=10, command="true")
    journal.append(
        "command_ended", id="x", key="k", exit_code=4, end_offset=30, duration=0.5, timed_out=False
    )

    result = exec_once(controller.context, session, "k", "true", "main", gone)

    assert (result.exit_code, result.recorded, result.lost, result.duration) == (4, True, 20, 0.5)


def test_a_start_without_an_end_is_unknown(
    controller: Holdfast, session: SessionRow, journal: Journal
) -> None:
    """Also where another host's controller began it."""
    journal.append("command_started", id="x", key="k", offset=10)
    dead = controller.store.update_session(session.id, state="dead")

    with pytest.raises(OutcomeUnknown):
        exec_once(controller.context, dead, "k", "true", "main", gone)


def test_a_cell_is_returned_with_its_kept_output(
    controller: Holdfast, session: SessionRow, journal: Journal
) -> None:
    """Streams and values."""
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "hi\n"},
        {"output_type": "execute_result", "data": {"text/plain": "2"}},
    ]
    journal.append("cell_started", id="x", key="k", kernel="main", code="2")
    journal.append("cell_ended", id="x", key="k", status="ok", execution_count=3, outputs=outputs)

    result = cell_once(controller.context, session, "k", "2", "main", gone)

    assert (result.status, result.execution_count, result.stdout, result.text) == ("ok", 3, "hi\n", "2")
    assert result.recorded


def test_a_key_stands_for_one_text_even_after_the_session(controller: Holdfast, session: SessionRow) -> None:
    """Another command, another kernel or a cell is refused."""
    with pytest.raises(OutcomeUnknown):
        exec_once(controller.context, session, "k", "true", "main", gone)

    for op, target, text in (("exec", "main", "false"), ("exec", "other", "true"), ("cell", "main", "true")):
        with pytest.raises(InvalidArgument, match="another"):
            idempotency.run(
                controller.context, session, IdempotentCall("k", op, target, text), gone, lambda _a, _b: None
            )


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_has_a_length(controller: Holdfast, session: SessionRow, key: str) -> None:
    """1 to 200 characters."""
    with pytest.raises(InvalidArgument, match="characters"):
        exec_once(controller.context, session, key, "true", "main", gone)


def test_a_torn_intent_is_ignored(tmp_path: Path) -> None:
    """A process that died while it wrote had not sent anything; other keys are as they were."""
    intents, table = Intents(tmp_path / "intents.jsonl"), tmp_path / "intents.keys"
    for key in "ab":
        intents.add(IdempotentCall(key, "exec", "main", "true"), "intent")
    table.write_bytes(table.read_bytes()[: SLOT + 20])

    assert intents.find("b") is None
    intents.add(IdempotentCall("c", "exec", "main", "true"), "intent")
    assert intents.find("c") is not None
    assert intents.find("a") is not None


def test_host_events_come_after_earlier_entries(
    controller: Holdfast, session: SessionRow, journal: Journal
) -> None:
    """They get the number of the session's newest entry."""
    journal.append("note")
    host_events.note(controller.context, session.id, "noted")

    found = journal_query.read(controller.context, session.id, journal_query.Filter())

    assert [(entry.kind, entry.host, entry.seq) for entry in found] == [
        ("note", False, 1),
        ("noted", True, 1),
    ]


def test_a_key_of_a_timeline_that_was_left_is_free(controller: Holdfast, session: SessionRow) -> None:
    """After a rewind the session itself knows which keys were used before; before it, the text must agree."""

    def used(text: str) -> None:
        assert exec_once(controller.context, session, "k", text, "main", lambda: RESULT) is RESULT

    used("true")
    with pytest.raises(InvalidArgument, match="it was used for another call"):
        used("false")
    controller.store.change_detail(session.id, "rewound", lambda _: {"at": 5.0, "position": 1})
    used("false")
    with pytest.raises(InvalidArgument, match="it was used for another call"):
        used("true")


def test_an_intent_of_an_older_version_counts_in_every_timeline(tmp_path: Path) -> None:
    """It does not say of which it is."""
    path = tmp_path / "s.jsonl"
    path.write_text('{"key": "k", "what": "x", "state": "intent"}\n')
    assert Intents(path, 7.0).find("k") == {"key": "k", "what": "x", "state": "intent"}

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine

from holdfast.base import locks
from holdfast.base.home import Home
from holdfast.base.interrupts import held
from holdfast.errors import (
    EngineUnavailable,
    ImageError,
    SessionBusy,
    SessionDead,
    SessionError,
    SessionExists,
    SessionNotFound,
)
from holdfast.runtime.api import controller as controllers
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.lifecycle import orphan_containers
from holdfast.runtime.operations.operation import carry_out, undo_of
from holdfast.runtime.sessions import after_capture, health
from holdfast.runtime.sessions.session_lock import session_lock
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store


@pytest.fixture(autouse=True)
def _every_operation_can_be_undone() -> None:
    controllers._fill_undo_table()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def controller(home: Home, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    monkeypatch.setattr("holdfast.engine.engine.Engine.connect", lambda: engine)
    return Holdfast(home)


def _session(controller: Holdfast, engine: FakeEngine, name: str = "work", **state: Any) -> Any:
    row = controller.store.add_session(name, "image", {})
    engine.container(f"c-{name}", holdfast_home=controller.home.digest, **state)
    controller.home.run_dir(row.id).mkdir(parents=True)
    return controller.store.update_session(row.id, state="running", container_id=f"c-{name}")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_failed_or_interrupted_operations_are_undone(
    controller: Holdfast, engine: FakeEngine, error: Any
) -> None:
    """Container, folder, image, staging and rows of a failed operation are removed, and others are not."""
    bystander = _session(controller, engine)
    with pytest.raises(error), carry_out(controller.context, OperationKind.NEW) as operation:  # noqa: PT012
        row = controller.store.add_session("half", "image", {})
        controller.store.operations.update(operation.id, session_id=row.id)
        controller.home.run_dir(row.id).mkdir(parents=True)
        (controller.home.staging / operation.id).mkdir()
        engine.container("c-half", holdfast_operation=operation.id)
        engine.images.add("i-half", holdfast_operation=operation.id)
        raise error

    assert [bystander] == controller.store.sessions()
    assert {"c-work"} == set(engine.states)
    assert engine.images.tags == {}
    assert list(controller.home.staging.iterdir()) == []
    assert [bystander.id] == [folder.name for folder in controller.home.run.iterdir()]
    assert controller.store.operations.open() == []


def test_an_interrupt_while_it_begins_leaves_no_operation(
    controller: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is recorded, it is undone, although nothing of it was done yet."""
    kept_by = type(controller.store.operations)
    begin = kept_by.begin

    def begin_and_interrupt(operations: Any, *args: Any, **fields: Any) -> Any:
        begun = begin(operations, *args, **fields)
        os.kill(os.getpid(), signal.SIGINT)
        return begun

    monkeypatch.setattr(kept_by, "begin", begin_and_interrupt)
    with pytest.raises(KeyboardInterrupt), carry_out(controller.context, OperationKind.SNAPSHOT):
        pytest.fail("it goes on")

    assert controller.store.operations.open() == []


def test_a_plan_is_recorded_with_the_intent_or_neither_is(controller: Holdfast) -> None:
    """A plan that fails leaves no intent; when the block begins, other processes see both."""
    store = controller.store

    def fail() -> None:
        store.add_session("work", "image", {})
        raise SessionExists("the second name is taken")

    with pytest.raises(SessionExists), carry_out(controller.context, OperationKind.RESTORE, plan=fail):
        pytest.fail("it began without its plan")
    assert (store.sessions(), store.operations.open()) == ([], [])

    with carry_out(
        controller.context, OperationKind.RESTORE, plan=lambda: store.add_session("work", "image", {})
    ) as operation:
        seen = Store.open(controller.home.database)
        assert [row.name for row in seen.sessions()] == ["work"]
        assert seen.operations.open() == [operation]


def test_completed_operations_are_not_undone(controller: Holdfast, engine: FakeEngine) -> None:
    """An interrupt after the last step, before the operation's end: nothing of it is undone."""
    with pytest.raises(KeyboardInterrupt), carry_out(controller.context, OperationKind.RESTORE) as operation:  # noqa: PT012
        row = controller.store.add_session("whole", "image", {})
        controller.store.operations.update(operation.id, session_id=row.id)
        engine.container("c-whole", holdfast_operation=operation.id)
        engine.images.add("i-whole", holdfast_operation=operation.id)
        changes = {"state": "running", "container_id": "c-whole"}
        controller.store.operations.complete(operation.id, sessions={row.id: changes})
        raise KeyboardInterrupt

    assert controller.session("whole").state == "running"
    assert {"c-whole"} == set(engine.states)
    assert {"i-whole"} == set(engine.images.tags)
    assert controller.store.operations.open() == []


@pytest.fixture
def half(controller: Holdfast, home: Home, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the session and the operation of a process that was killed in the middle."""
    code = f"""
import os, signal
from holdfast.runtime.lifecycle import create as creating
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.operations.operation import carry_out
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store
hf = Holdfast({str(home.root)!r})
with carry_out(hf.context, OperationKind.NEW) as operation:
    row = hf.store.add_session("half", "image", {{}})
    hf.store.operations.update(operation.id, session_id=row.id)
    print(row.id, operation.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL
    assert [row.name for row in controller.store.sessions()] == ["half"]
    monkeypatch.setattr("holdfast.engine.engine.Engine.connect", lambda: engine)
    return died.stdout.split()


def test_the_next_controller_undoes_the_work_of_a_dead_process(
    engine: FakeEngine, home: Home, half: list[str]
) -> None:
    """A process killed in the middle leaves an intent; opening a controller undoes its work."""
    session, operation = half
    engine.container("c-half", holdfast_session=session, holdfast_operation=operation)

    again = Holdfast(home)

    assert again.store.sessions() == []
    assert engine.states == {}
    assert again.store.operations.open() == []


def test_containers_made_after_a_death_are_undone(engine: FakeEngine, home: Home, half: list[str]) -> None:
    """The process died, its request continues: its container is awaited, and removed."""
    session, operation = half
    labels = {
        "holdfast.session": session,
        "holdfast.operation": operation,
        "holdfast.home": home.digest,
    }
    engine.coming[f"holdfast-{session}"] = labels

    again = Holdfast(home)

    assert engine.refused == 3
    assert again.store.sessions() == []
    assert engine.states == {}
    assert again.store.operations.open() == []


def test_without_the_image_nothing_is_awaited(
    engine: FakeEngine, home: Home, half: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image removed since then delays nothing."""
    assert half

    def refuse(*_: object) -> None:
        raise ImageError("cannot ask for the name of a container: no such image")

    monkeypatch.setattr(engine, "reserve", refuse)

    assert Holdfast(home).store.operations.open() == []


def test_containers_that_the_engine_does_not_end_are_left_for_later(
    engine: FakeEngine, home: Home, half: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is bounded, and the next controller checks again."""
    monkeypatch.setattr(orphan_containers, "CLEAR_SECONDS", 0.0)
    session, operation = half
    engine.coming[f"holdfast-{session}"] = {
        "holdfast.session": session,
        "holdfast.operation": operation,
        "holdfast.home": home.digest,
    }

    again = Holdfast(home)

    assert [operation] == [row.id for row in again.store.operations.open()]
    monkeypatch.undo()
    monkeypatch.setattr("holdfast.engine.engine.Engine.connect", lambda: engine)
    assert Holdfast(home).store.operations.open() == []
    assert engine.states == {}


def test_without_an_engine_recovery_waits(
    controller: Holdfast, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller opens without an engine, and leaves the rest to a later one."""
    row = controller.store.operations.begin(OperationKind.NEW)
    controller.store.operations.update(row.id, owner_start="0:0")

    def refuse() -> None:
        raise EngineUnavailable("cannot reach Docker")

    monkeypatch.setattr("holdfast.engine.engine.Engine.connect", refuse)
    again = Holdfast(home)

    assert [row.id] == [operation.id for operation in again.store.operations.open()]


def test_an_undo_that_fails_keeps_the_intent(
    controller: Holdfast, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When undoing also fails, the first error is raised with a note, and the intent stays for later."""

    def refuse(**_labels: str) -> None:
        raise EngineUnavailable("cannot reach Docker")

    monkeypatch.setattr(engine, "containers", refuse)
    with pytest.raises(RuntimeError) as raised, carry_out(controller.context, OperationKind.NEW):
        raise RuntimeError

    assert "could not be undone yet" in raised.value.__notes__[0]
    assert len(controller.store.operations.open()) == 1


def test_a_pending_snapshot_is_undone(
    controller: Holdfast, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture that fails leaves no row, folder or image, and the session continues."""
    monkeypatch.setattr(after_capture, "answers", lambda *_: True)
    row = _session(controller, engine, paused=True)
    with (  # noqa: PT012
        pytest.raises(RuntimeError),
        carry_out(controller.context, OperationKind.NEW, session_id=row.id) as operation,
    ):
        taken = controller.store.add_snapshot(row.id, "live")
        controller.store.operations.update(operation.id, snapshot_id=taken.id)
        (controller.home.snapshots / taken.id).mkdir()
        engine.images.add("i-pending", f"holdfast/snapshot:{taken.id}")
        raise RuntimeError

    assert controller.store.snapshots(pending=True) == []
    assert list(controller.home.snapshots.iterdir()) == []
    assert engine.images.tags == {}
    assert [row.container_id] == engine.unpaused
    assert [row] == controller.store.sessions()


def test_removing_is_finished_not_undone(controller: Holdfast, engine: FakeEngine) -> None:
    """A removal that was cut short is completed."""
    row = _session(controller, engine)
    with pytest.raises(RuntimeError), carry_out(controller.context, OperationKind.REMOVE, session_id=row.id):
        raise RuntimeError

    assert controller.store.sessions() == []
    assert engine.states == {}


def test_removing_twice_reports_not_found(controller: Holdfast, engine: FakeEngine) -> None:
    """A removed session is not found; its container and folder do not exist."""
    _session(controller, engine)
    controller.remove_session("work")

    with pytest.raises(SessionNotFound):
        controller.remove_session("work")
    assert engine.states == {}
    assert list(controller.home.run.iterdir()) == []


def test_one_exclusive_operation_at_a_time(
    controller: Holdfast, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During one exclusive operation, a second one waits, and is refused when that takes too long."""
    monkeypatch.setattr(locks, "LOCK_SECONDS", 0.05)
    row = _session(controller, engine)
    with (
        session_lock(controller.context, row.id, "snapshot session work"),
        pytest.raises(SessionBusy, match="cannot remove session work"),
    ):
        controller.remove_session("work")

    controller.remove_session("work")


def test_a_session_without_its_container_is_dead(controller: Holdfast, engine: FakeEngine) -> None:
    """A container that ended outside of our control is found, kept as dead, and the error says what to do."""
    row = _session(controller, engine)
    _session(controller, engine, "other")
    taken = controller.store.add_snapshot(row.id, "live", label="before")
    controller.store.update_snapshot(taken.id, state="ready")
    engine.kill_remove("c-work")

    assert [session.state for session in controller.sessions()] == ["dead", "running"]
    with pytest.raises(SessionDead) as raised:
        controller.session("work").exec("true")
    assert "holdfast rewind work before" in raised.value.hint


def test_a_container_that_ended_is_reported_with_its_exit_code(
    controller: Holdfast, engine: FakeEngine
) -> None:
    """The first use of a session that ended says how it ended."""
    row = _session(controller, engine, running=False)

    with pytest.raises(SessionDead, match="exit code 137"):
        health.check(controller.context, row.id)
    assert controller.session("work").state == "dead"


@pytest.mark.parametrize(("state", "word"), [("suspended", "resume"), ("creating", "again")])
def test_unusable_states_come_with_advice(
    controller: Holdfast, engine: FakeEngine, state: Any, word: Any
) -> None:
    """A session that is not running is refused with the way to continue."""
    row = _session(controller, engine)
    controller.store.update_session(row.id, state=state)

    with pytest.raises(SessionError) as raised:
        controller.session("work").exec("true")
    assert word in raised.value.hint


def test_an_interrupt_is_held_back_until_the_end_of_the_block() -> None:
    """A signal that comes during a critical section arrives right after it."""
    steps = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with held():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("whole")
        steps.append("never")

    assert steps == ["whole"]


def test_every_kind_of_operation_can_be_undone() -> None:
    """Each is registered by the module that carries it out, and the controller imports all of these."""
    for kind in OperationKind:
        assert callable(undo_of(kind))

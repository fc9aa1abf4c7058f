"""Concurrent operations on one session end in a sane state.

The fixture of the home also asserts that nothing is left over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError, SnapshotInUse
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session


def at_once(hf: Holdfast, *steps: Callable[[Holdfast], Any]) -> list[Any]:
    """Do all of it at the same time, each with a controller of its own; return the results or errors."""
    outcomes: list[Any] = [None] * len(steps)
    start = threading.Barrier(len(steps))

    def run(index: int) -> None:
        with Holdfast(hf.home) as own:
            start.wait()
            try:
                outcomes[index] = steps[index](own)
            except HoldfastError as error:
                outcomes[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def alive(session: Session) -> bool:
    """Check whether shell and kernel answer."""
    return (
        session.exec("echo here", timeout=60).text == "here\n"
        and session.cell("print('here')", timeout=60).stdout == "here\n"
    )


def sane(hf: Holdfast) -> None:
    """Check that nothing is under way, half-made or paused, and that the rest works."""
    assert not hf.store.operations.open()
    assert not list(hf.home.staging.iterdir())
    assert {row.state for row in hf.store.snapshots(pending=True)} <= {"ready"}
    for session in hf.sessions():
        assert session.state in ("running", "suspended")
        if session.state == "running":
            assert alive(session)


def lines(outcomes: list[Any]) -> list[str]:
    """Return the errors, each of which must be one clear line."""
    found = [str(each) for each in outcomes if isinstance(each, HoldfastError)]
    assert all("\n" not in line and line.startswith("cannot ") for line in found), found
    return found


def test_snapshots_and_a_suspension_at_once(hf: Holdfast) -> None:
    """Those before it are complete, those after it are refused by name; the session can be resumed."""
    hf.new("parent").cell("kept = 42", timeout=60)
    take = lambda own: own.session("parent").snapshot()  # noqa: E731
    outcomes = at_once(hf, take, lambda own: own.session("parent").suspend(), take)

    assert hf.session("parent").state == "suspended"
    assert set(lines(outcomes)) <= {"cannot use session parent: it is suspended"}
    sane(hf)
    resumed = hf.session("parent").resume()
    assert resumed.cell("print(kept)", timeout=60).stdout == "42\n"


def test_removing_a_session_while_it_is_captured(hf: Holdfast) -> None:
    """The snapshot is complete, or it does not exist; the session is removed in either case."""
    hf.new("parent")
    outcomes = at_once(
        hf,
        lambda own: own.session("parent").snapshot(),
        lambda own: own.session("parent").remove(),
    )

    assert hf.sessions() == []
    assert len(hf.snapshots()) == 1 - len(lines(outcomes))
    sane(hf)
    for snapshot in hf.snapshots():
        assert alive(snapshot.restore("copy"))


def test_a_session_that_is_being_made_is_not_captured(hf: Holdfast) -> None:
    """It is captured once it is there, or refused by its state; it comes up in either case."""
    started = threading.Event()
    taken: list[Any] = []

    def take(own: Holdfast) -> None:
        while not started.is_set():
            try:
                taken.append(own.session("young").snapshot())
            except HoldfastError as error:
                taken.append(error)

    def make(own: Holdfast) -> None:
        try:
            own.new("young")
        finally:
            started.set()

    outcomes = at_once(hf, make, take)

    assert lines(outcomes) == []
    allowed = ("cannot use session young: it is being made", "cannot find session 'young'")
    told = [line for line in lines(taken) if not line.startswith(allowed)]
    assert told == []
    sane(hf)


def test_commands_arrive_in_the_middle_of_captures(hf: Holdfast) -> None:
    """Each runs once, in its order, with its own exit code, whatever the number of captures."""
    session = hf.new("parent")
    ended = threading.Event()

    def run(own: Holdfast) -> list[tuple[str, int | None]]:
        shell = own.session("parent")
        try:
            results = [shell.exec(f"n=$((n + 1)); echo $n; (exit {n % 200})", timeout=120) for n in range(60)]
        finally:
            ended.set()
        return [(result.text, result.exit_code) for result in results]

    def take(own: Holdfast) -> int:
        count = 0
        while not ended.is_set():
            own.session("parent").snapshot().remove()
            count += 1
        return count

    ran, captures = at_once(hf, run, take)

    assert ran == [(f"{n + 1}\n", n % 200) for n in range(60)]
    assert captures > 0
    assert alive(session)
    sane(hf)


def test_forks_while_it_is_restored_and_removed(hf: Holdfast) -> None:
    """Restores of one snapshot are independent; one that loses its snapshot reports it, and so does a
    removal while the snapshot is needed.
    """
    session = hf.new("parent")
    session.exec("mark=kept", timeout=30)
    snapshot = session.snapshot("moment")
    outcomes = at_once(
        hf,
        lambda own: own.snapshot("moment").restore("one"),
        lambda own: own.snapshot("moment").fork(2, "two"),
        lambda own: own.snapshot("moment").remove(),
    )

    lines(outcomes)
    sane(hf)
    refused = isinstance(outcomes[2], SnapshotInUse)
    assert [found.name for found in hf.snapshots()] == (["moment"] if refused else [])
    for each in hf.sessions():
        assert each.exec("echo $mark", timeout=60).text == "kept\n"
    assert snapshot.name == "moment"


def test_a_copy_is_captured_while_its_memory_is_still_loading(hf: Holdfast) -> None:
    """The capture waits for the memory, and all of it is in the copy of the copy."""
    session = hf.new("big")
    make = "import hashlib, os\nblock = os.urandom(150 << 20)\ndigest = hashlib.sha256(block).hexdigest()"
    assert session.cell(make, timeout=120).status == "ok"
    copy = session.snapshot().restore("copy")
    again = copy.snapshot().restore("again")
    look = "print(hashlib.sha256(block).hexdigest() == digest)"
    for each in (again, copy):
        assert each.cell(look, timeout=120).stdout == "True\n"
    sane(hf)


def test_many_forks_by_several_processes(hf: Holdfast, cli: Any) -> None:
    """Eight forks of a running session by three concurrent processes: all come up, with the session's
    state."""
    session = hf.new("parent")
    session.exec("mark=kept", timeout=30)
    asked = [("first", 3), ("second", 3), ("third", 2)]
    started = [cli.start("fork", "parent", "--name", name, "-n", str(count)) for name, count in asked]
    assert [process.wait(timeout=280) for process in started] == [0, 0, 0]

    expected = {f"{name}-{number}" for name, count in asked for number in range(1, count + 1)} | {"parent"}
    assert {each.name for each in hf.sessions()} == expected
    for each in hf.sessions():
        assert each.exec("echo $mark", timeout=60).text == "kept\n"
    sane(hf)

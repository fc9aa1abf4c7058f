"""Callers that stop waiting when another thread asks; their commands continue."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast import InvalidArgument, Patience, PortClosed, SessionBusy
from holdfast.base import polling
from holdfast.runtime.api.session import Session


@contextlib.contextmanager
def _ended_when(condition: Callable[[], bool]) -> Iterator[Patience]:
    """Yield a patience that is ended when a condition holds."""
    patience, done = Patience(), threading.Event()

    def watch() -> None:
        while not condition() and not done.wait(0.02):
            pass
        patience.end()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield patience
    finally:
        done.set()
        thread.join()


def test_a_command_continues_when_its_caller_waits_no_longer(work: Session) -> None:
    """The result says that it runs; its output continues at the offset, and another caller gets its end."""
    seen: list[bytes] = []
    with _ended_when(lambda: b"begun" in b"".join(seen)) as patience:
        left = work.exec(
            "rm -f /tmp/go; echo begun; until [ -e /tmp/go ]; do sleep 0.05; done; echo over",
            patience=patience,
            on_bytes=seen.append,
        )
    assert left.running
    assert left.text == "begun\n"
    assert patience.over
    work.files.write("/tmp/go", b"")
    ended = work.join(left.command_id, start=left.end_offset)
    assert (ended.exit_code, ended.text) == (0, "over\n")


def test_a_call_that_waits_in_silence_returns(work: Session) -> None:
    """Also a call that was captured in the meantime, which closes its connection."""
    begun: list[str] = []
    captured = threading.Event()
    with _ended_when(captured.is_set) as patience:

        def take() -> None:
            assert polling.until(lambda: bool(begun), 60)
            work.snapshot().remove()
            captured.set()

        capture = threading.Thread(target=take)
        capture.start()
        left = work.exec("sleep 600", patience=patience, on_start=begun.append)
        capture.join()
    assert left.running
    assert begun == [left.command_id]
    with _ended_when(lambda: True) as patience:
        assert work.join(left.command_id, patience=patience).running
    ended = work.interrupt()
    assert ended is not None
    assert ended.exit_code == 130


def test_a_command_that_has_not_begun_does_not(work: Session) -> None:
    """Its caller waited for the shell; it never runs."""
    busy = work.exec("sleep 600", patience=1)
    with _ended_when(lambda: True) as patience, pytest.raises(SessionBusy, match="no longer"):
        work.exec("touch /tmp/never", busy_wait=60, patience=patience)
    patience = Patience()
    threading.Timer(0.5, patience.end).start()
    with pytest.raises(SessionBusy, match="no longer"):
        work.exec("touch /tmp/never", busy_wait=60, patience=patience)
    work.interrupt()
    assert work.exec("sleep 0.3; ls /tmp/never").exit_code == 2
    assert work.join(busy.command_id).exit_code == 130


def test_jobs_programs_and_answers(work: Session) -> None:
    """They all take it."""
    job = work.detach("sleep 600")
    program = work.programs.start(["sleep", "600"])
    with _ended_when(lambda: True) as patience:
        assert job.wait(patience=patience).running
    with _ended_when(lambda: True) as patience:
        assert program.wait(patience=patience, timeout=300).exit_code is None
    patience = Patience()
    threading.Timer(0.5, patience.end).start()
    found = program.wait(patience=patience)
    assert found.exit_code is None
    assert program.info().state == "running"
    assert work.exec("read -p 'Go? ' go; sleep 600").waiting is not None
    with _ended_when(lambda: work.shell().observed is not None) as patience:
        assert work.answer("yes\n", patience=patience).running
    work.interrupt()
    job.signal("KILL")
    program.signal("KILL")
    assert program.wait().signal == 9


def test_unread_input_and_closed_ports(work: Session) -> None:
    """Input that a program does not take, and a port at which nothing accepts."""
    silent = work.programs.start(["sleep", "600"], input=True)
    patience = Patience()
    threading.Timer(0.5, patience.end).start()
    assert 0 <= silent.write(b"x" * (4 << 20), patience=patience) < 4 << 20
    assert silent.info().state == "running"
    silent.signal("KILL")
    patience = Patience()
    threading.Timer(0.5, patience.end).start()
    with pytest.raises(PortClosed):
        work.wait_port(9, patience=patience)


def test_invalid_patience_is_refused(work: Session) -> None:
    """Before anything is done."""
    for wrong in (-1, "soon", True):
        with pytest.raises(InvalidArgument, match="patience"):
            work.exec("touch /tmp/refused", patience=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="patience"):
            Patience(wrong)  # type: ignore[arg-type]
    assert work.exec("ls /tmp/refused").exit_code == 2

"""Calls that follow processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.runtime.e2b import process_service, sandbox_processes
from holdfast.runtime.e2b.connect_wire import DEADLINE, SandboxUnavailable
from holdfast.runtime.e2b.process_service import acting
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.e2b.sandbox_processes import EndOfProcess, ProcessChoice, StartBody
from holdfast.runtime.guest_rpc.patience import Patience

SESSION: Any = SimpleNamespace(
    row=SimpleNamespace(details={"sandbox": {"env": {"A": "sandbox", "B": "sandbox"}}})
)
START = StartBody.read({"process": {"cmd": "x", "envs": {"B": "request"}}})


class FakeProcess:
    """A process that writes once and then does as its arguments say."""

    pid = 7

    def __init__(self, act: Callable[[Patience], EndOfProcess | None]) -> None:
        self._act = act
        self.env: dict[str, str] = {}
        self.signals: list[str] = []

    def follow(self, patience: Patience, on_data: Callable[[str, bytes], object]) -> EndOfProcess | None:
        on_data("stdout", b"hi")
        return self._act(patience)

    def signal(self, name: str) -> None:
        self.signals.append(name)


@pytest.fixture
def begun(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[Patience], EndOfProcess | None]], FakeProcess]:
    def begin(act: Callable[[Patience], EndOfProcess | None]) -> FakeProcess:
        process = FakeProcess(act)

        def start(_found: object, _asked: object, env: dict[str, str], *_where: object) -> FakeProcess:
            process.env = env
            return process

        monkeypatch.setattr(sandbox_processes, "start", start)
        monkeypatch.setattr(sandbox_processes, "known", lambda _found, _choice: process)
        return process

    return begin


def waits(patience: Patience) -> None:
    """Wait for the end of the time, or of the patience."""
    while not patience.over:
        time.sleep(0.005)


def leaves(patience: Patience) -> None:
    patience.end()


def test_a_process_is_reported_from_its_beginning_to_its_end(begun: Any) -> None:
    """The variables of the sandbox rank below the request's."""
    process = begun(lambda _patience: EndOfProcess(0, None))
    told: list[Mapping[str, Any]] = []
    call = process_service.start_call(START, None, None)
    assert call(SESSION, Patience(), lambda event, _size: told.append(event["event"])) == {}
    assert [next(iter(each)) for each in told] == ["start", "data", "end"]
    assert process.env == {"A": "sandbox", "B": "request"}
    assert process.signals == []


def test_a_timeout_kills_a_clients_process(begun: Any) -> None:
    process = begun(waits)
    assert process_service.start_call(START, None, 0.05)(SESSION, Patience(0.05), None) is DEADLINE
    assert process.signals == ["KILL"]


def test_leaving_kills_only_right_before_the_end_of_the_time(begun: Any) -> None:
    """The client's clock begins before ours."""
    process = begun(leaves)
    for seconds in (None, 0.5, 100):
        with pytest.raises(SandboxUnavailable):
            process_service.start_call(START, None, seconds)(SESSION, Patience(seconds), None)
        assert process.signals == []
    patience = Patience(100)
    patience.until = time.monotonic() + 1
    assert process_service.start_call(START, None, 100)(SESSION, patience, None) is DEADLINE
    assert process.signals == ["KILL"]


def test_a_connected_client_ends_nothing(begun: Any) -> None:
    process = begun(waits)
    call = process_service.connect_call(ProcessChoice(pid=7))
    assert call(SESSION, Patience(0.05), None) is DEADLINE
    process = begun(leaves)
    with pytest.raises(SandboxUnavailable):
        call(SESSION, Patience(), None)
    assert process.signals == []


@pytest.mark.parametrize(
    ("user", "cwd", "who", "place"),
    [
        (None, None, "user", "/home/user"),
        ("", "", "user", "/home/user"),
        ("user", "work", "user", "/home/user/work"),
        ("user", "~/work", "user", "/home/user/work"),
        ("root", None, "0", "/home/user"),
        ("root", "~", "0", "/root"),
        ("root", "work", "0", "/root/work"),
        ("../x", "/srv", "../x", "/srv"),
    ],
)
def test_a_process_runs_as_the_account_of_the_sandbox(
    user: str | None, cwd: str | None, who: str, place: str
) -> None:
    """In its home unless the client says otherwise; names are for the session to refuse."""
    assert acting(SandboxFacts(home="/home/user"), user, cwd) == (who, place)


def test_in_other_sessions_processes_run_as_the_user_of_the_session() -> None:
    """Those that a client reaches by id have an account and a directory of their own."""
    for facts in (None, SandboxFacts()):
        assert acting(facts, "user", "") == (None, None)
        assert acting(facts, "ada", "work") == ("ada", "work")

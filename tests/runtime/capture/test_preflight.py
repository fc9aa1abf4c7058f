"""The check before a capture: refusals, ended programs, left out state, and the order of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime.orchestration import context_of, running

from holdfast.base.home import Home
from holdfast.engine.container_state import ContainerState
from holdfast.errors import InvalidArgument, LiveUnsupported
from holdfast.runtime.capture import preflight
from holdfast.snapshots.link import CheckpointerFailed

QUIET = {
    "processes": 3,
    "descriptors": 9,
    "memory_bytes": 1,
    "deleted_bytes": 0,
    "tmpfs_bytes": 0,
    "free_bytes": 1 << 40,
    "changed": {"files": 0, "length": 0, "held": 0, "fault": ""},
    "seconds": 0.01,
    "whole": True,
    "left_out": 0,
    "versions": {"criu": "4.1"},
}


def finding(kind: str, pid: int, fd: int = -1) -> dict[str, Any]:
    return {"kind": kind, "pid": pid, "fd": fd, "command": "prog", "what": kind, "also": [], "own": False}


class Checkpointer:
    """Answers each check with the next list of findings, the last one for ever."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refusal: CheckpointerFailed | None = None

    def ask(self, _engine: object, _home: object, _progress: object, op: str, **fields: Any) -> Checkpointer:
        self.asked.append((op, fields))
        return self

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def until(self, _event: str, _passed: object = None) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        findings = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {**QUIET, "findings": findings}

    @property
    def operations(self) -> list[str]:
        return [op for op, _ in self.asked]


Clear = Callable[..., tuple[Checkpointer, list[dict[str, Any]]]]


@pytest.fixture
def clear(home: Home, monkeypatch: pytest.MonkeyPatch) -> Clear:
    """Runs the check of a session with these findings; returns its checkpointer and the left out state."""
    engine = FakeEngine()
    context = context_of(home, engine)
    session = running(context, engine)
    monkeypatch.setattr(preflight, "_supervisor", lambda _client: (7, 8))
    monkeypatch.setattr("holdfast.runtime.capture.capture_failures.PAUSES", (0.0, 0.0, 0.0))

    def run(*answers: list[dict[str, Any]], drop: tuple[str, ...] = (), **more: Any) -> Any:
        checkpointer = Checkpointer(*answers)
        for name, value in more.items():
            setattr(checkpointer, name, value)
        run.checkpointer = checkpointer  # type: ignore[attr-defined]
        monkeypatch.setattr("holdfast.snapshots.service.ask", checkpointer.ask)
        container = ContainerState("c-work", True, False, 1, 0, {}, "i", False)
        return checkpointer, preflight.clear(context, session, container, drop).left_out

    return run


def test_a_session_without_obstacles_is_checked_once(clear: Clear) -> None:
    """Its supervisor and its own mounts are named to the checkpointer."""
    checkpointer, left_out = clear([])
    assert left_out == []
    ((op, fields),) = checkpointer.asked
    assert (op, fields["root_pid"], fields["everything"]) == ("check", 7, False)
    assert "/run/holdfast" in fields["mounts"]


def test_an_obstacle_is_refused_by_name(clear: Clear) -> None:
    """With the option that would do without it; nothing is ended."""
    with pytest.raises(LiveUnsupported, match=r"prog \(pid 5, descriptor 3\) .*, and 1 more") as refused:
        clear([finding("io_uring", 5, 3), finding("traced", 9)])
    assert "--force-drop pid:5 --force-drop pid:9" in refused.value.hint
    assert [each["pid"] for each in refused.value.findings] == [5, 9]


def test_a_named_descriptor_is_left_out_and_nothing_is_ended(clear: Clear) -> None:
    checkpointer, left_out = clear([finding("netlink_unread", 5, 3)], drop=("fd:5/3",))
    assert left_out == [{"pid": 5, "fd": 3, "with": "null"}]
    assert set(checkpointer.operations) == {"check"}


def test_a_named_process_is_ended_and_the_session_checked_again(clear: Clear) -> None:
    checkpointer, left_out = clear([finding("traced", 9)], [], drop=("pid:9",))
    assert checkpointer.operations == ["check", "end", "check"]
    assert checkpointer.asked[1][1]["pids"] == [9]
    assert left_out == []


def test_an_obstacle_that_appears_when_another_ends_is_refused(clear: Clear) -> None:
    """The end of a process can orphan others."""
    with pytest.raises(LiveUnsupported, match="pid 11"):
        clear([finding("traced", 9)], [finding("headless", 11)], drop=("pid:9",))


def test_only_obstacles_can_be_named(clear: Clear) -> None:
    """Nothing is ended for a name that blocks nothing."""
    with pytest.raises(InvalidArgument):
        clear([finding("traced", 9)], drop=("pid:9", "pid:10"))
    assert clear.checkpointer.operations == ["check"]  # type: ignore[attr-defined]


def test_transient_obstacles_are_checked_again(clear: Clear) -> None:
    """For as long as a capture is retried; one that stays is refused."""
    checkpointer, _ = clear([finding("netlink_unread", 5, 3)], [finding("outside", 8)], [])
    assert checkpointer.operations == ["check"] * 3
    with pytest.raises(LiveUnsupported):
        clear([finding("netlink_unread", 5, 3)])
    assert clear.checkpointer.operations == ["check"] * 4  # type: ignore[attr-defined]


def test_a_check_that_fails_is_left_to_the_capture_unless_something_is_to_be_dropped(clear: Clear) -> None:
    refusal = CheckpointerFailed("target", "it is another process", [])
    assert clear([], refusal=refusal)[1] == []
    with pytest.raises(Exception, match="another process"):
        clear([], drop=("pid:9",), refusal=refusal)

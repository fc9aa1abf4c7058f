"""How often the rules of a session are read for those who follow its events."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.runtime.egress import refusal_watch
from holdfast.runtime.egress.refusal_watch import RefusalWatch, sent, watch_of

OURS = Path("/proc/self/cgroup").read_text()
"""In place of a container's id, of which this process is then one."""


class Rules:
    """A session whose rules can be read, and what its network has sent."""

    def __init__(self) -> None:
        self.readings = 0
        self.sent: tuple[int, int] | None = (0, 0)
        self.can_be_read = True
        self.row: Any = SimpleNamespace(container_id=OURS)
        running = SimpleNamespace(running=True, pid=os.getpid())
        self.context: Any = SimpleNamespace(
            home=SimpleNamespace(digest="d"), engine=SimpleNamespace(inspect=lambda _: running)
        )

    def read(self, _context: Any, _row: Any) -> bool:
        self.readings += 1
        return self.can_be_read


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Rules:
    made = Rules()
    monkeypatch.setattr("holdfast.runtime.egress.attempt_log.glance", made.read)
    monkeypatch.setattr("holdfast.runtime.egress.refusal_watch.sent", lambda pid: made.sent if pid else None)
    monkeypatch.setattr("holdfast.runtime.egress.refusal_watch.SECONDS", 0.0)
    return made


def test_all_who_follow_a_session_share_one_reading(rules: Rules) -> None:
    """Each hears of it, and those of another session do not."""
    watches = [watch_of(rules.context, "s") for _ in range(5)]
    seen = [each.read(rules.context, rules.row) for each in watches if each.is_due(0)]
    assert (seen, rules.readings) == ([1] * 5, 1)
    assert not any(each.is_due(1) for each in watches)
    other = watch_of(rules.context, "t")
    assert other.is_due(0)
    assert other.read(rules.context, rules.row) == 1
    assert rules.readings == 2


def test_nothing_is_read_while_nothing_is_sent(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of either family; after a minute it is read all the same."""
    watch = RefusalWatch()
    seen = watch.read(rules.context, rules.row)
    assert not watch.is_due(seen)
    assert watch.read(rules.context, rules.row, fresh=True) == seen, "nothing can be new"
    for count in ((1, 0), (1, 1)):
        rules.sent = count
        assert watch.is_due(seen)
        seen = watch.read(rules.context, rules.row)
        assert not watch.is_due(seen)
    assert rules.readings == 3
    monkeypatch.setattr(refusal_watch, "LONGEST", -1.0)
    rules.sent = (2, 1)
    seen = watch.read(rules.context, rules.row)
    assert watch.is_due(seen)


def test_what_was_read_just_now_is_read_again_only_if_asked_fresh(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_watch, "SECONDS", 600.0)
    watch = RefusalWatch()
    watch._pause = 600.0
    seen = watch.read(rules.context, rules.row)
    rules.sent = (1, 0)
    assert not watch.is_due(seen)
    assert watch.read(rules.context, rules.row) == seen
    assert watch.read(rules.context, rules.row, fresh=True) == seen + 1


def test_a_session_of_which_nothing_is_known_is_read_each_time(rules: Rules) -> None:
    """Its kernel does not tell, or its engine is another machine's; or its rules cannot be read."""
    watch, rules.sent = RefusalWatch(), None
    assert watch.is_due(watch.read(rules.context, rules.row))
    watch, rules.sent = RefusalWatch(), (0, 0)
    rules.row.container_id = "0123456789ab"
    assert watch.is_due(watch.read(rules.context, rules.row))
    watch, rules.can_be_read, rules.row.container_id = RefusalWatch(), False, OURS
    watch._pause = 0.0
    assert watch.is_due(watch.read(rules.context, rules.row))


def test_linux_counts_what_the_network_of_a_process_sends() -> None:
    before = sent(os.getpid())
    assert before
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", 9))
    after = sent(os.getpid())
    assert after
    assert after[0] > before[0]
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
        assert sent(gone.pid) is None
    assert sent(0) is None

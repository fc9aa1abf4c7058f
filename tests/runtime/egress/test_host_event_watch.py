"""The number of readings of a session's rules and journal for followers of its events."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.runtime.egress import host_event_watch
from holdfast.runtime.egress.host_event_watch import HostEventWatch, RefusalWatch, sent, watch_of
from holdfast.runtime.store.journal_entries import EntryRow

OURS = Path("/proc/self/cgroup").read_text()
"""In place of a container's id, of which this process is then one."""


class Rules:
    """A session whose rules can be read, and the attempts of its network."""

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
    monkeypatch.setattr(
        "holdfast.runtime.egress.host_event_watch.sent", lambda pid: made.sent if pid else None
    )
    monkeypatch.setattr("holdfast.runtime.egress.host_event_watch.SECONDS", 0.0)
    return made


def test_all_followers_of_a_session_share_one_reading(rules: Rules) -> None:
    """Each is notified, and the followers of a different session are not."""
    watch = watch_of(rules.context, "shared")
    watches = [watch_of(rules.context, "shared").refusals for _ in range(5)]
    assert watches == [watch.refusals] * 5
    seen = [each.read(rules.context, rules.row) for each in watches if each.is_due(0)]
    assert (seen, rules.readings) == ([1] * 5, 1)
    assert not any(each.is_due(1) for each in watches)
    another = watch_of(rules.context, "t")
    other = another.refusals
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
    monkeypatch.setattr(host_event_watch, "LONGEST", -1.0)
    rules.sent = (2, 1)
    seen = watch.read(rules.context, rules.row)
    assert watch.is_due(seen)


def test_a_recent_look_is_repeated_only_on_request(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_event_watch, "SECONDS", 600.0)
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


class Journal:
    """A store whose file is a real one, and the host's entries of a session in it."""

    def __init__(self, folder: Path) -> None:
        self.reads = 0
        self.rows: list[EntryRow] = []
        self._file = folder / "holdfast.db"
        self._file.touch()
        home = SimpleNamespace(digest="d", below=lambda name: str(folder / name))
        entries = SimpleNamespace(stream=self._stream)
        self.context: Any = SimpleNamespace(home=home, store=SimpleNamespace(entries=entries))

    def _stream(self, _ids: Any, _wanted: Any) -> Iterator[EntryRow]:
        self.reads += 1
        return iter(self.rows)

    def write(self, kind: str = "life_ending") -> None:
        self.rows.append(EntryRow(len(self.rows) + 1, "s", 1, True, 2.0, kind, None, {}))
        with self._file.open("ab") as file:
            file.write(b"x")

    def look(self, watch: HostEventWatch, *, begins: bool = False) -> int:
        watch.look(self.context, None, refusals=False, begins=begins)  # type: ignore[arg-type]
        return self.reads


def test_the_journal_is_read_once_for_all_and_not_while_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look in its time finds what any follower lacks; one at an unchanged store reads nothing."""
    journal, watch = Journal(tmp_path), HostEventWatch("s")
    journal.write()
    assert [journal.look(watch) for _ in range(200)] == [1] * 200
    assert [entry.id for entry in watch.after(0)] == [1]
    monkeypatch.setattr(host_event_watch, "JOURNAL_SECONDS", 0.0)
    watch._next = 0.0
    assert journal.look(watch) == 1
    journal.write("sleep_failed")
    assert journal.look(watch) == 2
    assert ([entry.id for entry in watch.after(1)], watch.after(2)) == ([2], [])


def test_a_new_follower_finds_recent_writes(tmp_path: Path) -> None:
    journal, watch = Journal(tmp_path), HostEventWatch("s")
    journal.look(watch)
    journal.write()
    assert journal.look(watch) == 1
    assert journal.look(watch, begins=True) == 2
    assert watch.newest == 1


def test_linux_counts_traffic_by_network_namespace() -> None:
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

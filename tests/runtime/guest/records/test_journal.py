from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import PATIENCE

from holdfast.base import polling
from holdfast.runtime.guest.identity.actor import Actor
from holdfast.runtime.guest.records.journal import EntryLog, Journal


def _line(seq: int, text: str = "") -> bytes:
    return json.dumps({"seq": seq, "text": text}).encode() + b"\n"


def _filled(folder: Path, count: int, capacity: int = 1 << 20, segment_size: int = 1 << 20) -> EntryLog:
    log = EntryLog(folder, capacity, segment_size)
    for seq in range(1, count + 1):
        assert log.append(seq, _line(seq))
    return log


def _numbers(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["seq"] for line in lines]


def _all(log: EntryLog, after: int) -> list[int]:
    found: list[int] = []
    while lines := log.read(after, 100):
        found += _numbers(lines)
        after = found[-1]
    return found


def test_lines_are_found_by_their_number(tmp_path: Path) -> None:
    """Across segments, from any number on, also after another process opened the log."""
    log = _filled(tmp_path, 300, segment_size=2000)

    for opened in (log, EntryLog(tmp_path, 1 << 20, 2000)):
        assert (opened.first, opened.last, opened.torn) == (1, 300, 0)
        for after in (0, 1, 63, 64, 65, 199, 299, 300):
            assert _all(opened, after) == list(range(after + 1, 301))


@pytest.mark.parametrize("cut", [1, 5, 11])
def test_a_torn_last_line_is_cut(tmp_path: Path, cut: int) -> None:
    """The part of the last line that a crash left goes, and numbers continue after the last whole one."""
    _filled(tmp_path, 10).close()
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-cut])

    log = EntryLog(tmp_path, 1 << 20)

    assert log.last == 9
    assert log.torn == len(_line(10)) - cut
    assert log.append(10, _line(10, "again"))
    assert _all(EntryLog(tmp_path, 1 << 20), 8) == [9, 10]


def test_zeros_after_the_last_line_are_cut(tmp_path: Path) -> None:
    """A machine that lost power can leave a file longer than the data written to it."""
    _filled(tmp_path, 3).close()
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes() + bytes(50))

    log = EntryLog(tmp_path, 1 << 20)

    assert (log.last, log.torn) == (3, 50)


def test_the_oldest_segments_are_dropped_at_the_limit(tmp_path: Path) -> None:
    """Dropped lines are reported; the rest can be read."""
    log = _filled(tmp_path, 300, capacity=3000, segment_size=1000)

    dropped = log.trim()

    assert dropped[0].first == 1
    assert log.first == dropped[-1].first + dropped[-1].count
    assert _all(log, 0) == list(range(log.first, 301))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3000


def test_dropped_entries_are_an_entry(tmp_path: Path) -> None:
    """With the numbers and the size of the dropped ones."""
    journal = Journal(tmp_path / "journal", capacity=3 << 20)
    for _ in range(50):
        journal.append("note", text="x" * (100 << 10))

    (dropped, *_) = journal.entries(kinds={"dropped"})

    assert dropped["from_seq"] == 1
    assert dropped["to_seq"] < journal.first
    assert dropped["bytes"] > 1 << 20


def test_the_journal_continues_after_a_crash(tmp_path: Path) -> None:
    """A torn line is an entry; whole lines are kept."""
    journal = Journal(tmp_path)
    journal.append("one", value=1, missing=None)
    journal.append("two")
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-3])

    again = Journal(tmp_path)

    assert [entry["kind"] for entry in again.entries()] == ["one", "dropped"]
    assert "missing" not in again.entries()[0]
    assert again.append("three") == 3


def test_an_entry_that_is_too_long_loses_its_texts(tmp_path: Path) -> None:
    """The entry stays, and says how long it was."""
    journal = Journal(tmp_path)

    journal.append("note", text="x" * (2 << 20), rows=["y"] * 1000, number=7)

    (entry,) = journal.entries()
    assert entry["number"] == 7
    assert entry["cut"] > 2 << 20


def test_the_copy_has_entries_since_the_session_began(tmp_path: Path) -> None:
    """Not the entries of the session it was forked from, but all of its own, also the entries of a pause."""
    journal = Journal(tmp_path / "journal", tmp_path / "run")
    journal.append("before")
    journal.pause()
    journal.append("meanwhile")
    journal.resume()
    journal.append("after")
    assert _kinds(tmp_path / "run") == ["before", "meanwhile", "after"]

    journal.pause()
    (tmp_path / "run").rename(tmp_path / "other")  # as a fork finds it
    journal.append("meanwhile")
    journal.resume()
    journal.append("own")

    assert _kinds(tmp_path / "run") == ["meanwhile", "own"]
    assert [entry["seq"] for entry in journal.entries()] == [1, 2, 3, 4, 5]


def _kinds(folder: Path) -> list[str]:
    lines = [line for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]
    return [json.loads(line)["kind"] for line in lines]


def test_the_journal_records_when_a_session_begins(guest: Any) -> None:
    """Its first entry says so, and following readers get new entries."""
    with guest.call("journal", follow=True, limit=1) as call:
        first = json.loads(call.until("entry").payload)

    assert first["seq"] == 1
    assert (first["kind"], first["event"], first["actor"]) == ("woken", "started", "system")


def test_a_reader_from_beyond_the_end_keeps_nobody_waiting(guest: Any) -> None:
    """It waits for entries with higher numbers; the supervisor serves others in the meantime."""
    end = guest.ask("moment")[0].head["journal_seq"]
    with guest.call("journal", follow=True, after_seq=end + 2) as call:
        for _ in range(3):
            guest.exec("true")
        assert json.loads(call.until("entry").payload)["seq"] == end + 3


def test_a_capture_knows_where_the_records_end(guest: Any) -> None:
    """`prepare` and `moment` give the number of the last entry and the offsets of the output."""
    guest.exec("true")
    (output,) = (guest.folder / "state/shells/main/output").iterdir()
    # The command has ended before its shell prompts.
    assert polling.until(lambda: b"133;B" in output.read_bytes().rpartition(b"133;E")[2], PATIENCE)
    moment = guest.ask("moment")[0].head
    prepared = guest.prepare()
    guest.wake(token=prepared["token"], event="resumed")

    assert prepared["journal_seq"] == moment["journal_seq"] >= 1
    assert prepared["offsets"]["main"] == moment["offsets"]["main"] > 0


@pytest.mark.parametrize("text", ["agent", "agent:coder", "person:alice", "system"])
def test_an_actor_has_a_text_form(text: str) -> None:
    """Kind and name."""
    assert str(Actor.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice", "person:", "person:a b", "agent:\x1b", f"agent:{'x' * 65}"])
def test_an_invalid_actor_is_refused(text: str) -> None:
    """Only the known kinds, without blanks or controls in names."""
    with pytest.raises(ValueError, match="actor"):
        Actor.parse(text)

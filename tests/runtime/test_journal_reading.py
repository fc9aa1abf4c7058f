"""Journals on the host: lines read without trust, imported once, along lines of lineage, filtered."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests import peak_memory

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.journal import event_text, journal_query, notebook
from holdfast.runtime.journal import mirror as mirroring
from holdfast.runtime.journal.mirror import forget_oldest, mirror
from holdfast.runtime.store.entry import CheckedLine, Entry, parse_line
from holdfast.runtime.store.journal_entries import EntryRow
from holdfast.runtime.store.store import Store
from holdfast.runtime.store.timelines import Branch, TimelinePart, family_of, line_of


def entry(seq: int = 1, kind: str = "command_started", **values: Any) -> Entry:
    known = {key: values.pop(key) for key in ("actor", "host", "at", "current") if key in values}
    return Entry("a" * 12, "work", seq, known.pop("at", 1000.0 + seq), kind, details=values, **known)


class Shared:
    """A folder that a session shares with the host, and the journal it writes there."""

    def __init__(self, home: Home, session_id: str) -> None:
        self.home, self.id = home, session_id
        self.store = Store.open(home.database)
        self.folder = home.run_dir(session_id)
        self.folder.mkdir(parents=True)
        self.journal = Journal(home.root / "inside" / session_id, self.folder / "journal")

    def mirror(self) -> int:
        return mirror(self.store, self.home, self.id)

    def kinds(self) -> list[str]:
        return [row.kind for row in self.store.entries.of([self.id])]


@pytest.fixture
def shared(home: Home) -> Shared:
    return Shared(home, "a" * 12)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json\n",
        b"[1]\n",
        b'{"seq":0,"at":1,"kind":"x"}\n',
        b'{"seq":true,"at":1,"kind":"x"}\n',
        b'{"seq":1,"at":"now","kind":"x"}\n',
        b'{"seq":1,"at":1e300,"kind":"x"}\n',
        b'{"seq":1,"at":1,"kind":"X\x1b"}\n',
        b'{"seq":1,"at":1}\n',
        b"[" * 200_000 + b"\n",
        b'{"seq":1,"at":1,"kind":"x","a":"' + b"y" * (3 << 20) + b'"}\n',
    ],
)
def test_malformed_entries_are_left_out(line: bytes) -> None:
    """A session can write anything in the place of its journal."""
    assert parse_line(line) is None


def test_an_invalid_actor_is_unknown() -> None:
    """The rest of the entry counts."""
    found = parse_line(b'{"seq":1,"at":1,"kind":"x","actor":"a b\\u001b","more":[1]}\n')

    assert found is not None
    assert (found.actor, found.body) == (None, '{"more":[1]}')


def test_entries_are_imported_once(shared: Shared) -> None:
    """However often they are read, and entries of a half-written segment the next time."""
    for number in range(5):
        shared.journal.append("note", number=number)
    assert (shared.mirror(), shared.mirror()) == (5, 0)
    shared.journal.append("more")

    assert shared.mirror() == 1
    assert shared.kinds() == ["note"] * 5 + ["more"]


def test_imported_segments_are_removed(shared: Shared) -> None:
    """Except the newest, into which the session writes."""
    for _ in range(40):
        shared.journal.append("note", text="x" * (100 << 10))
    folder = shared.folder / "journal"
    assert len(list(folder.iterdir())) > 1

    assert shared.mirror() == 40
    assert len(list(folder.iterdir())) == 1
    shared.journal.append("more")
    assert shared.mirror() == 1


def test_links_of_a_session_are_not_followed(shared: Shared, tmp_path: Path) -> None:
    """Links, pipes and folders under the names of segments are skipped, and delay nothing."""

    outside = tmp_path / "secret"
    outside.write_bytes(b'{"seq":1,"at":1,"kind":"stolen"}\n')
    folder = shared.folder / "journal"
    (folder / f"{1:016d}.jsonl").symlink_to(outside)
    os.mkfifo(folder / f"{2:016d}.jsonl")
    (folder / f"{3:016d}.jsonl").mkdir()
    (folder / f"{4:016d}.jsonl").write_bytes(b'\xff\xfe\n{"seq":9,"at":1,"kind":"real"}\n{"seq":10')

    shared.mirror()

    assert shared.kinds() == ["real"]


def test_removed_sessions_lose_their_journals_beyond_the_limit(home: Home) -> None:
    """The oldest first; existing sessions keep theirs."""
    store = Store.open(home.database)
    rows = [store.add_session(f"s{number}", "image", {}) for number in range(3)]
    for row in rows:
        store.entries.note(row.id, "noted", 1.0, actor=None, body={"text": "x" * 100_000})
    for row in rows[:2]:
        store.update_session(row.id, state="removed")

    assert forget_oldest(store, store.entries.bytes() - 50_000) == 1
    assert [row.session_id for row in store.entries.of([row.id for row in rows])] == [rows[1].id, rows[2].id]
    assert forget_oldest(store, 0) == 1
    assert len(store.entries.of([rows[2].id])) == 1


def test_a_journal_that_is_a_link_is_not_read(home: Home, tmp_path: Path) -> None:
    """Nor is the folder itself, if it is one."""
    shared = Shared(home, "b" * 12)
    (shared.folder / "journal").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / f"{1:016d}.jsonl").write_bytes(b'{"seq":1,"at":1,"kind":"stolen"}\n')
    (shared.folder / "journal").symlink_to(tmp_path / "elsewhere")

    assert shared.mirror() == 0


def test_the_past_of_a_session_ends_at_its_snapshot() -> None:
    """Through all it was restored from; later entries there are not part of it."""
    branches = {"c": Branch("b", 20, 200.0), "b": Branch("a", 10, 100.0), "d": Branch("a", 12, 120.0)}

    assert line_of("c", branches) == [
        TimelinePart("a", 10, 100.0),
        TimelinePart("b", 20, 200.0),
        TimelinePart("c"),
    ]
    assert line_of("a", branches) == [TimelinePart("a")]
    assert family_of("d", branches) == {"a", "b", "c", "d"}
    assert TimelinePart("a", 10, 100.0).covers(10, 999.0, host=False)
    assert not TimelinePart("a", 10, 100.0).covers(11, 99.0, host=False)
    assert not TimelinePart("a", 10, 100.0).covers(10, 101.0, host=True)


def test_a_circle_of_branches_ends() -> None:
    """A damaged store must not hang a caller."""
    branches = {"a": Branch("b", 1, 1.0), "b": Branch("a", 1, 1.0)}

    assert [part.session_id for part in line_of("a", branches)] == ["b", "a"]
    assert family_of("a", branches) >= {"a"}


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (journal_query.Filter(), [1, 2, 3]),
        (journal_query.Filter(after=2), [3]),
        (journal_query.Filter(kinds=["cell_started"]), [2]),
        (journal_query.Filter(actor="person"), [3]),
        (journal_query.Filter(actor="agent:coder"), [1]),
        (journal_query.Filter(since=1002.0), [2, 3]),
        (journal_query.Filter(grep="MAKE"), [1]),
    ],
)
def test_entries_are_filtered(shared: Shared, wanted: journal_query.Filter, numbers: list[int]) -> None:
    """By number, kind, actor, time and text."""
    entries = [
        entry(1, actor="agent:coder", command="make test"),
        entry(2, "cell_started", actor="agent"),
        entry(3, actor="person:alice", command="ls"),
    ]
    lines = [
        CheckedLine(each.seq, each.at, each.kind, each.actor, json.dumps(each.details)) for each in entries
    ]
    assert shared.store.entries.take(shared.id, lines) == 3

    rows = {row.seq for row in shared.store.entries.stream([shared.id], wanted.rows())}

    assert [each.seq for each in entries if each.seq in rows and wanted.takes(each)] == numbers


def test_host_events_come_after_their_entry(shared: Shared) -> None:
    """A reader who has entry 5 does not necessarily know the snapshot taken at it."""
    shared.store.entries.take(shared.id, [CheckedLine(5, 1.0, "command_started", None, "{}")])
    shared.store.entries.note(shared.id, "snapshot", 2.0, actor=None, body={})

    rows = shared.store.entries.stream([shared.id], journal_query.Filter(after=5).rows())

    assert [row.kind for row in rows] == ["snapshot"]


def segment(shared: Shared, first: int, count: int, text: str = "") -> None:
    """Write a segment like a session that respects no limit."""
    lines = (f'{{"seq":{number},"at":1,"kind":"x","t":"{text}"}}\n' for number in range(first, first + count))
    (shared.folder / "journal" / f"{first:016d}.jsonl").write_text("".join(lines))


def test_a_flood_of_short_entries_is_bounded(shared: Shared) -> None:
    """Of 150 000 short lines the newest are kept; the number of missing ones is reported once."""
    for first in range(1, 150_001, 50_000):
        segment(shared, first, 50_000)

    assert shared.mirror() == mirroring.MAX_TAKEN
    rows = shared.store.entries.of([shared.id])
    said = [row for row in rows if row.kind == "dropped"]
    assert [row.body["entries"] for row in said] == [150_000 - mirroring.MAX_TAKEN]
    assert said[0].body["bytes"] > 30 * said[0].body["entries"]
    assert (rows[-1].seq, len(rows)) == (150_000, mirroring.MAX_TAKEN + 1)
    assert shared.mirror() == 0
    assert len(shared.store.entries.of([shared.id])) == len(rows)


def test_entries_are_counted_not_only_their_bytes(shared: Shared) -> None:
    """Entries of two bytes fill no limit of bytes: beyond 50 000 the older half goes, with a report."""
    for round_ in range(4):
        segment(shared, 1 + round_ * 15_000, 15_000)
        assert shared.mirror() == 15_000

    count, weight = shared.store.entries.weight(shared.id)
    (said,) = [row.body for row in shared.store.entries.of([shared.id], ["dropped"])]
    assert count == 60_000 - said["entries"] <= mirroring.MAX_ENTRIES
    assert said["entries"] == 30_000
    assert said["bytes"] > said["entries"] * 64
    assert weight > count * 64


def test_entries_dropped_before_they_were_read_are_reported(shared: Shared) -> None:
    """The host's copy also has a limit: a gap in the numbers is reported with its size."""
    segment(shared, 1, 10)
    assert shared.mirror() == 10
    segment(shared, 101, 10)
    assert shared.mirror() == 10

    (said,) = shared.store.entries.of([shared.id], ["dropped"])
    assert (said.seq, said.body["entries"]) == (10, 90)


def test_lines_without_entries_are_not_read_without_end(shared: Shared) -> None:
    """A segment of empty lines ends the reading, and hides no entry after it."""
    (shared.folder / "journal" / f"{1:016d}.jsonl").write_bytes(b"\n" * (4 << 20))
    segment(shared, 2, 3)

    assert shared.mirror() == 3
    (said,) = shared.store.entries.of([shared.id], ["dropped"])
    assert said.body["bytes"] > 3 << 20


def test_reading_a_flooded_journal_takes_little_memory(shared: Shared, home: Home, tmp_path: Path) -> None:
    """`journal -n 1` after a flood of a million lines: under 100 MB, also the first time."""
    shared.store.add_session("flooded", "image", {}, session_id=shared.id, state="dead")
    for first in range(1, 1_000_000, 100_000):
        segment(shared, first, 100_000)
    command = [sys.executable, "-m", "holdfast", "journal", "flooded", "-n", "1", "--json"]
    for _ in range(2):
        code, kilobytes = peak_memory.run(
            command, {**os.environ, "HOLDFAST_HOME": str(home.root)}, tmp_path / "out"
        )
        (found,) = json.loads((tmp_path / "out").read_bytes())
        assert (code, found["seq"]) == (0, 1_000_000)
        assert kilobytes < 100_000


@pytest.mark.parametrize("all_timelines", [False, True])
def test_the_newest_entries_are_the_end_of_all(
    shared: Shared, home: Home, all_timelines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit gives the end of the whole list, and reads no more rows than needed."""
    shared.store.add_session("work", "image", {}, session_id=shared.id, state="dead")
    segment(shared, 1, 5000)
    with Holdfast(home) as controller:
        whole = journal_query.read(
            controller.context, shared.id, journal_query.Filter(), all_timelines=all_timelines
        )
        rows: list[int] = []
        really = journal_query.as_entry

        def counted(row: EntryRow, name: str, *, current: bool) -> Entry:
            rows.append(row.seq)
            return really(row, name, current=current)

        monkeypatch.setattr(journal_query, "as_entry", counted)
        some = journal_query.read(
            controller.context, shared.id, journal_query.Filter(), all_timelines=all_timelines, limit=7
        )

    assert len(whole) == 5000
    assert some == whole[-7:]
    assert len(rows) == 7


def test_an_entry_reads_like_its_event() -> None:
    """One sentence per kind; only a kind that has none is named before its fields."""
    for kind, details, text in (
        ("job_ended", {"id": "t", "command": "make", "exit_code": 2}, "job t ended with 2: make"),
        ("command_ended", {"exit_code": 1, "duration": 0.5}, "exit 1 after 0.5 s"),
        ("lease", {"shell": "main", "action": "taken"}, "lease of shell main: taken by nobody"),
        ("changed", {"cwd": ["/", "/srv"]}, "changed cwd"),
        ("un_heard_of", {"a": 1}, "a=1"),
    ):
        assert Event(1, datetime.now(UTC), kind, details).text == text
        line = event_text.entry_line(entry(1, kind, **details), asked="work")
        named = "un heard of: " if kind == "un_heard_of" else ""
        assert line.partition(" -  ")[2].lstrip() == named + text


@pytest.mark.parametrize(
    "kind", ["command_started", "command_ended", "cell_ended", "input", "snapshot", "odd"]
)
def test_a_line_for_people_holds_no_control_characters(kind: str) -> None:
    """Whatever a session wrote into its entries."""
    nasty = "\x1b]0;title\x07\x1b[31m\u202eevil\n\n" * 30
    names = ("command", "text", "label", "why", "status", "bytes", "reason", "exit_code", "duration")
    line = event_text.entry_line(entry(1, kind, **dict.fromkeys(names, nasty)), asked="work")

    assert "\x1b" not in line
    assert "\n" not in line
    assert "\u202e" not in line
    assert len(line) < 400


def test_cells_make_a_valid_notebook() -> None:
    """With code, counts and outputs; one that is still running has none yet."""
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "hi\n"},
        {
            "output_type": "execute_result",
            "data": {"text/plain": "2", "image/png": "iVBO"},
            "execution_count": 1,
        },
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["a", "b"]},
    ]
    book = notebook.notebook(
        [
            entry(
                1, "cell_started", id="c1", kernel="main", code="print('hi')\n2", actor="agent", reason="r"
            ),
            entry(2, "cell_ended", id="c1", kernel="main", execution_count=1, outputs=outputs),
            entry(3, "cell_started", id="other", kernel="second", code="x"),
            entry(4, "cell_started", id="c2", kernel="main", code="while True: pass"),
        ],
        "main",
        "work",
    )
    library: Any = nbformat
    read = library.reads(notebook.write(book), as_version=4)

    nbformat.validate(read)
    assert (read.nbformat, read.nbformat_minor) == (4, 5)
    assert [cell.source for cell in read.cells] == ["print('hi')\n2", "while True: pass"]
    assert [output.output_type for output in read.cells[0].outputs] == ["stream", "execute_result", "error"]
    assert read.cells[0].metadata.holdfast.reason == "r"


@pytest.mark.parametrize(
    "outputs",
    ["text", [1, None, "x"], [{"output_type": "stream", "text": 5}], [{"output_type": "display_data"}]],
)
def test_odd_outputs_leave_the_notebook_valid(outputs: Any) -> None:
    """Outputs reported by a session can be anything."""
    book = notebook.notebook(
        [
            entry(1, "cell_started", id="c", kernel="main", code=7),
            entry(2, "cell_ended", id="c", kernel="main", execution_count=-5, outputs=outputs),
        ],
        "main",
        "work",
    )

    nbformat.validate(json.loads(notebook.write(book)))


def test_an_entry_cannot_name_its_recorder() -> None:
    """Text that a session wrote into its journal does not replace the host's knowledge of the entry."""
    line = b'{"seq": 1, "at": 5, "kind": "note", "host": true, "session": "other", "current": 7, "mine": 1}'
    found = parse_line(line)
    assert found
    forged = Entry("a" * 12, "work", 1, 5.0, "note", details=json.loads(found.body)).as_dict()
    assert (forged["host"], forged["session"], forged["current"], forged["mine"]) == (False, "work", True, 1)

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.runtime.history.lineage.draw_tree import Form, draw
from holdfast.runtime.history.lineage.overview import LineageOverview, Ran, why
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _form(width: int = 80) -> Form:
    return Form(width, BEGIN + timedelta(hours=1), lambda count: f"{count} B", lambda at, now: "1 min ago")


def _taken(
    name: str, parent: str | None, of: str = "s", at: int = 0, **known: Any
) -> tuple[SnapshotRow, str | None]:
    when = BEGIN + timedelta(seconds=at)
    details = known.pop("details", SnapshotDetails())
    return SnapshotRow(
        name, name, "live", "ready", of, when, parent, details=details, bytes=5, **known
    ), parent


def _session(
    name: str, parent: str | None, at: int = 0, state: Any = "running"
) -> tuple[SessionRow, str | None]:
    return SessionRow(name, name, state, "i", BEGIN + timedelta(seconds=at), None, parent), parent


def _lineage(snapshots: list[Any], sessions: list[Any], **ran: Ran) -> LineageOverview:
    above = {row.id: parent for row, parent in [*snapshots, *sessions]}
    names = {"s": "work", "t": "try"}
    return LineageOverview(tuple(r for r, _ in snapshots), tuple(r for r, _ in sessions), above, ran, names)


def test_successors_are_below_and_branches_to_the_right() -> None:
    """The session's own line stays in its column, whatever copies were made in between."""
    found = _lineage(
        [_taken("a", None, at=1), _taken("b", "a", at=5), _taken("t1", "a", "t", at=3)],
        [_session("s", "b"), _session("t", "t1", at=2), _session("old", "a", at=2, state="dead")],
        a=Ran(2, samples=("make", "make test")),
        b=Ran(0, 1, samples=("x = 1",)),
        s=Ran(9, samples=("ls",)),
    )

    assert draw(found, _form()) == [
        "│  2 commands: make; make test",
        "● a  of work, live, 5 B, 1 min ago",
        "├─╮",
        "│ ● t1  of try, live, 5 B, 1 min ago",
        "│ ▶ t  running",
        "├─╮",
        "│ ✝ old  dead",
        "│  1 cell: x = 1",
        "● b  live, 5 B, 1 min ago",
        "│  9 commands: ls; …",
        "▶ s  running",
    ]


def test_a_snapshot_says_why_it_is_there() -> None:
    """A person's reason, or its policy's trigger; also pins and damage."""
    rows = [
        _taken("a", None, details=SnapshotDetails({"auto": {"trigger": "risky", "what": "rm -r x"}})),
        _taken("b", "a", reason="before the \x1b[31mmigration", pinned=True),
        _taken("c", "b", details=SnapshotDetails({"auto": {"trigger": "odd", "what": "?"}})),
    ]

    lines = draw(_lineage(rows, []), _form())
    assert lines[0] == "○ a  of work, live, 5 B, 1 min ago: before rm -r x"
    assert lines[1].startswith("● b  live, 5 B, 1 min ago, pinned: before the ")
    assert "\x1b" not in lines[1]
    odd = rows[2][0]
    assert isinstance(odd, SnapshotRow)
    assert why(odd) == "automatic: ?"


def test_many_idle_sessions_are_one_line() -> None:
    """A fork into fifty does not hide the tree; active ones are listed separately."""
    forks = [_session(f"try-{n}", "a", n, "running" if n % 2 else "suspended") for n in range(50)]
    found = _lineage([_taken("a", None)], [*forks, _session("s", "a")], **{"try-7": Ran(1, samples=("ls",))})

    lines = draw(found, _form())
    assert lines[1:] == [
        "├─╮",
        "│ │  1 command: ls",
        "│ ▶ try-7  running",
        "├─▶ try-0 … try-49  25 suspended, 24 running",
        "▶ s  running",
    ]


def test_a_line_of_hundreds_stays_a_column() -> None:
    """Generations go down, not to the right, and are drawn without recursion."""
    rows = [_taken(f"g{n}", f"g{n - 1}" if n else None, at=n) for n in range(5000)]

    lines = draw(_lineage(rows, []), _form())
    assert len(lines) == 5000
    assert all(line.startswith("● g") for line in lines)


@pytest.mark.parametrize("width", [80, 40, 20])
def test_no_tree_is_wider_than_the_terminal(width: int) -> None:
    """Branches of branches continue further down where room is missing; nothing is left out."""
    rows, at = [], 0
    for depth in range(60):
        rows.append(_taken(f"n{depth}", f"n{depth - 1}" if depth else None, f"s{depth}", at := at + 1))
        rows.append(_taken(f"later{depth}", f"n{depth}", f"s{depth}", 1000 + depth))
    found = _lineage(
        rows,
        [_session(f"s{depth}", f"later{depth}") for depth in range(60)],
        n59=Ran(3, samples=("x" * 200,)),
    )

    lines = draw(found, _form(width))
    assert max(map(len, lines)) <= width
    for depth in range(60):
        assert any(f"● n{depth} " in line for line in lines)
        assert any(f"▶ s{depth} " in line for line in lines)


def test_a_damaged_lineage_is_drawn() -> None:
    """Missing parents leave roots; a snapshot that is its own parent is a root."""
    lines = draw(_lineage([_taken("a", "gone"), _taken("b", "b")], [_session("s", "gone")]), _form())

    assert len(lines) == 3


def test_the_part_of_a_session() -> None:
    """Its past, its snapshots, and their continuations; not unrelated work of others."""
    found = _lineage(
        [_taken("a", None), _taken("b", "a", at=1), _taken("x", "a", "t", at=2), _taken("z", None, "u")],
        [_session("s", "b"), _session("t", "x"), _session("u", "z")],
    )
    part = found.of(found.sessions[0])

    assert [row.id for row in part.snapshots] == ["a", "b"]
    assert [row.id for row in part.sessions] == ["s"]

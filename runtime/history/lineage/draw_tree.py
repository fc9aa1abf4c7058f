"""Draws snapshots and sessions as a tree that is read from top to bottom, like a log with branches.  Pure.

A successor is below its predecessor in the same column; only a branch moves one step to the right. So a line
of a hundred snapshots stays a column, and a tree stays within a terminal's width. A branch that would go too
far is drawn separately further down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.runtime.history.lineage.overview import marks, why
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

if TYPE_CHECKING:
    from holdfast.runtime.history.lineage.overview import LineageOverview

Node = SnapshotRow | SessionRow
TEXT_LEAST = 48
"""Columns left for words, however deep the branch."""
TOGETHER = 5
"""More sessions than this that continue from one snapshot, and did nothing yet, share one line."""
_STATES = {"running": "▶", "suspended": "‖", "dead": "✝", "creating": "…"}


@dataclass(frozen=True, slots=True)
class Form:
    """The format of sizes and times, and the width of a line."""

    width: int
    now: datetime
    size: Callable[[int], str]
    ago: Callable[[datetime, datetime], str]


def draw(lineage: LineageOverview, form: Form) -> list[str]:
    """Return the lines of the tree, none wider than the form says."""
    return _Drawing(lineage, form).lines()


class _Drawing:
    def __init__(self, lineage: LineageOverview, form: Form) -> None:
        self._lineage = lineage
        self._form = form
        self._lines: list[str] = []
        self._later: list[Node] = []
        everyone: list[Node] = [*lineage.snapshots, *lineage.sessions]
        self._there = {node.id: node for node in everyone}
        self._below: dict[str | None, list[Node]] = {}
        for node in everyone:
            self._below.setdefault(self._above(node), []).append(node)
        self._carries: dict[str, set[str]] = {}
        for session in lineage.sessions:
            at = self._above(session)
            while at is not None and session.id not in self._carries.setdefault(at, set()):
                self._carries[at].add(session.id)
                at = self._above(self._there[at])

    def lines(self) -> list[str]:
        roots = sorted(self._below.get(None, ()), key=lambda node: (node.created_at, node.id))
        reached = set()
        for root in roots:
            self._chain(root, "", None)
            reached.add(root.id)
            while self._later:
                node = self._later.pop(0)
                self._lines.append("")
                self._chain(node, "", self._above(node))
        return self._lines

    def _above(self, node: Node) -> str | None:
        up = self._lineage.above.get(node.id)
        return up if up in self._there and up != node.id else None

    def _chain(self, start: Node, prefix: str, above: str | None) -> None:
        """Draw a node and its successors in the same column, with the branches in between."""
        at: Node | None = start
        while at is not None:
            ran = self._lineage.ran.get(at.id)
            if ran:
                self._line(prefix, f"│  {ran.text}")
            self._line(prefix, self._text(at, above))
            branches, following = self._parted(at)
            for branch in branches:
                self._branch(branch, prefix, at.id)
            above, at = at.id, following

    def _branch(self, branch: list[Node], prefix: str, above: str) -> None:
        if len(branch) > 1:
            self._line(prefix, f"├─{self._together(branch)}")
        elif len(prefix) + 2 + TEXT_LEAST > self._form.width:
            self._line(prefix, f"├─ … {self._name(branch[0])} continues below")
            self._later.append(branch[0])
        else:
            self._line(prefix, "├─╮")
            self._chain(branch[0], f"{prefix}│ ", above)

    def _parted(self, node: Node) -> tuple[list[list[Node]], Node | None]:
        """Split the successors of a node: branches, the group of many idle sessions, and the one in its
        column.
        """
        below = self._below.get(node.id, [])
        if not below:
            return [], None
        mine = node.session_id if isinstance(node, SnapshotRow) else node.id
        following = max(
            below,
            key=lambda each: (
                each.id == mine or mine in self._carries.get(each.id, ()),
                isinstance(each, SnapshotRow),
                each.created_at,
                each.id,
            ),
        )
        rest = [each for each in below if each is not following]
        ran = self._lineage.ran
        idle: list[Node] = [each for each in rest if isinstance(each, SessionRow) and not ran.get(each.id)]
        if len(idle) <= TOGETHER:
            return [[each] for each in rest], following
        return [*([each] for each in rest if each not in idle), idle], following

    def _text(self, node: Node, above: str | None) -> str:
        if isinstance(node, SessionRow):
            return f"{_STATES.get(node.state, '?')} {node.name}  {node.state}"
        form = self._form
        mark = "✗" if node.state == "damaged" else "○" if node.details.auto is not None else "●"
        facts = [node.kind, form.size(node.bytes), form.ago(node.created_at, form.now)]
        facts += marks(node)
        before = self._there.get(above or "")
        if not (isinstance(before, SnapshotRow) and before.session_id == node.session_id):
            facts.insert(0, f"of {self._lineage.names.get(node.session_id, node.session_id)}")
        reason = why(node)
        return f"{mark} {node.name}  {', '.join(facts)}{f': {reason}' if reason else ''}"

    def _together(self, nodes: Iterable[Node]) -> str:
        sessions = sorted(
            (node for node in nodes if isinstance(node, SessionRow)), key=lambda row: row.created_at
        )
        states: dict[str, int] = {}
        for row in sessions:
            states[row.state] = states.get(row.state, 0) + 1
        counted = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"▶ {sessions[0].name} … {sessions[-1].name}  {counted}"

    def _name(self, node: Node) -> str:
        return node.name

    def _line(self, prefix: str, text: str) -> None:
        room = max(1, self._form.width - len(prefix))
        words = plain(text, 4 * room)
        self._lines.append(prefix + (words if len(words) <= room else f"{words[: room - 1]}…"))

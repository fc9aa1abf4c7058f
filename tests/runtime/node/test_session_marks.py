"""A home's rows about its node's sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.runtime.cluster.cluster_rows import Held
from holdfast.runtime.node.session_marks import loss_of, sorted_out
from holdfast.runtime.store.row_details import Clustered, SessionDetails
from holdfast.runtime.store.rows import SessionRow


def _row(name: str, state: Any, epoch: int | None, **details: Any) -> SessionRow:
    mark = {} if epoch is None else {"cluster": Clustered(epoch).as_dict()}
    return SessionRow(name, name, state, "i", datetime.now(UTC), details=SessionDetails({**mark, **details}))


def test_rows_are_sorted_by_their_marks() -> None:
    """One without a mark is new if it runs; a removed one with a mark was removed by its owner."""
    rows = [
        _row("here", "running", 3),
        _row("cold", "suspended", 1),
        _row("new", "running", None),
        _row("made", "creating", None),
        _row("gone", "removed", 2),
        _row("other", "removed", None),
        _row("bad", "running", None, cluster={"epoch": 1, "of": "a later version"}),
    ]
    found = sorted_out(rows, {"here"})
    assert [(each.held, each.frozen) for each in found.present] == [
        (Held("here", 3), True),
        (Held("cold", 1), False),
    ]
    assert [row.id for row in found.new] == ["new", "bad"]
    assert found.removed == (Held("gone", 2),)


def test_the_policy_of_a_session_counts_before_its_nodes() -> None:
    """Both in seconds of work."""
    assert loss_of(_row("s", "running", 1), 60.0) == 60.0
    assert loss_of(_row("s", "running", 1, policy={"durable": 20}), 60.0) == 20.0

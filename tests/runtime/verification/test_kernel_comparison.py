"""A restored session's report on its kernels, compared with the earlier one."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.history.drift.holdings import HeldKernel, Holdings
from holdfast.runtime.verification import kernel_check
from holdfast.snapshots.record import RecordedTree, StateRecord
from holdfast.snapshots.verification import Verification

NAMES = {"data": ("list of 10", ""), "n": ("int", "aa"), "f": ("function", "")}
BEFORE = kernel_check.kernel_records(Holdings(seq=7, kernels={"main": HeldKernel(epoch=1, names=NAMES)}))


def after(kernel: HeldKernel | None) -> Verification:
    return kernel_check.judge(BEFORE, {} if kernel is None else {"main": kernel}, Verification())


def test_values_that_change_on_their_own_do_not_deviate() -> None:
    """A thread appends to a list and counts; a cell has made a new name."""
    moved = {**NAMES, "data": ("list of 11", ""), "n": ("int", "bb"), "new": ("int", "c")}
    found = after(HeldKernel(epoch=1, names=moved))
    assert found.exact
    assert found.compared == {"names": 3}


def test_names_removed_or_of_a_different_type_are_reported() -> None:
    """A restarted kernel has nothing; one with a new epoch is a different one."""
    assert [one.text for one in after(HeldKernel(epoch=1, names={"n": ("str", "")})).deviations] == [
        "main: names are gone: data, f",
        "main: names have an unexpected type: n",
    ]
    for other in (HeldKernel(epoch=2, names=NAMES), None):
        assert [one.text for one in after(other).deviations] == ["main differs from the captured one"]


def test_a_busy_kernel_is_not_compared() -> None:
    """It is left alone, and the report says so."""
    for busy in (HeldKernel(epoch=1, names=None), HeldKernel(epoch=1, names={}, stale=True)):
        assert after(busy).skipped == ["kernel main: it is busy"]
        assert after(busy).exact


def test_changes_before_the_freeze_do_not_deviate(tmp_path: Path) -> None:
    """The names are the earlier ones; the session does not have to be asked."""
    record = StateRecord(tree=RecordedTree(processes=[]), kernels=BEFORE)
    found = kernel_check.compare(tmp_path, record, 8, Verification())
    assert found.exact
    assert "between" in found.skipped[0]
    assert kernel_check.compare(tmp_path, None, 8, Verification()) == Verification()


def test_a_session_that_does_not_reply_is_not_waited_for(tmp_path: Path) -> None:
    """Nothing listens there."""
    record = StateRecord(tree=RecordedTree(processes=[]), kernels=BEFORE)
    assert kernel_check.compare(tmp_path, record, 7, Verification()).skipped == [
        "kernels: the session did not answer in time"
    ]

"""Tests of the notes of personalities."""

from __future__ import annotations

import os
from typing import Any

import pytest

from holdfast.images import seccomp
from holdfast.snapshots.checkpointer.carried import personalities
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

QUERY = 0xFFFFFFFF


def test_personalities_that_programs_can_take_are_restored() -> None:
    """No others: the profile and the judge have the same list."""
    assert {0, *personalities.ALLOWED, QUERY} == set(seccomp.PERSONALITIES)


@pytest.mark.parametrize(
    "found",
    [
        [],
        {"7": 0x40000},  # ADDR_NO_RANDOMIZE
        {"7": 0x400000},  # READ_IMPLIES_EXEC
        {"7": 0x200000},  # ADDR_COMPAT_LAYOUT
        {"7": True},
        {"7": "8"},
        {"7:8 9": 8},
        {"": 8},
        {str(pid): 8 for pid in range(personalities.MOST + 1)},
    ],
)
def test_a_note_of_impossible_rights_is_refused(found: Any) -> None:
    """It can come from elsewhere."""
    with pytest.raises(ImagesUnreadable):
        personalities.noted(found)


def test_notes_are_reported() -> None:
    """In a form that the guard searches; a snapshot without a note lists no process."""
    assert personalities.noted(None) == {}
    with personalities.guard_input(personalities.noted({"7": 8, "12": 0x20008})) as descriptor:
        assert os.pread(descriptor, 100, 0) == b" 7:8 12:20008 "


def test_processes_with_a_different_label_are_found() -> None:
    """This process has the ordinary one."""
    personalities.check([os.getpid()], {})
    with pytest.raises(OSError, match="personality"):
        personalities.check([os.getpid()], {_inner(): 8})


def _inner() -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123 - of this process
        return next(int(line.split()[-1]) for line in status if line.startswith("NSpid:"))

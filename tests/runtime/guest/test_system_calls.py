"""The activity of threads, from the kernel's text."""

from __future__ import annotations

import struct

import pytest

from holdfast.runtime.guest.pulse import system_calls
from holdfast.runtime.guest.pulse.system_calls import Doing, SystemCall

X86_64, AARCH64 = system_calls.table("x86_64"), system_calls.table("aarch64")


def _line(number: int, *args: int) -> bytes:
    words = [*args, 0, 0, 0, 0, 0, 0][:6]
    return b"%d %s 0x7ffd 0x7f00\n" % (number, b" ".join(b"0x%x" % word for word in words))


@pytest.mark.parametrize(
    ("numbers", "number", "doing"),
    [
        (X86_64, 0, Doing.READS),
        (X86_64, 7, Doing.POLLS),
        (X86_64, 270, Doing.SELECTS),
        (X86_64, 281, Doing.EPOLLS),
        (X86_64, 230, Doing.SLEEPS),
        (X86_64, 61, Doing.WAITS_FOR_CHILD),
        (X86_64, 1, Doing.TRANSFERS),
        (AARCH64, 63, Doing.READS),
        (AARCH64, 73, Doing.POLLS),
        (AARCH64, 22, Doing.EPOLLS),
        (AARCH64, 115, Doing.SLEEPS),
        (AARCH64, 260, Doing.WAITS_FOR_CHILD),
    ],
)
def test_a_call_is_recognized_by_its_number(numbers: dict[int, Doing], number: int, doing: Doing) -> None:
    """The numbers differ between machines."""
    assert system_calls.parse(_line(number, 3, 5), numbers) == SystemCall(doing, (3, 5, 0, 0, 0, 0))


@pytest.mark.parametrize("line", [b"running\n", b"-1 0x7ffd 0x7f00\n", b"", b"x y z 1 2 3 4 5 6\n"])
def test_a_thread_in_no_call_runs(line: bytes) -> None:
    """A thread that computes, or was caught between two calls."""
    assert system_calls.parse(line).doing is Doing.RUNS


def test_descriptors_are_found_in_the_arguments() -> None:
    """Only those to read from count: a program may wait to write."""
    array = struct.pack("<ihhihhihh", 0, 1, 0, 5, 4, 0, -1, 1, 0)
    assert system_calls.polled(array) == [0]
    assert system_calls.polled(array[:-3]) == [0]
    assert system_calls.selected(bytes([0b1001, 0b10]), 16) == [0, 3, 9]
    assert system_calls.selected(b"", 1024) == []
    info = (
        b"pos:\t0\nflags:\t02000002\n"
        b"tfd:        0 events:       19 data:                0  pos:0 ino:8 sdev:1b\n"
        b"tfd:        9 events:        4 data:                9  pos:0 ino:9 sdev:9\n"
    )
    assert system_calls.watched(info) == [0]

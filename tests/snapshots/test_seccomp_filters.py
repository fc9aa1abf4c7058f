from __future__ import annotations

import struct

import pytest

from holdfast.snapshots import seccomp_filters
from holdfast.snapshots.seccomp_filters import X86_64, FilterUnreadable, lets_through

ALLOW, REFUSE = 0x7FFF0000, 0x00050001
LOAD, JUMP, JUMP_EQUAL, JUMP_GREATER, JUMP_SET, RETURN, AND = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06, 0x54
NUMBER, ARCHITECTURE, FIRST = 0, 4, 16
MOUNT, BPF, CLONE, READ = 165, 321, 56, 0


def program(*steps: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def only(*numbers: int, otherwise: int = REFUSE) -> bytes:
    """Allows these calls of x86-64, and does something else with all others."""
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, X86_64),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER),
    ]
    for number in numbers:
        steps += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    return program(*steps, (RETURN, 0, 0, otherwise))


def test_a_filter_that_refuses_escaping_calls_is_strong_enough() -> None:
    """Whatever else it allows."""
    assert lets_through(only(READ, 1, 2, 59), "x86_64") == []


@pytest.mark.parametrize("action", [ALLOW, 0x7FFC0000, 0x7FF00000, 0x7FC00000, 0x7FFF1234])
def test_a_filter_without_conditions_is_reported(action: int) -> None:
    """Allowed, logged, traced, or left to another process: all let through."""
    found = lets_through(program((RETURN, 0, 0, action)), "x86_64")

    assert {"mount", "bpf", "unshare", "clone of namespaces", "sockets of unexpected families"} <= set(found)


def test_a_single_call_too_many_is_reported_by_name() -> None:
    """Also when only programs of a different kind are allowed it."""
    assert lets_through(only(READ, BPF), "x86_64") == ["bpf"]
    assert lets_through(only(MOUNT | seccomp_filters.X32), "x86_64") == ["mount"]


def test_a_call_judged_by_an_argument_counts_as_allowed() -> None:
    """A secret value that opens a call is found without being guessed."""
    secret = program(
        (LOAD, 0, 0, NUMBER),
        (JUMP_EQUAL, 0, 3, MOUNT),
        (LOAD, 0, 0, FIRST),
        (JUMP_EQUAL, 0, 1, 0xDEADBEEF),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    )
    computed = program(
        (LOAD, 0, 0, FIRST),
        (AND, 0, 0, 0xFF),
        (JUMP_EQUAL, 0, 1, 7),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    )

    assert lets_through(secret, "x86_64") == ["mount"]
    assert "mount" in lets_through(computed, "x86_64")


def test_jumps_without_conditions_are_followed() -> None:
    """Also with an unknown value at hand, which would leave both ways of another jump open."""

    def jumping(first: int, second: int) -> bytes:
        steps = ((LOAD, 0, 0, FIRST), (JUMP, 0, 0, 1), (RETURN, 0, 0, first), (RETURN, 0, 0, second))
        return program(*steps)

    assert "mount" in lets_through(jumping(REFUSE, ALLOW), "x86_64")
    assert lets_through(jumping(ALLOW, REFUSE), "x86_64") == []


def test_clone_is_fine_as_long_as_it_makes_no_namespaces() -> None:
    """Its flags are looked at one by one."""

    def masked(mask: int) -> bytes:
        return program(
            (LOAD, 0, 0, NUMBER),
            (JUMP_EQUAL, 0, 4, CLONE),
            (LOAD, 0, 0, FIRST),
            (JUMP_SET, 1, 0, mask),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, REFUSE),
            (RETURN, 0, 0, REFUSE),
        )

    assert lets_through(masked(0x7E020000), "x86_64") == []
    assert lets_through(masked(0x7E020000 & ~0x10000000), "x86_64") == ["clone of namespaces"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"x" * 7,
        program((LOAD, 0, 0, NUMBER)),
        program((JUMP_EQUAL, 9, 9, 0), (RETURN, 0, 0, REFUSE)),
        program((0xFFFF, 0, 0, 0), (RETURN, 0, 0, REFUSE)),
        program((0x55, 0, 0, 0), (RETURN, 0, 0, REFUSE)),
        program((0xB4, 0, 0, 0), (RETURN, 0, 0, REFUSE)),
        b"x" * 8 * 5000,
    ],
)
def test_invalid_filters_are_not_accepted(bad: bytes) -> None:
    """The kernel would refuse it; here it is not followed."""
    with pytest.raises(FilterUnreadable):
        lets_through(bad, "x86_64")
    assert list(seccomp_filters.weak({"a": bad}, ["a"], "x86_64"))


def test_a_filter_that_branches_without_end_is_given_up() -> None:
    """Time is bounded, however it is written."""
    steps = []
    for index in range(2000):
        steps += [(LOAD, 0, 0, FIRST + index % 40), (JUMP_GREATER, 0, 1, index)]
        steps += [(0x02, 0, 0, index % 16)]
    with pytest.raises(FilterUnreadable):
        lets_through(program(*steps[:4000], (RETURN, 0, 0, REFUSE)), "x86_64")


def test_a_filter_that_is_missing_or_for_another_machine_is_weak() -> None:
    """An unknown filter counts as too weak."""
    assert [text for _, text in seccomp_filters.weak({}, ["a", "a"], "x86_64")] == [
        "is under a seccomp filter that is missing"
    ]
    assert list(seccomp_filters.weak({"a": only(READ)}, ["a"], "riscv64"))
    assert list(seccomp_filters.weak({"a": only(READ)}, ["a"], "x86_64")) == []
    assert list(seccomp_filters.weak({"a": only(READ, BPF)}, ["a"], "x86_64")) == [
        ("a", "is under a seccomp filter that lets through bpf")
    ]

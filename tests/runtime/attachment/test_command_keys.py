"""Keys of a person at a session's terminal: passed on, or obeyed here."""

from __future__ import annotations

import pytest

from holdfast.runtime.attachment.command_keys import (
    BEFORE,
    GIVE,
    HELP,
    LEAVE,
    LOOK,
    NEXT,
    PASS,
    STATUS,
    TAKE,
    CommandKeys,
)

LEAVES = b"\x1d"


def meant(*typed: bytes, leave: bytes = LEAVES) -> list[tuple[str, bytes]]:
    keys = CommandKeys(leave)
    return [each for data in typed for each in keys.feed(data)]


def test_typed_input_is_passed_on_around_commands() -> None:
    assert meant(b"ls\x1etpwd\x1eg\x1ew\x1es\x1en\x1ep\r") == [
        (PASS, b"ls"),
        (TAKE, b""),
        (PASS, b"pwd"),
        (GIVE, b""),
        (LOOK, b""),
        (STATUS, b""),
        (NEXT, b""),
        (BEFORE, b""),
        (PASS, b"\r"),
    ]


@pytest.mark.parametrize("typed", [[b"\x1e", b"t"], [b"a\x1e", b"tb"]])
def test_a_command_can_come_in_two_parts(typed: list[bytes]) -> None:
    assert (TAKE, b"") in meant(*typed)
    assert b"\x1e" not in b"".join(data for _, data in meant(*typed))


def test_the_key_of_commands_is_passed_on_if_typed_twice() -> None:
    """As an editor needs that has a meaning for it; a key without a meaning lists the keys that have one."""
    assert meant(b"\x1e\x1e", b"x\x1ez") == [(PASS, b"\x1e"), (PASS, b"x"), (HELP, b"")]


def test_nothing_after_leaving_is_passed_on() -> None:
    assert meant(b"a\x1drm -r x\r") == [(PASS, b"a"), (LEAVE, b"")]
    assert meant(b"a\x1edrm -r x\r") == [(PASS, b"a"), (LEAVE, b"")]


def test_without_a_command_key_the_leave_key_remains() -> None:
    assert meant(b"a\x1e", leave=b"\x1e") == [(PASS, b"a"), (LEAVE, b"")]


def test_a_key_of_several_bytes_leaves() -> None:
    assert meant(b"a\x1b[21~b", leave=b"\x1b[21~") == [(PASS, b"a"), (LEAVE, b"")]

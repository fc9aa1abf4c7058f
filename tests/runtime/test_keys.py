from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.terminal.key_names import key, keys


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Enter", b"\r"),
        ("C-c", b"\x03"),
        ("C-d", b"\x04"),
        ("C-]", b"\x1d"),
        ("C-[", b"\x1b"),
        ("C-Space", b"\0"),
        ("M-x", b"\x1bx"),
        ("M-C-c", b"\x1b\x03"),
        ("M-Up", b"\x1b\x1b[A"),
        ("Tab", b"\t"),
        ("Up", b"\x1b[A"),
        ("F1", b"\x1bOP"),
        ("F12", b"\x1b[24~"),
        ("Escape", b"\x1b"),
        ("Space", b" "),
        ("BSpace", b"\x7f"),
        ("q", b"q"),
        ("é", "é".encode()),
    ],
)
def test_names_are_the_sequences_of_a_terminal(name: Any, expected: Any) -> None:
    """Each name is the sequence of xterm."""
    assert expected == key(name)


@pytest.mark.parametrize("name", ["", "Entr", "C-", "C-Enter", "C-é", "M-", "F13", "\x1b[2J"])
def test_unknown_names_are_refused(name: Any) -> None:
    """A name no key has is an error that can be printed."""
    with pytest.raises(InvalidArgument) as refused:
        key(name)

    assert str(refused.value).isprintable()


def test_several_keys_follow_each_other() -> None:
    """Keys are sent in their order."""
    assert keys(["C-c", "Enter"]) == b"\x03\r"

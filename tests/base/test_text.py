from __future__ import annotations

from typing import Any

import pytest

from holdfast.base.text import colored, lines, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a b c"),
        ("\x1b[2Jx\x07\x9b31m", "[2Jx31m"),
        ("a\u202eb\u200bc", "abc"),
        ("naïve 日本 🙂", "naïve 日本 🙂"),
        ("\udcff", ""),
    ],
)
def test_plain_keeps_only_printable_characters(text: Any, expected: Any) -> None:
    """One line without controls, formats and lone surrogates."""
    assert expected == plain(text)


def test_plain_is_cut() -> None:
    """Text longer than the limit ends with an ellipsis."""
    assert plain("a" * 10, 5) == "aaaa…"


def test_lines_keeps_newlines_and_tabs() -> None:
    """Text of several lines keeps its lines."""
    assert lines("a\r\n\tb\x1b") == "a\n\tb"


def test_colours_are_kept_only_where_they_are_wanted() -> None:
    """Every other escape sequence is taken out whole."""
    text = "\x1b[31mred\x1b[0m\x1b[2J\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x1b\\\r50%\x08\x1b(B!"

    assert colored(text, keep=True) == "\x1b[31mred\x1b[0m\r50%!"
    assert colored(text, keep=False) == "red\r50%!"

"""Output is searched for the expected texts as it comes, in a time that the session cannot choose."""

from __future__ import annotations

import random

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.swerex import expected_output
from holdfast.runtime.swerex.expected_output import (
    LONGEST,
    MOST_PLACES,
    ExpectedOutput,
    ReadingPlace,
    UnreadOutput,
    pattern,
    shown,
)


def fed(expected: list[str], *pieces: str) -> ExpectedOutput:
    output = ExpectedOutput(expected)
    for piece in pieces:
        output.feed(piece)
    return output


def test_the_first_match_divides_the_output() -> None:
    """Of the expected texts, the first in the output, wherever it stands in the list."""
    found = fed(["(gdb)", ">>> "], "Python\n", ">", ">> pri")
    assert (found.found, found.before, found.after) == (">>> ", "Python\n", "pri")
    found.feed("nt")
    assert found.after == "print"
    assert fed(["b", "a"], "xab").found == "a"
    assert fed(["b", "ab"], "xab").before == "x"


def test_output_without_a_match_is_whole() -> None:
    """Nothing is held back at the end."""
    pieces = ["a" * LONGEST, "b" * 10 * LONGEST, "\n", "c"]
    found = fed(["never"], *pieces)
    assert (found.found, found.before, found.after) == ("", "".join(pieces), "")
    assert fed([], *pieces).before == "".join(pieces)


def test_a_match_is_found_however_the_output_is_cut() -> None:
    """In fifty random divisions."""
    chance = random.Random(7)
    text = "x" * 700 + "login: " + "y" * 700
    for _ in range(50):
        cuts = sorted(chance.sample(range(1, len(text)), 5))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        found = fed(["l[a-z]+: "], *pieces)
        assert (found.before, found.after) == ("x" * 700, "y" * 700)


def test_an_end_is_that_of_the_output_so_far() -> None:
    """`$` is the end of all that has arrived, not of a piece."""
    assert fed([r"\$ $"], "x" * (LONGEST - 2) + "$ " + "more").found == ""
    assert fed([r"\$ $"], "x" * (LONGEST - 2) + "$ ").before == "x" * (LONGEST - 2)


def test_only_the_end_of_much_output_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The characters before it are counted."""
    monkeypatch.setattr(expected_output, "KEEP", 1000)
    found = fed(["end$"], *["line\n"] * 1000, "the end")
    assert found.before.endswith("line\nthe ")
    assert len(found.before) + found.dropped == 5004
    assert len(found.before) < 1500


@pytest.mark.parametrize(
    "text", [">>> ", r"\(gdb\) $", "[a-z]+>", "(a|b)c?", ".{3}", r"\)*", "[)*+]", "a+?", "{", "x{,", "[]+*]a"]
)
def test_patterns(text: str) -> None:
    """Usual patterns are taken as they are."""
    assert pattern(text).pattern == text


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$",
        "(?:a|a)*",
        ".*a.*b",
        "a?a?a?a?a?",
        "(a|b|c)(a|b|c)(a|b)",
        "(a){9}",
        "x{9}y{9}",
        "(?=a)",
        "(?P<n>a)",
        "a{9999999999}",
        "(",
        "*",
        "[",
    ],
)
def test_patterns_without_a_bound_are_refused(text: str) -> None:
    """They could match without an end."""
    with pytest.raises(InvalidArgument, match="cannot expect"):
        pattern(text)


def test_shown_text_has_no_terminal_functions() -> None:
    """Text, tabs and line ends remain."""
    assert shown("\x1b[?2004l\x1b[1mbold\x1b[0m\n\ttab\x1b]0;title\x07") == "bold\n\ttab"
    assert shown("a\x9b31mb") == "ab"
    assert shown("plain\r\n") == "plain\r\n"


def test_a_place_is_that_of_one_command() -> None:
    """Another command or another shell does not get it, and no one gets it twice."""
    unread = UnreadOutput()
    place = ReadingPlace("one", 7, "rest")
    unread.keep("s", "main", place)
    assert unread.take("s", "other", "one") is None
    assert unread.take("s", "main", "one") == place
    assert unread.take("s", "main", "one") is None
    unread.keep("s", "main", place)
    assert unread.take("s", "main", "two") is None


def test_places_are_few() -> None:
    """The oldest place is forgotten, and the text of each has a limit."""
    unread = UnreadOutput()
    for number in range(MOST_PLACES + 1):
        unread.keep("s", str(number), ReadingPlace("id", number, "x" * (1 << 20)))
    assert unread.take("s", "0", "id") is None
    found = unread.take("s", str(MOST_PLACES), "id")
    assert found is not None
    assert len(found.text) == 32 << 10

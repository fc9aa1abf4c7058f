"""Long texts keep their beginning and their end; what is left out can be asked for."""

from __future__ import annotations

import pytest

from holdfast.runtime.mcp.short_text import LONGEST_LINE, MOST_CHARACTERS, MOST_LINES, part, shorten


@pytest.mark.parametrize("text", ["", "one", "one\ntwo", "\n".join(map(str, range(MOST_LINES)))])
def test_short_text_is_whole(text: str) -> None:
    assert shorten(text) == shorten(text + "\n\n")
    assert shorten(text).text == text
    assert shorten(text).omitted is None


@pytest.mark.parametrize("line", ["x", "x" * 300, "x" * 5000])
def test_long_text_keeps_both_ends_and_reading_on_gives_the_rest(line: str) -> None:
    lines = [f"{number} {line}" for number in range(1, 1001)]
    shown = shorten("\n".join(lines))
    assert shown.omitted is not None
    assert shown.text.startswith("1 x")
    assert shown.text.rpartition("\n")[2].startswith("1000 x")
    assert len(shown.text) < MOST_CHARACTERS + 200
    assert len(shown.text.split("\n")) <= MOST_LINES + 1
    first, last = shown.omitted
    seen = {int(each.split()[0]) for each in shown.text.split("\n") if each[0].isdigit()}
    assert seen == set(range(1, first)) | set(range(last + 1, 1001))
    at = first
    while at <= last:
        found = part("\n".join(lines), at)
        seen |= {int(each.split()[0]) for each in found.text.split("\n") if each[0].isdigit()}
        at = found.omitted[0] if found.omitted else 1001
    assert seen == set(range(1, 1001))


def test_a_long_line_is_cut_with_the_number_of_what_is_missing() -> None:
    assert shorten("x" * (LONGEST_LINE + 7)).text == "x" * LONGEST_LINE + "… (7 more characters)"


@pytest.mark.parametrize(
    ("line", "text", "omitted"),
    [
        (1, "a\nb\nc", None),
        (3, "c", None),
        (-1, "c", None),
        (-9, "a\nb\nc", None),
        (0, "a\nb\nc", None),
        (4, "… there are 3 lines …", None),
    ],
)
def test_parts_begin_at_a_line(line: int, text: str, omitted: tuple[int, int] | None) -> None:
    found = part("a\nb\nc\n", line)
    assert (found.text, found.omitted) == (text, omitted)

"""Outputs of any length: what is shown of them, and which lines are which."""

from __future__ import annotations

import pytest

from holdfast.runtime.mcp.kept_output import PIECE, WHOLE, KeptOutput
from holdfast.runtime.mcp.short_text import Shown


def fed(data: bytes, piece: int = 65_000, *, wanted: int = 1, before: int | None = 0) -> KeptOutput:
    output = KeptOutput(wanted=wanted, before=before)
    for at in range(0, len(data), piece):
        output.feed(data[at : at + piece])
    return output


def lines(data: bytes, first: int) -> Shown:
    """Return what `read` shows: it feeds once more if a line far from the end is asked for."""
    output = fed(data, wanted=max(1, first))
    shown = output.from_line(first, 24, 80)
    if shown is None:
        output = fed(data, wanted=output.line_number(first))
        shown = output.from_line(output.wanted, 24, 80)
    assert shown is not None
    return shown


def numbered(count: int) -> bytes:
    return b"".join(b"%d of it\n" % number for number in range(1, count + 1))


@pytest.mark.parametrize("count", [1_000, 200_000])
@pytest.mark.parametrize("end", [b"", b"the last one has no end", b"\n\n\n"])
def test_both_ends_are_true_and_reading_on_gives_what_is_between(count: int, end: bytes) -> None:
    """The first line is the first, the last the last, and each number leads to the line it names."""
    data = numbered(count) + end
    assert (len(data) > WHOLE) == (count > 100_000)
    shown = fed(data).both_ends(24, 80)
    assert shown.text.startswith("1 of it\n2 of it\n")
    assert shown.text.endswith(end.decode().strip() or f"\n{count} of it")
    assert shown.omitted is not None
    first, last = shown.omitted
    whole = count + bool(end.strip())
    assert f"\n… lines {first} to {last} of {whole} are not shown …\n{last + 1} of it\n" in shown.text
    assert f"\n{first - 1} of it\n… lines" in shown.text
    for line in (first, 777, count):
        assert lines(data, line).text.split("\n")[0] == f"{line} of it"
    assert lines(data, -3 - bool(end.strip())).text.split("\n")[0] == f"{count - 2} of it"
    far = -count + 40
    assert lines(data, far).text.split("\n")[0] == f"{whole - count + 41} of it"
    assert lines(data, count + 50).text == f"… there are {whole} lines …"


@pytest.mark.parametrize("piece", [1, 7, 4096, 10_000_000])
def test_pieces_of_any_size_give_the_same(piece: int) -> None:
    """How the output is cut on its way changes nothing."""
    data = numbered(40_000)
    assert fed(data, piece).both_ends(24, 80) == fed(data).both_ends(24, 80)
    assert fed(data, piece, wanted=31_000).from_line(31_000, 24, 80) == lines(data, 31_000)


def test_a_line_that_is_longer_than_what_is_kept_is_named_so() -> None:
    """One line of megabytes is one line: neither its length nor an end of it is made up."""
    one = fed(b"a" * (3 * PIECE)).both_ends(24, 80)
    assert one.text == "a" * 1000 + "… (this line is longer)"
    assert one.omitted is None
    data = b"begin\n" + b"b" * (3 * PIECE) + b"\nend\n"
    shown = fed(data).both_ends(24, 80)
    assert shown.text.split("\n") == ["begin", "b" * 1000 + "… (this line is longer)", "end"]
    assert lines(data, 2).text.split("\n")[0] == "b" * 1000 + "… (this line is longer)"
    assert lines(data, 3).text == "end"


def test_what_follows_is_counted_on() -> None:
    """Of new output the lines have the numbers they have in all of it, if those are known."""
    shown = fed(numbered(1000), before=500).both_ends(24, 80)
    assert shown.omitted
    assert "of 1500 are not shown" in shown.text
    assert f"\n{shown.omitted[0] - 501} of it\n… lines {shown.omitted[0]} to" in shown.text
    unknown = fed(numbered(1000), before=None)
    assert unknown.lines is None
    assert unknown.both_ends(24, 80).omitted == (0, 0)


def test_a_long_output_has_no_escape_sequences_and_only_the_last_of_redrawn_lines() -> None:
    """Also where it is too long to be drawn as a terminal would."""
    data = b"\x1b[31m10%\r99%\x1b[0m done\x1b]0;title\x07\n" * 20_000
    shown = fed(data).both_ends(24, 80)
    assert set(shown.text.split("\n")) == {
        "99% done",
        f"… lines 46 to {20_000 - 105} of 20000 are not shown …",
    }

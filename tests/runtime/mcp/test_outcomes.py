"""Outputs and outcomes as an agent is shown them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.errors import HoldfastError, InvalidArgument, SessionBusy, SessionNotFound
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.results import CellError, CellEvent, CellResult, ExecResult
from holdfast.runtime.mcp import kernel_tools, outcomes
from holdfast.runtime.mcp.agent_tools import error_line
from holdfast.runtime.mcp.outcomes import (
    LONGEST_LINE,
    MOST_CHARACTERS,
    MOST_LINES,
    PIECE,
    WHOLE,
    KeptOutput,
    ShownText,
    part,
    shorten,
)


@pytest.mark.parametrize("text", ["", "one", "one\ntwo", "\n".join(map(str, range(MOST_LINES)))])
def test_short_text_is_whole(text: str) -> None:
    """Blank lines at its end do not count."""
    assert shorten(text) == shorten(text + "\n\n")
    assert shorten(text).text == text
    assert shorten(text).omitted is None


@pytest.mark.parametrize("line", ["x", "x" * 300, "x" * 5000])
def test_long_text_keeps_both_ends_and_reading_on_gives_the_rest(line: str) -> None:
    """No line is shown twice, and none is lost."""
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


def test_a_long_line_is_cut_with_the_number_of_missing_characters() -> None:
    """In characters."""
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
    """Counted from 1, or backwards from the end."""
    found = part("a\nb\nc\n", line)
    assert (found.text, found.omitted) == (text, omitted)


def fed(data: bytes, piece: int = 65_000, *, wanted: int = 1, before: int | None = 0) -> KeptOutput:
    output = KeptOutput(wanted=wanted, before=before)
    for at in range(0, len(data), piece):
        output.feed(data[at : at + piece])
    return output


def lines(data: bytes, first: int) -> ShownText:
    """Return the lines that `read` shows: it feeds once more if a line far from the end is asked for."""
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
def test_both_ends_are_shown_and_reading_on_gives_the_middle(count: int, end: bytes) -> None:
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


def test_a_line_longer_than_the_kept_output_is_marked() -> None:
    """One line of megabytes is one line: neither its length nor an end of it is made up."""
    one = fed(b"a" * (3 * PIECE)).both_ends(24, 80)
    assert one.text == "a" * 1000 + "… (this line is longer)"
    assert one.omitted is None
    data = b"begin\n" + b"b" * (3 * PIECE) + b"\nend\n"
    shown = fed(data).both_ends(24, 80)
    assert shown.text.split("\n") == ["begin", "b" * 1000 + "… (this line is longer)", "end"]
    assert lines(data, 2).text.split("\n")[0] == "b" * 1000 + "… (this line is longer)"
    assert lines(data, 3).text == "end"


def test_later_files_continue_the_count() -> None:
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


def result(output: bytes = b"hi\n", **fields: Any) -> ExecResult:
    given: dict[str, Any] = {
        "exit_code": 0,
        "duration": 1.25,
        "cwd": "/work",
        "command_id": "c0ffee",
    } | fields
    return ExecResult(output=output, start_offset=0, end_offset=len(output), **given)


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, "[exit 0 · 1.2 s · /work]"),
        ({"exit_code": 137, "signal": 9}, "[exit 137, SIGKILL · 1.2 s · /work]"),
        ({"exit_code": 200, "signal": 99}, "[exit 200, signal 99 · 1.2 s · /work]"),
        ({"exit_code": None, "cwd": None}, "[still runs after 50 s · id c0ffee · wait(id=…) follows it]"),
        ({"exit_code": 130, "timed_out": True}, "[interrupted at its time limit · 1.2 s · /work]"),
    ],
)
def test_facts_of_a_command_are_the_last_line(fields: dict[str, Any], facts: str) -> None:
    """In brackets, below its output."""
    assert outcomes.command(result(**fields), waited=50).split("\n") == ["hi", facts]


def test_a_wait_is_reported_with_its_prompt() -> None:
    """With the program, and the call that answers it."""
    state = State("waiting", "password", pid=7, command="sudo", since=time.time(), prompt="Password: ")
    text = outcomes.command(result(b"", exit_code=None, waiting=state))
    assert text == "[sudo (pid 7) waits for a password ('Password: '); answer(text=…) · id c0ffee]"


def test_long_output_says_how_to_read_the_rest() -> None:
    """By the id and the first line that was left out."""
    text = outcomes.command(result("\n".join(map(str, range(9999))).encode()))
    assert text.endswith("read(id='c0ffee', line=46) shows the rest]")


def test_news_and_remarks_are_reported() -> None:
    """News stand above the output, lost bytes and remarks around it."""
    text = outcomes.command(result(dropped=5, lost=2, message="it was not finished"), ["session x was made"])
    assert text.startswith(
        "session x was made\n(7 earlier bytes are no longer kept)\nhi\n(it was not finished)\n["
    )


def test_escape_sequences_and_redrawn_lines_are_resolved() -> None:
    """Only the last version of a redrawn line is shown."""
    assert outcomes.command(result(b"\x1b[31m10%\r\x1b[K99%\x1b[0m\r\n")).split("\n")[0] == "99%"


def test_a_cell_shows_streams_values_and_the_exception() -> None:
    """Each in one form, text before others, without colours."""
    shown = (
        CellEvent("display_data", 1, data={"text/html": "<b>", "text/plain": "<B>"}),
        CellEvent("display_data", 2, data={"image/svg+xml": "<svg/>"}),
        CellEvent("execute_result", 3, data={"text/plain": "42"}),
    )
    error = CellError("E", "x", ("\x1b[31mTraceback\x1b[0m", "E: x"))
    found = CellResult("error", 3, "out\r\n10%\r99%\n", "err\n", shown, error, 0.5)
    lines = kernel_tools.cell_text(found).split("\n")
    assert lines[:-1] == ["out", "99%", "err", "<B>", "<image/svg+xml>", "42", "Traceback", "E: x"]
    assert lines[-1] == "[it raised the exception above · 0.5 s · In [3]]"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SessionBusy("cannot run: busy", hint="`holdfast wait S`"), "`wait` follows it"),
        (SessionNotFound("cannot find\x1b[2J it"), "`sessions` lists them"),
        (InvalidArgument("cannot: why", hint="give a number"), "cannot: why: give a number"),
        (HoldfastError("cannot", hint="`holdfast doctor`"), "cannot"),
    ],
)
def test_errors_name_tools_and_no_command_line(error: HoldfastError, text: str) -> None:
    """An agent over MCP has only tools."""
    assert text in error_line(error)
    assert "holdfast" not in error_line(error)
    assert "\x1b" not in error_line(error)

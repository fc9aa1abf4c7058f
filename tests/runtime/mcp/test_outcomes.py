"""Results of commands and cells in words, with the facts in the last line."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.errors import HoldfastError, InvalidArgument, SessionBusy, SessionNotFound
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.results import CellError, CellEvent, CellResult, ExecResult
from holdfast.runtime.mcp import cell_results, outcomes
from holdfast.runtime.mcp.tool_hints import message


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
        ({"exit_code": 130, "timed_out": True}, "[interrupted after its time was over · 1.2 s · /work]"),
    ],
)
def test_facts_of_a_command_are_the_last_line(fields: dict[str, Any], facts: str) -> None:
    assert outcomes.command(result(**fields), waited=50).split("\n") == ["hi", facts]


def test_what_it_waits_for_is_said_with_the_prompt() -> None:
    state = State("waiting", "password", pid=7, command="sudo", since=time.time(), prompt="Password: ")
    text = outcomes.command(result(b"", exit_code=None, waiting=state))
    assert text == "[sudo (pid 7) waits for a password ('Password: '); answer(text=…) · id c0ffee]"


def test_long_output_says_how_to_read_the_rest() -> None:
    text = outcomes.command(result("\n".join(map(str, range(9999))).encode()))
    assert text.endswith("read(id='c0ffee', line=46) shows the rest]")


def test_news_and_remarks_are_told() -> None:
    text = outcomes.command(result(dropped=5, lost=2, message="it was not finished"), ["session x was made"])
    assert text.startswith(
        "session x was made\n(7 bytes before this are not kept)\nhi\n(it was not finished)\n["
    )


def test_escape_sequences_and_redrawn_lines_are_resolved() -> None:
    assert outcomes.command(result(b"\x1b[31m10%\r\x1b[K99%\x1b[0m\r\n")).split("\n")[0] == "99%"


def test_a_cell_shows_streams_values_and_the_exception() -> None:
    shown = (
        CellEvent("display_data", 1, data={"text/html": "<b>", "text/plain": "<B>"}),
        CellEvent("display_data", 2, data={"image/svg+xml": "<svg/>"}),
        CellEvent("execute_result", 3, data={"text/plain": "42"}),
    )
    error = CellError("E", "x", ("\x1b[31mTraceback\x1b[0m", "E: x"))
    found = CellResult("error", 3, "out\r\n10%\r99%\n", "err\n", shown, error, 0.5)
    lines = cell_results.text(found).split("\n")
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
    assert text in message(error)
    assert "holdfast" not in message(error)
    assert "\x1b" not in message(error)

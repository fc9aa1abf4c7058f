"""Lines of an execution, and the fields of its results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import GuestDisconnected, InvalidArgument, KernelDied
from holdfast.runtime.e2b import code_execution
from holdfast.runtime.e2b.code_execution import TOO_DEEP, ExecutionLines, Line, result_fields
from holdfast.runtime.guest_rpc.results import CellError, CellEvent, CellResult


def test_each_type_has_its_field() -> None:
    bundle = {
        "text/plain": "x",
        "text/html": ["<b>", "x</b>"],
        "text/markdown": "# x",
        "text/latex": "$x$",
        "image/svg+xml": "<svg/>",
        "image/png": "iVBO\nRw0K\n",
        "image/jpeg": "/9j/",
        "application/pdf": "JVBE",
        "application/javascript": "x()",
        "application/json": {"x": 1},
        "application/vnd.vega.v5+json": {"y": 2},
    }
    assert result_fields(bundle) == {
        "text": "x",
        "html": "<b>x</b>",
        "markdown": "# x",
        "latex": "$x$",
        "svg": "<svg/>",
        "png": "iVBO\nRw0K\n",
        "jpeg": "/9j/",
        "pdf": "JVBE",
        "javascript": "x()",
        "json": {"x": 1},
        "extra": {"application/vnd.vega.v5+json": {"y": 2}},
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        ("'a' + 'b", "'a' + 'b"),
        ("'", "'"),
        ("''", ""),
        ("b'a'", "b'a'"),
        ("", ""),
    ],
)
def test_a_string_loses_its_quotes(text: str, shown: str) -> None:
    assert result_fields({"text/plain": text}) == {"text": shown}


@pytest.mark.parametrize("value", [None, 7, {"a": 1}, ["a", 1], "no base64!", "abc"])
def test_other_archives_are_not_taken_for_images(value: Any) -> None:
    assert result_fields({"image/png": value}) == {"extra": {"image/png": value}}


def test_numbers_that_json_lacks_are_null_and_endless_nesting_is_left_out() -> None:
    nested: Any = []
    for _ in range(5000):
        nested = [nested]
    found = result_fields({"application/json": [float("nan"), float("inf"), 1.5], "x/y": nested})
    assert found == {"json": [None, None, 1.5], "extra": {"x/y": TOO_DEEP}}
    json.dumps(found, allow_nan=False)


def test_data_frames_and_charts_are_fields_of_their_own() -> None:
    """A value under their types that is not an object is the session's own, and not a field."""
    found = result_fields({"e2b/data": {"a": [1.5, float("nan")]}, "e2b/chart": {"type": "line"}})
    assert found == {"data": {"a": [1.5, None]}, "chart": {"type": "line"}}
    assert result_fields({"e2b/data": [1], "e2b/chart": None}) == {
        "extra": {"e2b/data": [1], "e2b/chart": None}
    }


RAISED = CellEvent("error", 2, error=CellError("ValueError", "no", ("line 1", "line 2")))


def ended(status: Any = "ok", count: int | None = 3, lost: int = 0) -> CellResult:
    return CellResult(status, count, "", "", lost=lost)


def kinds(lines: list[Line]) -> list[str]:
    return [line["type"] for line in lines]


def display(id_: str, text: str, kind: Any = "update_display_data", left_out: int = 0) -> CellEvent:
    transient = {"display_id": id_}
    return CellEvent(kind, 1, data={"text/plain": text}, transient=transient, left_out=left_out)


def test_output_results_and_errors_come_as_they_are() -> None:
    lines = ExecutionLines()
    assert lines.heard(CellEvent("stream", 1, text="a\n", name="stderr"), 5) == [
        {"type": "stderr", "text": "a\n", "timestamp": 5}
    ]
    shown = [lines.heard(display("x", "1", kind), 5) for kind in ("display_data", "execute_result")]
    assert [line["is_main_result"] for (line,) in shown] == [False, True]
    assert lines.heard(RAISED, 5) == [
        {"type": "error", "name": "ValueError", "value": "no", "traceback": "line 1\nline 2"}
    ]
    assert lines.ended(ended("error")) == [
        {"type": "number_of_executions", "execution_count": 3},
        {"type": "end_of_execution"},
    ]


def test_the_last_version_of_a_display_comes_at_the_end() -> None:
    lines = ExecutionLines()
    assert [lines.heard(display(id_, text), 1) for id_, text in ("a1", "b1", "a2")] == [[], [], []]
    assert [line.get("text") for line in lines.ended(ended())] == ["1", "2", None, None]


def test_versions_are_bounded_and_omissions_reported() -> None:
    lines = ExecutionLines()
    for number in range(10_000):
        lines.heard(display(str(number), "x"), 1)
    assert len(lines._versions) == code_execution.MOST_VERSIONS
    for number in range(5):
        lines.heard(display(f"big {number}", "x" * (3 << 20)), 1)
    found = lines.ended(ended())
    assert kinds(found) == ["result", "result", "stderr", "number_of_executions", "end_of_execution"]
    assert "bytes of a result were left out" in found[2]["text"]


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ("restarted", "ContextRestarted"),
        ("interrupted", "KeyboardInterrupt"),
    ],
)
def test_an_end_that_the_code_does_not_tell_is_an_error(status: str, name: str) -> None:
    found = ExecutionLines().ended(ended(status))
    assert [line["name"] for line in found if line["type"] == "error"] == [name]


@pytest.mark.parametrize(("lost", "left_out", "why"), [(7, 0, "7 bytes of out"), (0, 7, "7 bytes of a re")])
def test_results_a_client_would_miss_are_reported_without_an_error(
    lost: int, left_out: int, why: str
) -> None:
    lines = ExecutionLines()
    lines.heard(display("x", "note", "display_data", left_out), 1)
    told, *rest = lines.ended(ended(lost=lost))
    assert (told["type"], told["text"]) == ("stderr", f"[holdfast: {told['text'][11:-2]}]\n")
    assert told["text"].startswith(f"[holdfast: {why}")
    assert kinds(rest) == ["number_of_executions", "end_of_execution"]


def test_the_error_of_the_code_is_reported_last() -> None:
    """Clients keep the last one."""
    lines = ExecutionLines()
    lines.heard(display("x", "note", "display_data", 7), 1)
    lines.heard(RAISED, 1)
    last = lines.ended(ended("error", lost=7))
    assert kinds(last) == ["stderr", "stderr", "number_of_executions", "end_of_execution"]


def test_code_that_asks_for_input_fails_for_that_reason() -> None:
    lines = ExecutionLines()
    lines.asked()
    assert lines.heard(RAISED, 1) == []
    found = lines.failed(InvalidArgument("cannot answer the cell")) or []
    assert (found[0]["name"], kinds(found)) == ("StdinNotImplementedError", ["error", "end_of_execution"])


def test_code_that_does_without_the_input_succeeds() -> None:
    lines = ExecutionLines()
    lines.asked()
    assert kinds(lines.ended(ended())) == ["number_of_executions", "end_of_execution"]


def test_our_own_failures_are_logged_with_a_traceback() -> None:
    """The answer is cut: as an error it would be one of the code. That its kernel ended is one."""
    assert ExecutionLines().failed(GuestDisconnected("cannot continue: gone")) is None
    found = ExecutionLines().failed(KernelDied("cannot continue: it ended", hint="run another")) or []
    assert (found[0]["name"], found[0]["value"]) == ("KernelDied", "cannot continue: it ended; run another")


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    text = "a\nb\r\x0b\x0c\x1c\x85\u2028\u2029\ud800\x9b31mü"
    data = code_execution.written({"text": text})
    assert data.decode().splitlines() == [data.decode().rstrip("\n")]
    assert json.loads(data)["text"] == text

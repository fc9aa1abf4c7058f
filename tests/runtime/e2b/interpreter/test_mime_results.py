"""Bundles as kernels send them, good and bad, are results that clients can read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.runtime.e2b.interpreter.mime_results import TOO_DEEP, result_fields


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
def test_what_is_no_image_is_not_told_as_one(value: Any) -> None:
    assert result_fields({"image/png": value}) == {"extra": {"image/png": value}}


def test_numbers_that_json_lacks_are_null_and_endless_nesting_is_left_out() -> None:
    nested: Any = []
    for _ in range(5000):
        nested = [nested]
    found = result_fields({"application/json": [float("nan"), float("inf"), 1.5], "x/y": nested})
    assert found == {"json": [None, None, 1.5], "extra": {"x/y": TOO_DEEP}}
    json.dumps(found, allow_nan=False)


def test_data_frames_and_charts_are_fields_of_their_own() -> None:
    """What is no object under their types is the session's doing, and no field."""
    found = result_fields({"e2b/data": {"a": [1.5, float("nan")]}, "e2b/chart": {"type": "line"}})
    assert found == {"data": {"a": [1.5, None]}, "chart": {"type": "line"}}
    assert result_fields({"e2b/data": [1], "e2b/chart": None}) == {
        "extra": {"e2b/data": [1], "e2b/chart": None}
    }

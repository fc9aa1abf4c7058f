"""The choice of a rung when something is thawed, and the report of the failure."""

from __future__ import annotations

import pytest

from holdfast.runtime.api import thawing
from holdfast.snapshots.failure import Failure


def test_a_failure_is_reported_in_few_lines() -> None:
    """Kind, cause, command, place, and the end of the output; no terminal controls."""
    record = Failure(
        reason="failed",
        where="a.py::b",
        command="pytest -x",
        exit_code=1,
        message="boo\x1b[2J",
        tail="\n".join(f"line {n}" for n in range(50)),
        revision="abc",
    )
    lines = thawing.format_failure(record)
    assert lines[:3] == ["a.py::b failed with 1: boo[2J", "it ran: pytest -x", "at: abc"]
    assert lines[3:] == [f"  | line {n}" for n in range(40, 50)]


@pytest.mark.parametrize(
    ("source", "exists", "is_file"),
    [
        ("failure.holdfast", False, True),
        ("./before", False, True),
        ("/tmp/x", False, True),
        ("out/failure.holdfast", False, True),
        ("out/failure", False, True),
        ("ghcr.io/me/ci:run-7", False, False),
        ("localhost/ci", False, False),
        ("registry:5000/ci@sha256:00", False, False),
        ("host.d/ci", True, True),
    ],
)
def test_files_and_registries_are_distinguished(source: str, exists: bool, is_file: bool) -> None:
    """By existing files, else by the name: a registry's has a dot or a port, or is localhost."""
    assert thawing.is_file(source, exists=exists) == is_file

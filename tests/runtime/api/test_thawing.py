"""The choice of a rung when something is thawed, and the report of the failure."""

from __future__ import annotations

import pytest

from holdfast.errors import LiveUnsupported
from holdfast.runtime.api import thawing
from holdfast.snapshots.failure import Failure
from holdfast.snapshots.fitness import Ladder, Name, Rung


def ladder(**reasons: str) -> Ladder:
    """Return rungs that are all possible except those with a reason."""
    names: tuple[Name, ...] = ("live", "commands", "files")
    return Ladder(
        rungs=[
            Rung(
                name=name,
                possible=name not in reasons,
                reasons=[reasons[name]] if name in reasons else [],
                lost=[f"what {name} lacks"],
            )
            for name in names
        ]
    )


def of_files(**reasons: str) -> Ladder:
    """Return the description of a snapshot without processes."""
    return ladder(**reasons).model_copy(update={"live": False})


@pytest.mark.parametrize(
    ("found", "as_", "require", "rung"),
    [
        (ladder(), None, None, "live"),
        (ladder(live="old kernel"), None, "files", "commands"),
        (ladder(live="old kernel", commands="none"), None, "files", "files"),
        (of_files(live="files only"), None, None, "commands"),
        (of_files(live="files only", commands="none"), None, None, "files"),
        (ladder(), "files", None, "files"),
        (ladder(), None, "live", "live"),
        (ladder(live="old kernel"), None, "commands", "commands"),
        (ladder(), "commands", "files", "commands"),
    ],
)
def test_the_best_or_the_requested_rung_is_taken(
    found: Ladder, as_: Name | None, require: Name | None, rung: Name
) -> None:
    """Never an impossible one, never less than required or, without a request, than was captured."""
    assert thawing.chosen(found, as_, require, "x") == rung


@pytest.mark.parametrize(
    ("found", "as_", "require"),
    [
        (ladder(live="old kernel"), "live", None),
        (ladder(live="old kernel"), None, "live"),
        (ladder(live="old kernel"), None, None),
        (ladder(live="old kernel"), "live", "commands"),
    ],
)
def test_less_than_requested_is_refused(found: Ladder, as_: Name | None, require: Name | None) -> None:
    """With the reason, and the command for the possible rung and its losses."""
    with pytest.raises(LiveUnsupported, match=r"cannot thaw x\.holdfast as live: old kernel") as error:
        thawing.chosen(found, as_, require, "x.holdfast")
    assert error.value.hint.startswith("`holdfast thaw x.holdfast --as commands` is possible")
    assert "what commands lacks" in error.value.hint
    assert error.value.findings == ({"rung": "live", "reason": "old kernel"},)


def test_it_is_reported_that_nothing_is_possible() -> None:
    """Not even the files: another kind of machine."""
    found = ladder(live="arm", commands="arm", files="arm")
    with pytest.raises(LiveUnsupported, match="as live: arm") as error:
        thawing.chosen(found, None, None, "x")
    assert error.value.hint == "nothing of it can be had on this machine"


def test_a_failure_is_reported_in_few_lines() -> None:
    """What, how, of which command, where it ran, and the end of the output; no terminal controls."""
    record = Failure(
        reason="failed",
        where="a.py::b",
        command="pytest -x",
        exit_code=1,
        message="boo\x1b[2J",
        tail="\n".join(f"line {n}" for n in range(50)),
        revision="abc",
    )
    lines = thawing.told(record)
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

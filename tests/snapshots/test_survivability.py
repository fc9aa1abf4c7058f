"""The names and scope of `force_drop`, and the documentation's agreement with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.snapshots import survivability
from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.survivability import Resource, Survivability

TRACED = Resource("traced", 41, "sleep 9", "traced by strace (pid 40)", also=(40,))
OUTSIDE = Resource("unix_outside", 50, "client", "unix stream", fd=3)
RING = Resource("io_uring", 60, "node", "io_uring", fd=9)
FILE = Resource("file", 50, "client", "/srv/a", fd=4)
REPORT = Survivability((TRACED, OUTSIDE, RING, FILE), 4, 3, 1, 2, 3, 0.01)


def test_a_blocker_has_a_name_to_drop_it_by() -> None:
    """A descriptor where it can be left out alone, else the process."""
    assert [one.name for one in REPORT.blocks] == ["pid:41", "fd:50/3", "pid:60"]
    assert [one.as_dict()["drop"] for one in REPORT.survives] == [None]


def test_names_cover_their_resources() -> None:
    """A tracer's end frees the traced one; a process's end closes its descriptors."""
    chosen = survivability.drops(["pid:40", "fd:50/3"], REPORT.blocks)

    assert [chosen.cover(one) for one in REPORT.blocks] == [True, True, False]
    assert survivability.drops(["pid:50"], REPORT.blocks).cover(OUTSIDE)
    assert not survivability.drops([], REPORT.blocks).cover(OUTSIDE)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pid:1", "no resource of that name blocks"),
        ("fd:50/4", "no resource of that name blocks"),
        ("fd:60/9", "cannot be left out on its own"),
        ("50", "neither pid:PID nor fd:PID/FD"),
        ("pid:41 ", "neither"),
        ("fd:50", "neither"),
    ],
)
def test_other_names_are_refused(name: str, why: str) -> None:
    """Nothing is dropped that does not block, and nothing by an invalid name."""
    with pytest.raises(InvalidArgument, match=why):
        survivability.drops([name], REPORT.blocks)


def test_a_report_counts_by_verdict() -> None:
    """Also for programs; the supervisor's own only on request."""
    own = Resource("terminal", 2, "supervisor", "/dev/ptmx", fd=8, own=True)
    report = Survivability((*REPORT.resources, own), 4, 3, 1, 2, 3, 0.01)

    assert report.as_dict()["blocks"] == 3
    assert report.as_dict()["survives"] == 1
    assert report.as_dict(own=True)["survives"] == 2
    assert report.as_dict()["findings"][0]["advice"] == CATALOGUE["traced"].advice


def test_the_documentation_lists_every_kind_as_the_code_does() -> None:
    """The table in docs/survivability.md equals the catalogue."""
    page = Path(holdfast.__file__).resolve().parents[2] / "docs" / "survivability.md"

    assert survivability.table() in page.read_text()

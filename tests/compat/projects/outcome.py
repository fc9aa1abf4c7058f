"""The outcome of one project: the row of the results file and of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.compat.projects.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Capture:
    """A live snapshot that was taken, or refused, while the command ran.

    `share` is its place in the run, from 0 to 1; `after` the seconds since its start at which the
    capture began; `frozen` the seconds for which the session was. `refused` is why there is none.
    `late`: the command ended while the capture was being prepared, so that it proves nothing. `waited` are
    the
    seconds until the snapshot was restored, `measured` the durations reported by cases in the copy that
    include this time: they measure by the time of day.
    """

    share: float
    after: float
    frozen: float = 0.0
    refused: str = ""
    late: bool = False
    waited: float = 0.0
    measured: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """One project's row. `error` is why it could not be tried to the end; `seconds` the duration of a plain
    run.

    `missed` counts captures for which the command had ended already, which is not a failure. `copies` lists
    the copies that ran to the end.
    """

    name: str
    kind: str
    does: str
    seed: int
    version: str = ""
    cases: int = 0
    failing: int = 0
    files: int = 0
    seconds: float = 0.0
    captures: tuple[Capture, ...] = ()
    missed: int = 0
    copies: int = 0
    differences: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()
    error: str = ""
    about: dict[str, str] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """The number of snapshots taken while the command ran."""
        return sum(not (capture.refused or capture.late) for capture in self.captures)

    @property
    def good(self) -> bool:
        """True if everything was tried, and nothing differs."""
        refused = any(capture.refused for capture in self.captures)
        return not (self.error or self.differences or refused) and 0 < self.taken == self.copies

    def as_dict(self) -> dict[str, Any]:
        """Return it for the results file."""
        return asdict(self)


def from_dict(found: dict[str, Any]) -> Outcome:
    """Read the output of `as_dict`."""
    captures = tuple(
        Capture(**{**capture, "measured": tuple(capture.get("measured", ()))})
        for capture in found["captures"]
    )
    lists = {name: tuple(found[name]) for name in ("differences", "unsteady")}
    return Outcome(**{**found, **lists, "captures": captures})


def said(compared: Comparison) -> dict[str, Any]:
    """Return the part of an outcome that a comparison gives."""
    return {
        "cases": compared.cases,
        "files": compared.files,
        "failing": len(compared.failing),
        "differences": tuple(difference.line() for difference in compared.differences),
        "unsteady": compared.unsteady,
    }


def all_good(found: Sequence[Outcome]) -> bool:
    """Check whether every project is good."""
    return all(one.good for one in found)

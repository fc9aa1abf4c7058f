"""Compares runs of one command: case by case, file by file, and by exit code. Pure.

Several plain runs show where the project itself is not deterministic. Differences there are not the fault of
a capture, whatever the other runs have; they are reported separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one run of the command.

    `where` names it for people. `cases` are outcomes by name, `files` digests by path. `exit_code` is None if
    it did not end; `failure` then says why.
    """

    where: str
    exit_code: int | None
    cases: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    failure: str = ""

    def facts(self) -> dict[tuple[str, str], str]:
        """Return all that is compared, by kind and name."""
        ended = str(self.exit_code) if self.exit_code is not None else f"none: {self.failure}"
        return {
            ("exit code", ""): ended,
            **{("case", name): outcome for name, outcome in self.cases.items()},
            **{("file", name): digest for name, digest in self.files.items()},
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that all plain runs agree on, and this run contradicts."""

    where: str
    what: str
    name: str
    plain: str
    found: str

    def line(self) -> str:
        """Return it as text."""
        return (
            f"{self.where}: {' '.join(filter(None, (self.what, self.name)))}: {self.plain}, here {self.found}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences, and the facts that cannot be compared since plain runs differ in them already.

    `failing` are cases that fail in all plain runs.
    """

    cases: int
    files: int
    differences: tuple[Difference, ...]
    unsteady: tuple[str, ...]
    failing: tuple[str, ...]


def compare(plain: Sequence[Run], others: Sequence[Run]) -> Comparison:
    """Compare runs that were captured or continued in copies with plain ones, of which there are two or more.

    Raises:
        ValueError: there are not.
    """
    if len(plain) < 2:
        raise ValueError("two plain runs are needed to tell what is unsteady by itself")
    facts = [run.facts() for run in plain]
    names = sorted(set().union(*facts))
    steady = {key: facts[0].get(key, ABSENT) for key in names if len({f.get(key) for f in facts}) == 1}
    unsteady = [key for key in names if key not in steady]
    return Comparison(
        cases=len({name for what, name in names if what == "case"}),
        files=len({name for what, name in names if what == "file"}),
        differences=tuple(found for run in others for found in _differences(run, steady, set(unsteady))),
        unsteady=tuple(" ".join(filter(None, key)) for key in unsteady),
        failing=tuple(name for (what, name), value in steady.items() if what == "case" and value == "failed"),
    )


def _differences(
    run: Run, steady: Mapping[tuple[str, str], str], unsteady: set[tuple[str, str]]
) -> Iterator[Difference]:
    found = run.facts()
    for what, name in sorted(steady.keys() | found.keys() - unsteady):
        plain, here = steady.get((what, name), ABSENT), found.get((what, name), ABSENT)
        if plain != here:
            yield Difference(run.where, what, name, plain, here)

"""The outcomes of runs of one command from one snapshot: grouped, counted, and described. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from holdfast.base.text import colored, plain
from holdfast.base.value_classes import as_table

End = Literal["exit", "signal", "timeout", "waiting", "shell ended", "died"]
SHOWN = 200
"""Limit of characters of a line that is shown."""
MOST_LINES = 20_000
_MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "<uuid>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (r"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b", "<time>"),  # of the Unix clock
        (
            r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?|minutes?|min|m)\b",
            "<time>",
        ),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "<hex>"),
        (r"(/tmp|/var/tmp|/dev/shm)/[^\s:'\")]+", r"\1/<name>"),
        (r"\b([Pp][Ii][Dd]|process|thread|job)([ =:#]+)\d+", r"\1\2<n>"),
        (r"^\[\d+\]( \d+$|[+-])", "[<n>]"),
        (r"(?<=:)[1-6]\d{4}\b", "<port>"),
        (r"\bport \d{4,5}\b", "port <port>"),
    )
]


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `end` is how it ended, or why it was given up.

    `code` is the exit code or the signal's number; `detail` its question, or the fate of its session.
    `output` has its lines (the last MiB), `digest` stands for them without what differs between any two
    runs. `apart`: it ran as a job, because the shell was busy. `kept` is the name it was kept under.
    """

    number: int
    end: End
    code: int | None = None
    detail: str = ""
    duration: float = 0.0
    output: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    digest: str = ""
    apart: bool = False
    kept: str | None = None

    @property
    def passed(self) -> bool:
        """True if it ended on its own with 0."""
        return self.end == "exit" and self.code == 0

    @property
    def status(self) -> str:
        """Its end in a few words."""
        match self.end:
            case "exit" | "signal":
                return f"{self.end} {self.code}"
            case "waiting":
                return f"waits for {self.detail or 'input'}"
            case "died":
                return f"its session ended ({self.detail})" if self.detail else "its session ended"
        return self.end


@dataclass(frozen=True, slots=True)
class OutcomeKind:
    """Runs with the same outcome: status, and output except for its variable parts."""

    status: str
    passed: bool
    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """The run that is shown."""
        return self.runs[0]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line where this kind's first run differs from the most common kind's.

    `line` counts from 1; None where one output ended before.
    """

    line: int
    runs: tuple[int, int]
    texts: tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Spread:
    """The outcomes of all runs. `asked` is the wanted number; there are fewer if the series stopped early."""

    command: str
    snapshot: str
    asked: int
    runs: tuple[Run, ...]
    compare_output: bool = False
    kinds: tuple[OutcomeKind, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", grouped(self.runs, compare_output=self.compare_output))

    @property
    def deterministic(self) -> bool:
        """True if all runs ended in the same way."""
        return len({run.status for run in self.runs}) <= 1

    @property
    def differences(self) -> list[Difference]:
        """The places where each remaining kind first differs from the most common one."""
        pairs = [(self.kinds[0].first, kind.first) for kind in self.kinds[1:]]
        return [found for one, other in pairs if (found := differ(one, other)) is not None]

    @property
    def text(self) -> str:
        """The verdict in one line."""
        failed = [kind for kind in self.kinds if not kind.passed]
        if not self.deterministic:
            passes = sum(run.passed for run in self.runs)
            verdict = f"flaky: {passes} pass, {len(self.runs) - passes} fail"
            return verdict + (f" ({len(failed)} kinds)" if len(failed) > 1 else "")
        verdict = f"deterministic: {len(self.runs)} of {len(self.runs)} {self.runs[0].status}"
        return verdict + (f", with {len(self.kinds)} kinds of output" if len(self.kinds) > 1 else "")

    def keeping(self, names: dict[int, str]) -> Spread:
        """Return it with the names that runs were kept under."""
        return replace(self, runs=tuple(replace(run, kept=names.get(run.number)) for run in self.runs))

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs; of outputs, only the differences."""
        return {
            "command": self.command,
            "snapshot": self.snapshot,
            "asked": self.asked,
            "deterministic": self.deterministic,
            "verdict": self.text,
            "kinds": [
                {"status": kind.status, "passed": kind.passed, "runs": [run.number for run in kind.runs]}
                for kind in self.kinds
            ],
            "differences": [as_table(one) for one in self.differences],
            "runs": [
                {**as_table(run, "output", "names"), "status": run.status, "duration": round(run.duration, 3)}
                for run in self.runs
            ],
        }


def grouped(runs: Sequence[Run], *, compare_output: bool = False) -> tuple[OutcomeKind, ...]:
    """Return the kinds, the most common first. Output of passing runs counts only with `compare_output`."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.number):
        counts = compare_output or not run.passed
        found.setdefault((run.status, run.digest if counts else ""), []).append(run)
    kinds = [OutcomeKind(members[0].status, members[0].passed, tuple(members)) for members in found.values()]
    return tuple(sorted(kinds, key=lambda kind: (-len(kind.runs), kind.first.number)))


def differ(one: Run, other: Run) -> Difference | None:
    """Return the first line that differs in more than its variable parts; None if there is none."""
    most = max(len(one.output), len(other.output))
    for at in range(most):
        texts = [run.output[at] if at < len(run.output) else None for run in (one, other)]
        same = [
            None if text is None else masked(text, run.names)
            for text, run in zip(texts, (one, other), strict=True)
        ]
        if same[0] != same[1]:
            shown = tuple(None if text is None else plain(text, SHOWN) for text in texts)
            return Difference(at + 1, (one.number, other.number), (shown[0], shown[1]))
    return None


def to_keep(runs: Sequence[Run], *, most: int) -> list[int]:
    """Return the numbers of the runs to keep so far: the first of each kind, then second ones.

    The output of passed runs does not count here.
    """
    kinds = grouped(runs)
    picked = [kind.runs[0].number for kind in kinds][:most]
    for kind in kinds[1:]:
        picked += [run.number for run in kind.runs[1:2]][: max(0, most - len(picked))]
    return sorted(picked)


def output_lines(output: bytes) -> list[str]:
    """Return the lines of an output as a terminal leaves them: without colors and overwritten text."""
    text = colored(output.decode("utf-8", "replace"), keep=False)
    found = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    while found and not found[-1]:
        found.pop()
    return found[:MOST_LINES]


def masked(line: str, names: Iterable[str] = ()) -> str:
    """Return a line without its variable parts. `names` are the names of the copy it ran in."""
    for name in names:
        if name:
            line = line.replace(name, "<copy>")
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line


def digest(found: Iterable[str], names: Iterable[str] = ()) -> str:
    """Return a digest shared by outputs that differ only in their variable parts."""
    known = tuple(names)
    hasher = hashlib.sha256()
    for line in found:
        hasher.update(masked(line, known).encode("utf-8", "replace") + b"\n")
    return hasher.hexdigest()[:16]

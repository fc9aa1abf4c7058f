"""Many runs of one command from a snapshot, and how they ended."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holdfast.runtime.flaky.repeat import AT_ONCE, MOST
from holdfast.runtime.flaky.spread import End
from holdfast.runtime.serve.models.base_models import TEXT, AnswerBody, Name, RequestBody, Seconds


class RetryRequest(RequestBody):
    """A command that is to be run many times, as `Snapshot.retry` takes it; `timeout` in seconds for each."""

    command: Annotated[str, Field(min_length=1, max_length=8 << 20, pattern=TEXT)]
    n: Annotated[int, Field(ge=1, le=MOST)] = 20
    jobs: Annotated[int, Field(ge=1, le=MOST)] = AT_ONCE
    timeout: Seconds | None = None
    keep: Literal["diverging", "all", "none"] = "diverging"
    keep_as: Literal["sessions", "snapshots"] = "sessions"
    until_differs: bool = False
    compare_output: bool = False
    name: Name | None = None


class RunAnswer(AnswerBody):
    """One run. `output` has the lines of the first run of each kind; `names` are those of its copy."""

    number: int
    end: End
    status: str
    code: int | None
    detail: str
    duration: float
    output: list[str]
    names: list[str]
    digest: str
    apart: bool
    kept: str | None


class OutcomeKindAnswer(AnswerBody):
    """Runs with the same outcome, by their numbers."""

    status: str
    passed: bool
    runs: list[int]


class DifferenceAnswer(AnswerBody):
    """The first line, from 1, in which a kind differs from the most common one; null where one had ended."""

    line: int
    runs: list[int]
    texts: list[str | None]


class SpreadAnswer(AnswerBody):
    """The outcomes of all runs; fewer than `asked` if they were stopped when two differed."""

    command: str
    snapshot: str
    asked: int
    compare_output: bool
    deterministic: bool
    verdict: str
    kinds: list[OutcomeKindAnswer]
    differences: list[DifferenceAnswer]
    runs: list[RunAnswer]

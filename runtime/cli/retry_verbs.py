"""Verbs: retry, bisect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import SessionNotFound, SnapshotNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import EITHER_REF, JSON, SNAPSHOT_REF
from holdfast.runtime.cli.caller import command_text, context_of, controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import SET_APART, argument, examples, option
from holdfast.runtime.cli.reporting import Exit

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.flaky.repeat import Series
    from holdfast.runtime.flaky.spread import Run, Spread

FLAKY = 5
"""Exit code if runs from the same snapshot ended differently."""
NUMBERS = 12
"""Most runs listed per kind."""
DIFFERENCES = 4
"""Most kinds whose first difference is shown; programs get all."""

COMMAND = argument("TEXT | -- ARG...", help="Text for bash, `-` for standard input, or words.")
JOBS = option("--jobs", "-j", default=4, help="Runs at a time, memory permitting.")
TIME_LIMIT = option(
    "--timeout",
    metavar="S",
    help="Time limit of each run, in seconds; runs that exceed it are reported as timed out.",
)


@examples("retry work --count 20 -- pytest -x", "retry work --until-differs 'make test'")
def retry(
    set_apart: bool = SET_APART,
    source: str = EITHER_REF,
    command: list[str] = COMMAND,
    count: int = option("-n", "--count", default=20, help="How many runs."),
    jobs: int = JOBS,
    timeout: float | None = TIME_LIMIT,
    keep: str = option(
        "--keep",
        default="diverging",
        help="Runs to keep: `diverging` (one or two of each outcome), `all` or `none`.",
    ),
    keep_as: str = option(
        "--keep-as", default="sessions", help="Keep them as running `sessions` or as `snapshots`."
    ),
    until_differs: bool = option("--until-differs", help="Stop as soon as two runs differ."),
    compare_output: bool = option("--output", help="Compare the output of passing runs as well."),
    name: str | None = option("--name", help="Name the copies NAME-1, NAME-2, …"),
    json: bool = JSON,
) -> None:
    """Run a command many times from one snapshot, each time in its own copy, and compare the outcomes.

    Exit code 0 if all runs ended alike, 5 if they differ.
    """
    from holdfast.runtime.flaky.repeat import Series

    as_json = wants_json(json)
    text = command_text(command, separated=set_apart)
    series = Series(
        text,
        count,
        jobs,
        timeout,
        keep,  # type: ignore[arg-type] # checked before anything is begun
        keep_as,  # type: ignore[arg-type]
        until_differs,
        compare_output,
        name,
    ).checked()
    with controller() as holdfast:
        snapshot, taken = _moment(holdfast, source)
        try:
            spread = _retried(snapshot, series, as_json=as_json)
        except BaseException:
            if taken:
                snapshot.remove()
            raise
        if taken and not any(run.kept for run in spread.runs):
            snapshot.remove()
    if as_json:
        printing.emit(spread.as_dict())
    else:
        show(spread)
    raise Exit(0 if spread.deterministic else FLAKY)


@examples("bisect good bad 'make test'")
def bisect(
    set_apart: bool = SET_APART,
    good: str = SNAPSHOT_REF,
    bad: str = SNAPSHOT_REF,
    command: list[str] = COMMAND,
    count: int = option("-n", "--count", default=1, help="Runs per snapshot; one failure is enough."),
    jobs: int = JOBS,
    timeout: float | None = TIME_LIMIT,
    json: bool = JSON,
) -> None:
    """Find the first snapshot between two from which a command fails."""
    from holdfast.runtime.flaky import bisect as bisecting
    from holdfast.runtime.flaky.repeat import Series

    as_json = wants_json(json)
    text = command_text(command, separated=set_apart)

    def report(name: str, spread: Spread) -> None:
        if not as_json:
            printing.note(f"{name}: {spread.text}")

    with controller() as holdfast:
        rows = [holdfast.snapshot(ref).row for ref in (good, bad)]
        found = bisecting.bisect(
            context_of(holdfast, "bisect"), rows[0], rows[1], Series(text, count, jobs, timeout), report
        )
    if as_json:
        printing.emit(found.as_dict())
    else:
        printing.say(plain(found.text, 1000))


def _moment(holdfast: Holdfast, source: str) -> tuple[Snapshot, bool]:
    """Return the named snapshot; for a session, take one."""
    try:
        return holdfast.snapshot(source), False
    except SnapshotNotFound as missing:
        try:
            return holdfast.session(source).snapshot(), True
        except SessionNotFound:
            raise missing from None


def _retried(snapshot: Snapshot, series: Series, *, as_json: bool) -> Spread:
    done = 0

    def report(run: Run) -> None:
        nonlocal done
        done += 1
        if not as_json:
            apart = " (as a job: the shell is busy)" if run.apart else ""
            printing.note(f"{done}/{series.n}: run {run.number} {run.status}{apart}")

    if is_over_a_url():  # which reports only when all is done
        return snapshot.retry(
            series.command,
            series.n,
            jobs=series.at_once,
            timeout=series.limit,
            keep=series.keep,
            keep_as=series.keep_as,
            until_differs=series.until_differs,
            compare_output=series.compare_output,
            name=series.name,
        )
    return snapshot.tried(series, report)


def show(spread: Spread) -> None:
    """Show people the verdict, the kinds, where they differ, and which runs were kept."""
    printing.say(spread.text)
    if len(spread.runs) < spread.asked:
        printing.say(f"  {len(spread.runs)} of {spread.asked} runs; the others were not needed")
    if len(spread.kinds) < 2:
        return
    for kind in spread.kinds:
        kept = [run.kept for run in kind.runs if run.kept]
        kinds = (
            f"  {len(kind.runs):3} × {plain(kind.status, 100)}: {_numbers([run.number for run in kind.runs])}"
        )
        printing.say(kinds + (f"; kept as {', '.join(kept)}" if kept else ""))
    for one in spread.differences[:DIFFERENCES]:
        printing.say(f"  first difference, line {one.line}:")
        for number, text in zip(one.runs, one.texts, strict=True):
            printing.say(f"    run {number}: {'(its output ended)' if text is None else text}")


def _numbers(numbers: list[int]) -> str:
    more = len(numbers) - NUMBERS
    return f"run{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:NUMBERS]))}" + (
        ", …" if more > 0 else ""
    )

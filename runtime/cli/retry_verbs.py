"""Verbs: retry, bisect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.base.text import plain
from holdfast.errors import SessionNotFound, SnapshotNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import EitherRef, Json, SnapshotRef
from holdfast.runtime.cli.caller import command_text, context_of, controller, is_over_a_url, wants_json

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

Command = Annotated[
    list[str],
    typer.Argument(metavar="TEXT | -- ARG...", help="Text for bash, `-` for standard input, or words."),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Runs at a time, memory permitting.")]
Limit = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="S",
        help="Time limit of each run, in seconds; runs that exceed it are reported as timed out.",
    ),
]


def retry(
    context: typer.Context,
    source: EitherRef,
    command: Command,
    count: Annotated[int, typer.Option("-n", "--count", help="How many runs.")] = 20,
    jobs: Jobs = 4,
    timeout: Limit = None,
    keep: Annotated[
        str,
        typer.Option(
            "--keep", help="Runs to keep: `diverging` (one or two of each outcome), `all` or `none`."
        ),
    ] = "diverging",
    keep_as: Annotated[
        str, typer.Option("--keep-as", help="Keep them as running `sessions` or as `snapshots`.")
    ] = "sessions",
    until_differs: Annotated[
        bool, typer.Option("--until-differs", help="Stop as soon as two runs differ.")
    ] = False,
    compare_output: Annotated[
        bool, typer.Option("--output", help="Compare the output of passing runs as well.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="Name the copies NAME-1, NAME-2, …")] = None,
    json: Json = False,
) -> None:
    """Run a command many times from one snapshot, each time in its own copy, and compare the outcomes.

    Exit code 0 if all runs ended alike, 5 if they differ.
    """
    from holdfast.runtime.flaky.repeat import Series

    as_json = wants_json(json)
    text = command_text(command, separated=bool(context.meta.get("separated")))
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
    raise typer.Exit(0 if spread.deterministic else FLAKY)


def bisect(
    context: typer.Context,
    good: SnapshotRef,
    bad: SnapshotRef,
    command: Command,
    count: Annotated[
        int, typer.Option("-n", "--count", help="Runs per snapshot; one failure is enough.")
    ] = 1,
    jobs: Jobs = 4,
    timeout: Limit = None,
    json: Json = False,
) -> None:
    """Find the first snapshot between two from which a command fails."""
    from holdfast.runtime.flaky import bisect as bisecting
    from holdfast.runtime.flaky.repeat import Series

    as_json = wants_json(json)
    text = command_text(command, separated=bool(context.meta.get("separated")))

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

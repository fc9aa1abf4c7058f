"""Verbs of test runs: ci run, retry, bisect."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument, SessionNotFound, SnapshotNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import EITHER_REF, JSON, SNAPSHOT_REF, session_options
from holdfast.runtime.cli.caller import command_text, context_of, controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import SET_APART, argument, examples, option
from holdfast.runtime.cli.reporting import Exit
from holdfast.runtime.cli.transfer_verbs import (
    ENCRYPT_TO,
    KEY_NAME,
    PASSPHRASE,
    SECRETS,
    WITH_PASSPHRASE,
    bundle_passphrase,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.ci.run_job import CIJob, JobOutcome
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


@examples("ci run --setup 'pip install -q pytest' --export captured -- pytest --holdfast")
def run(
    set_apart: bool = SET_APART,
    command: list[str] = argument("-- CMD...", help="The command and its arguments."),
    env: list[str] | None = option(
        metavar="NAME|NAME=VALUE|'NAME*'", help="Pass a variable to the job. Repeatable."
    ),
    setup: list[str] | None = option(metavar="TEXT", help="Run this first, in the same shell. Repeatable."),
    timeout: str | None = option(metavar="30m", help="Time limit of setup and command together."),
    hang_after: str = option(
        default="10m", metavar="10m", help="Stop after this long without progress (0: never)."
    ),
    answer_after: str = option(
        default="2s", metavar="2s", help=("Stop once the command has waited this long for input.")
    ),
    export: Path | None = option(metavar="DIR", help="Export captures to files in this folder."),
    shared: bool = option(
        "--shared/--no-shared",
        default=True,
        help="With --export: store shared parts once, in DIR/blobs, or in each file.",
    ),
    push: str | None = option(metavar="REF", help="Push captures to a registry."),
    plain_http: bool = option("--plain-http", help="Push without TLS."),
    key: str | None = KEY_NAME,
    encrypt_to: list[str] | None = ENCRYPT_TO,
    passphrase: bool = WITH_PASSPHRASE,
    secrets: str | None = SECRETS,
    compression: str | None = option(
        help="Compression of file layers: zstd (default for files) or gzip (default for registries)."
    ),
    summary: Path | None = option(metavar="FILE", help="Append a Markdown summary of the failure."),
    redact: list[str] | None = option(
        metavar="NAME",
        help="Also treat the values of these variables as secret; `*` is a wildcard. Repeatable.",
    ),
    size_limit: str | None = option(metavar="4g", help="Discard snapshots larger than this."),
    capture_limit: str = option(default="5m", metavar="5m", help="Time limit for capturing."),
    fallback: str | None = option(metavar="files", help="If a live capture is not possible, keep the files."),
    captures: int = option(
        default=5, least=0, help="The most captures that the command can request (one per failing test)."
    ),
    keep: bool = option("--keep", help="Keep the session after the job."),
    checkout: Path = option(
        default=Path(), metavar="DIR", help="Folder to copy into the session (default: the current one)."
    ),
    no_checkout: bool = option("--no-checkout", help="Do not copy files into the session."),
    options: dict[str, Any] = session_options("ci run"),
    json: bool = JSON,
) -> None:
    """Run a command in a fresh session with the checkout in it; if it fails, capture the session alive.

    Output appears as it is written. The exit code is the command's; 124 if it took too long or made no more
    progress, 75 if it waited for input, 130 after Ctrl-C.
    """
    from holdfast.runtime.ci import failure_record as record
    from holdfast.runtime.ci import job_environment
    from holdfast.runtime.ci.delivery import DeliveryTarget
    from holdfast.runtime.ci.job_captures import CaptureLimits
    from holdfast.runtime.ci.run_job import CIJob
    from holdfast.runtime.ci.watched_command import TimeLimits
    from holdfast.runtime.scrubbing import rules_file
    from holdfast.runtime.store import policy

    if export is not None and push is not None:
        raise InvalidArgument("cannot export and push in one call", hint="choose --export DIR or --push REF")
    if plain_http and push is None:
        raise InvalidArgument("cannot do without TLS: --plain-http needs --push", hint="add --push REF")
    if fallback not in (None, "files"):
        raise InvalidArgument("cannot fall back: --fallback accepts only `files`", hint="--fallback files")
    packed = "gzip" if push is not None else "zstd"  # engines before Docker 23 pull only gzip
    how: dict[str, Any] = {
        "key": key,
        "passphrase": os.environ.get(PASSPHRASE),
        "compression": compression or packed,
    }
    if secrets is not None:
        how["secrets"] = rules_file.checked_action(secrets)
    if encrypt_to or passphrase:
        how |= {"encrypt_to": encrypt_to or (), "bundle_passphrase": bundle_passphrase(wanted=passphrase)}
    if plain_http:
        how["plain_http"] = True
    if export is not None:
        how["shared"] = shared
    text = command_text(command, separated=set_apart)
    job = CIJob(
        command=text,
        options=options,
        variables=job_environment.with_plugin(job_environment.chosen(env or [], os.environ), text),
        redact=tuple(redact or ()),
        checkout=None if no_checkout else checkout.absolute(),
        setup=tuple(setup or ()),
        patience=TimeLimits(
            None if timeout is None else _seconds(timeout, "--timeout"),
            _seconds(hang_after, "--hang-after"),
            _seconds(answer_after, "--answer-after"),
        ),
        limits=CaptureLimits(
            _seconds(capture_limit, "--capture-limit") or 1e9,
            None if size_limit is None else policy.size(size_limit, "--size-limit"),
            fallback == "files",
        ),
        destination=DeliveryTarget(export, push, how),
        written=() if summary is None else (summary,),
        captures=captures,
        keep=keep,
        job=record.job_of(os.environ),
    )
    outcome = _run(job, summary, as_json=wants_json(json))
    raise Exit(outcome.exit_code)


def _run(job: CIJob, summary: Path | None, *, as_json: bool) -> JobOutcome:
    from holdfast.runtime.ci.run_job import JobRun

    with (
        controller() as holdfast,
        printing.guest_output(file=sys.stderr if as_json else sys.stdout) as show,
    ):
        context = context_of(holdfast, "ci run")
        running = JobRun(context, job, show=show, note=printing.note, known=dict(os.environ))
        outcome = running.run()
    if outcome.failure is not None or outcome.kept:
        _summarize(running.redaction.text(job.command), outcome, summary)
    if outcome.session is not None:
        printing.note(f"session {outcome.session} is left as it is: `holdfast attach {outcome.session}`")
    if as_json:
        printing.emit(as_dict(outcome))
    return outcome


def as_dict(outcome: JobOutcome) -> dict[str, Any]:
    """Return the outcome of a job for programs."""
    return {
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 3),
        "failure": None if outcome.failure is None else outcome.failure.as_details(),
        "captured": [
            {"title": each.title, "thaw": each.thaw, "bytes": each.size, "kind": each.kind}
            for each in outcome.kept
        ],
        "not_captured": outcome.not_kept or None,
        "session": outcome.session,
        "notes": list(outcome.notes),
    }


def _summarize(command: str, outcome: JobOutcome, file: Path | None) -> None:
    from holdfast.runtime.ci.job_summary import Summary
    from holdfast.snapshots.failure import Failure

    record = outcome.failure or Failure(reason="asked", command=command)
    summary = Summary(
        record, outcome.exit_code, outcome.seconds, outcome.kept, outcome.not_kept, outcome.notes
    )
    given = os.environ.get("GITHUB_STEP_SUMMARY")
    for path in dict.fromkeys(each for each in (file, Path(given) if given else None) if each is not None):
        try:
            with path.open("a", encoding="utf-8", errors="replace") as stream:
                stream.write(summary.markdown() + "\n")
        except OSError as error:  # the exit code of the job matters more
            printing.note(f"cannot write the summary to {path}: {error.strerror or error}")


def _seconds(text: str, what: str) -> float:
    """Return the seconds of a time such as `30m`; a bare number is in seconds, 0 means no limit."""
    from holdfast.runtime.store import policy

    if text.strip() == "0":
        return 0.0
    try:
        return policy.seconds(float(text), what)
    except ValueError:
        return policy.seconds(text, what)


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
        show_spread(spread)
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
        return snapshot.retry(**as_table(series))
    return snapshot.tried(series, report)


def show_spread(spread: Spread) -> None:
    """Show people the verdict, the kinds, their differences, and the kept runs."""
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

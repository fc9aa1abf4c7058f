"""Verb: ci run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, session_options
from holdfast.runtime.cli.caller import command_text, context_of, controller, wants_json
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

if TYPE_CHECKING:
    from holdfast.runtime.ci.ci_job import CIJob, JobOutcome


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
    answer_after: str = option(default="2s", metavar="2s", help="Stop after waiting this long for input."),
    export: Path | None = option(metavar="DIR", help="Export captures to files in this folder."),
    shared: bool = option(
        "--shared/--no-shared",
        default=True,
        help="With --export: keep what captures have in common once, in DIR/blobs; or in each file.",
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
    no_checkout: bool = option("--no-checkout", help="Copy nothing into the session."),
    options: dict[str, Any] = session_options("ci run"),
    json: bool = JSON,
) -> None:
    """Run a command in a fresh session with the checkout in it; if it fails, capture the session alive.

    Output appears as it is written. The exit code is the command's; 124 if it took too long or made no more
    progress, 75 if it waited for input, 130 after Ctrl-C.
    """
    from holdfast.runtime.ci import failure_record as record
    from holdfast.runtime.ci import job_environment
    from holdfast.runtime.ci.capture_job import CaptureLimits
    from holdfast.runtime.ci.ci_job import CIJob
    from holdfast.runtime.ci.delivery import DeliveryTarget
    from holdfast.runtime.ci.watchdog import TimeLimits
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
    """Return the seconds of a time such as `30m`; a bare number is seconds, 0 means no limit."""
    from holdfast.runtime.store import policy

    if text.strip() == "0":
        return 0.0
    try:
        return policy.seconds(float(text), what)
    except ValueError:
        return policy.seconds(text, what)

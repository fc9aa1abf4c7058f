"""Verbs that show the past of a session: events, journal, metrics, replay."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain, size
from holdfast.errors import InvalidArgument, OnlyInProcess, StoreError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, SESSION_REF, SHELL, session_and_snapshot_names
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.guest.layout import MAIN
from holdfast.runtime.task.stated_actions import StatedAction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.event import Event
    from holdfast.runtime.history.recording.recording import Recording
    from holdfast.runtime.pulse.metrics_history import Metrics

_PLACE = "SNAPSHOT, OFFSET, time as 2026-01-31T12:00, or 10m (ago)"
_MARKS = {"command": "$ ", "cell": ">>> ", "job": "job: ", "run": "run: "}
LONGEST = 80
"""Characters of an action or a reason in the table; JSON has all."""


@examples("events work", "events work -f", "events work --since 10m")
def events(
    session: str = SESSION_REF,
    follow: bool = option("--follow", "-f", help="Keep printing events until the session ends."),
    since: str | None = option(
        metavar="SEQ|TIME", help="Events after this number, an age (10m, 2h) or a time (2026-01-31T12:00)."
    ),
    kind: list[str] | None = option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable."),
    json: bool = JSON,
) -> None:
    """Show the events of a session: deaths with their cause, waits, people who joined."""
    after, begin = moment(since, datetime.now(UTC))
    found = controller().session(session).events(after, follow=follow, kinds=kind)
    shown = (event for event in found if begin is None or event.at >= begin)
    if wants_json(json) and not follow:
        printing.emit([event.as_dict() for event in shown])
        return
    for event in shown:
        if wants_json(json):
            printing.emit(event.as_dict())
        else:
            printing.say(event_line(event))
        sys.stdout.flush()


def event_line(event: Event) -> str:
    """Return an event as a line for people."""
    at = event.at.astimezone()
    return f"{event.seq}  {at:%Y-%m-%d %H:%M:%S}  {event.kind}  {event.text}"


def moment(since: str | None, now: datetime) -> tuple[int, datetime | None]:
    """Return where to begin: after an event's number, and not before a time."""
    if since is None:
        return 0, None
    if since.isascii() and since.isdecimal():
        return int(since), None
    if (ago := parse_duration(since)) is not None:
        with suppress(OverflowError):  # older than time itself
            return 0, now - timedelta(seconds=ago)
        return 0, None
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        raise InvalidArgument(
            f"cannot begin at '{since}': it is neither the number of an event nor a time",
            hint="for example `--since 42`, `--since 10m` or `--since 2026-01-31T12:00`",
        ) from None
    return 0, at.astimezone(UTC)


@examples("metrics work", "metrics work --since 10m --json")
def metrics(
    session: str = SESSION_REF,
    since: str = option(
        "--since", default="1h", metavar="TIME", help="An age (10m, 24h) or a time (2026-01-31T12:00)."
    ),
    json: bool = JSON,
) -> None:
    """Show the use of processors, memory and disk in the last day, as sampled by `holdfast serve`."""
    number, at = moment(since, datetime.now(UTC))
    if number:
        raise InvalidArgument(
            f"cannot begin at '{plain(since, 40)}', which is a number instead of a time",
            hint="for example `--since 10m` or `--since 2026-01-31T12:00`",
        )
    handle = controller().session(session)
    found = handle.metrics(at)
    if wants_json(json):
        told = [each.as_dict() for each in found]
        printing.emit({"id": handle.id, "name": handle.name, "metrics": told})
        return
    if not found:
        printing.note(f"{handle.name} was not sampled: `holdfast serve` samples while it runs")
        return
    printing.table(["TIME", "PROCESSOR", "MEMORY", "OF", "DISK"], map(_used, found))


def _used(found: Metrics) -> list[str]:
    at = found.at.astimezone().strftime("%m-%d %H:%M:%S")
    sizes = (size(found.memory_used), size(found.memory_total), size(found.disk_used))
    return [at, f"{found.processor_percent:.1f} %", *sizes]


@examples("journal work -n 20", "journal work --grep pytest", "journal work --ipynb work.ipynb")
def journal(
    session: str = SESSION_REF,
    kind: list[str] | None = option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable."),
    actor: str | None = option(
        "--actor", metavar="ACTOR", help="Only entries by this actor, such as person:NAME or agent."
    ),
    since: str | None = option(
        metavar="SEQ|TIME", help="Events after this number, an age (10m, 2h) or a time (2026-01-31T12:00)."
    ),
    grep: str | None = option(metavar="TEXT", help="Only entries containing this text."),
    limit: int | None = option("--limit", "-n", help="Only the last N.", least=1),
    all_timelines: bool = option("--all", help="Include other timelines, marked with ~."),
    ipynb: Path | None = option(
        metavar="FILE", help="Write the kernel's cells as a notebook (`-`: standard output)."
    ),
    kernel: str = option(default="main", help="With --ipynb: the kernel."),
    json: bool = JSON,
) -> None:
    """Show the journal of a session: commands with actor, reason and result, even after its removal."""
    from holdfast.runtime.journal import event_text

    holdfast = controller()
    if ipynb is not None and is_over_a_url():
        raise OnlyInProcess(
            "cannot write a notebook over a URL: the rules that keep secrets out of it are on the server",
            hint="run it there, without HOLDFAST_URL; `--json` has the entries as they are",
        )
    found = holdfast.session(session, removed=True)
    after, begin = moment(since, datetime.now(UTC))
    entries = found.journal(
        after or None,
        kinds=kind or None,
        actor=actor,
        since=begin,
        grep=grep,
        all_timelines=all_timelines,
        limit=limit,
    )
    if ipynb is not None:
        from holdfast.runtime.journal import notebook
        from holdfast.runtime.scrubbing import rules_file
        from holdfast.runtime.scrubbing.scrubber import without_secrets

        clean = without_secrets(entries, rules_file.read(holdfast.home).matcher())
        _write_notebook(ipynb, notebook.write(notebook.notebook(clean, kernel, found.name)))
    elif wants_json(json):
        printing.emit([entry.as_dict() for entry in entries])
    else:
        for entry in entries:
            printing.say(event_text.entry_line(entry, asked=found.name))


def _write_notebook(path: Path, text: str) -> None:
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror or error}") from error


@examples("replay work", "replay work --speed 4", "replay work --cast work.cast")
def replay(
    session: str = argument(
        "SESSION|SNAPSHOT", help="A session; with --why a snapshot.", names=session_and_snapshot_names
    ),
    why: bool = option(
        "--why", help="Show each action that led to a snapshot, why it was done, and its result."
    ),
    start: str | None = option(
        "--from",
        metavar="PLACE",
        help=f"Start: {_PLACE}. With --why a snapshot; by default the last checkpoint before.",
    ),
    end: str | None = option("--to", metavar="PLACE", help="Where to stop."),
    speed: float = option("--speed", default=1.0, metavar="X", help="Playback speed (2: twice as fast)."),
    max_idle: float | None = option("--max-idle", metavar="S", help="Shorten pauses to this many seconds."),
    cast: str | None = option(
        "--cast", metavar="FILE", help="Write asciicast v2 to this file (`-`: standard output)."
    ),
    shell: str = SHELL,
    raw: bool = RAW,
    json: bool = JSON,
) -> None:
    """Play back what the session's terminal showed, or write it as an asciinema recording.

    While it plays, space pauses and q ends. Without a terminal everything is written immediately.
    With --why: list the actions between two snapshots, with their reasons and results.
    """
    holdfast = controller()
    if why:
        if raw or shell != MAIN or speed != 1.0 or {end, max_idle, cast} != {None}:
            raise InvalidArgument("cannot play back with --why: it takes only --from and --json")
        _show_actions(holdfast.snapshot(session).actions(start), as_json=wants_json(json))
        return
    found = holdfast.session(session)
    recording = found.terminal_of(shell).recording(start, end)
    if recording.missing:
        printing.note(f"{printing.size(recording.missing)} at the beginning are no longer kept")
    how: dict[str, Any] = {"raw": raw}
    if cast is not None and not raw and not is_over_a_url():  # a server has rules of its own
        from holdfast.runtime.scrubbing import rules_file

        how["matcher"] = rules_file.read(holdfast.home).matcher()
    if cast is None:
        from holdfast.runtime.history.recording.player import Player

        player = Player(recording, speed=speed, max_idle=max_idle, raw=raw)
        if sys.stdout.isatty():
            printing.note(f"recorded at {recording.rows} x {recording.cols}; space pauses, q ends")
        player.run()
        count = None
    elif cast == "-":
        recording.write(sys.stdout, **how)
        return
    else:
        count = _written(cast, recording, how)
    if wants_json(json):
        printing.emit(
            {
                "id": found.id,
                "name": found.name,
                "start_offset": recording.start,
                "end_offset": recording.end,
                "missing": recording.missing,
                "begun": recording.begun,
                "events": count,
                "file": cast,
            }
        )
    elif count is not None:
        printing.note(f"{count} events written to {cast}")


def _written(cast: str, recording: Recording, how: dict[str, Any]) -> int:
    try:
        with Path(cast).open("w", encoding="utf-8", newline="\n") as file:
            return recording.write(file, **how)
    except OSError as error:
        raise StoreError(f"cannot write {cast}: {error.strerror}") from error


def _show_actions(found: Sequence[StatedAction], *, as_json: bool) -> None:
    """Write them to standard output."""
    if as_json:
        printing.emit([{**asdict(each), "why": each.why, "outcome": each.outcome} for each in found])
    else:
        printing.table(("ENTRY", "AT", "BY", "ACTION", "WHY", "RESULT"), (_row(each) for each in found))


def _row(each: StatedAction) -> Sequence[str]:
    at = datetime.fromtimestamp(each.at, UTC).astimezone()
    key = f" [key {each.key}]" if each.key else ""
    text = plain(first_line(each) + key, LONGEST)
    return each.entry, f"{at:%m-%d %H:%M:%S}", each.actor, text, plain(each.why, LONGEST), _result(each)


def first_line(each: StatedAction) -> str:
    """Return an action as a line: the first line of its text, marked by its kind."""
    head, _, rest = each.text.strip().partition("\n")
    return _MARKS.get(each.kind, "") + (f"{head} …" if rest or each.cut else head)


def _result(each: StatedAction) -> str:
    detail = f": {each.failure_detail}" if each.failure_detail else ""
    return plain(each.outcome + detail, LONGEST)

"""Verb: replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, SHELL, session_and_snapshot_names
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.guest.layout import MAIN

if TYPE_CHECKING:
    from holdfast.runtime.history.recording.recording import Recording

_PLACE = "SNAPSHOT, OFFSET, time as 2026-01-31T12:00, or 10m (ago)"


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
        help=f"Where: {_PLACE}. With --why a snapshot; by default the last checkpoint before.",
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

    While it plays, space pauses and q ends. Without a terminal everything is written at once.
    With --why: list the actions between two snapshots, with their reasons and results.
    """
    holdfast = controller()
    if why:
        from holdfast.runtime.cli import stated_action_rows

        if raw or shell != MAIN or speed != 1.0 or {end, max_idle, cast} != {None}:
            raise InvalidArgument("cannot play back with --why: it takes only --from and --json")
        stated_action_rows.show(holdfast.snapshot(session).actions(start), as_json=wants_json(json))
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

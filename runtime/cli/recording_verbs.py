"""Verb: replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, Raw, Shell, session_and_snapshot_names
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.guest.layout import MAIN

if TYPE_CHECKING:
    from holdfast.runtime.history.recording.recording import Recording

_PLACE = "SNAPSHOT, OFFSET, time as 2026-01-31T12:00, or 10m (ago)"


def replay(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION|SNAPSHOT",
            help="A session; with --why a snapshot.",
            autocompletion=session_and_snapshot_names,
        ),
    ],
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Show each action that led to a snapshot, why it was done, and its result."
        ),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help=f"Where: {_PLACE}. With --why a snapshot; by default the last checkpoint before.",
        ),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="PLACE", help="Where to stop.")] = None,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", help="Playback speed (2: twice as fast).")
    ] = 1.0,
    max_idle: Annotated[
        float | None, typer.Option("--max-idle", metavar="S", help="Shorten pauses to this many seconds.")
    ] = None,
    cast: Annotated[
        str | None,
        typer.Option(
            "--cast", metavar="FILE", help="Write asciicast v2 to this file (`-`: standard output)."
        ),
    ] = None,
    shell: Shell = MAIN,
    raw: Raw = False,
    json: Json = False,
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

"""Verb: replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.errors import StoreError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, Raw, SessionRef, Shell
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.guest.layout import MAIN

_PLACE = "SNAPSHOT, OFFSET, time as 2026-01-31T12:00, or 10m (ago)"


def replay(
    session: SessionRef,
    start: Annotated[str | None, typer.Option("--from", metavar="PLACE", help=f"Where: {_PLACE}.")] = None,
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
    """
    holdfast = controller()
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
        try:
            with Path(cast).open("w", encoding="utf-8", newline="\n") as file:
                count = recording.write(file, **how)
        except OSError as error:
            raise StoreError(f"cannot write {cast}: {error.strerror}") from error
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

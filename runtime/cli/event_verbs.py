"""Verb: events."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.base.quantities import parse_duration
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, SessionRef
from holdfast.runtime.cli.caller import controller, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.event import Event


def events(
    session: SessionRef,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing events until the session ends.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="SEQ|TIME", help="After this number; or an age (10m, 2h) or a time (2026-01-31T12:00)."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what happened in a session: what died and why, what is waiting, who joined."""
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
            printing.say(line(event))
        sys.stdout.flush()


def line(event: Event) -> str:
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

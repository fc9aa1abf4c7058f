"""Verb: events."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.base.quantities import parse_duration
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.event import Event


@examples("events work", "events work -f", "events work --since 10m")
def events(
    session: str = SESSION_REF,
    follow: bool = option("--follow", "-f", help="Keep printing events until the session ends."),
    since: str | None = option(
        metavar="SEQ|TIME", help="After this number; or an age (10m, 2h) or a time (2026-01-31T12:00)."
    ),
    kind: list[str] | None = option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable."),
    json: bool = JSON,
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

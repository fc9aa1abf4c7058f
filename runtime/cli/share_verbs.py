"""Verb: share."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, session_names
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.access.access_keys import AccessKeys
    from holdfast.runtime.access.shared_links import SharedLink
    from holdfast.runtime.api.controller import Holdfast


@examples("share work --read-only --for 2h", "share work --type", "share", "share --revoke guest-1a2b3c")
def share(
    session: str | None = argument(
        "SESSION",
        default=None,
        help="The session to share; without one, links are listed.",
        names=session_names,
    ),
    read_only: bool = option("--read-only", help="Let visitors watch; this is the default."),
    may_type: bool = option("--type", help="Let visitors type, run commands and take the lease as well."),
    lasting: str | None = option("--for", metavar="DURATION", help="How long, such as 30m; 2h by default."),
    listed: bool = option("--list", help="List the session's links, with their visits."),
    revoke: str | None = option("--revoke", metavar="LINK", help="End a link, by its name."),
    json: bool = JSON,
) -> None:
    """Print a link by which others see one session in their browser. It needs `holdfast serve`."""
    from holdfast.runtime.access import shared_links

    holdfast = controller()
    if revoke is not None:
        if read_only or may_type or lasting is not None:
            raise InvalidArgument("cannot both make and revoke a link", hint="give --revoke alone")
        if session is not None:
            gone = holdfast.session(session).revoke_share(revoke)
        else:
            gone = shared_links.revoke(holdfast.context, _all(holdfast, "--revoke"), revoke)
        if wants_json(json):
            printing.emit({"name": gone.name, "id": gone.session})
        else:
            printing.note(f"revoked {gone.name}: the pages that it opened are cut")
        return
    if session is None:
        if read_only or may_type or lasting is not None:
            raise InvalidArgument("cannot share: no session was named", hint="`holdfast share SESSION`")
        _list(shared_links.links(_all(holdfast, "share")), in_json=wants_json(json))
        return
    if listed:
        _list(holdfast.session(session).shares(), in_json=wants_json(json))
        return
    if read_only and may_type:
        raise InvalidArgument("cannot let visitors only watch and type", hint="give one of them")
    found = holdfast.session(session)
    made = found.share(typing=may_type, seconds=_seconds(lasting))
    if wants_json(json):
        printing.emit({"id": found.id, **made.as_dict()})
        return
    where = f"in {found.name}" if may_type else found.name
    printing.say(made.url)
    printing.note(
        f"the link lets its holders {made.may} {where}, until {_moment(made.expires_at)}; "
        f"`holdfast share {found.name} --revoke {made.name}` ends it"
    )


def _all(holdfast: Holdfast, what: str) -> AccessKeys:
    """Return the keys of the home, for the links of all sessions.

    Raises:
        InvalidArgument: the home is a server's, which has them by session.
    """
    if is_over_a_url():
        raise InvalidArgument(
            f"cannot {what} without a session over a URL", hint="`holdfast share SESSION --list`"
        )
    from holdfast.runtime.access.access_keys import AccessKeys

    return AccessKeys(holdfast.home.root)


def _seconds(lasting: str | None) -> float:
    from holdfast.base.quantities import parse_duration
    from holdfast.base.text import plain
    from holdfast.runtime.access import shared_links

    found = shared_links.SECONDS if lasting is None else parse_duration(lasting)
    if not found:
        raise InvalidArgument(
            f"cannot use the time '{plain(lasting or '', 40)}'", hint="for example 30m, 2h or 7d"
        )
    return found


def _list(found: Sequence[SharedLink], *, in_json: bool) -> None:
    if in_json:
        printing.emit([each.as_dict() for each in found])
        return
    if not found:
        printing.note("there is not a link yet; `holdfast share SESSION` makes one")
        return
    printing.table(
        ["LINK", "SESSION", "LETS", "STATE", "EXPIRES", "VISITS"],
        [
            [each.name, each.session, each.may, each.state, _moment(each.expires_at), str(each.visits)]
            for each in found
        ],
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")

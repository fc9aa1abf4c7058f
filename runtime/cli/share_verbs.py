"""Verb: share."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import page_verbs, printing
from holdfast.runtime.cli.arguments import JSON, session_names
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.access.access_keys import AccessKey, AccessKeys


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
    revoke: str | None = option("--revoke", metavar="LINK", help="End a link, by its name."),
    json: bool = JSON,
) -> None:
    """Print a link by which others see one session in their browser. It needs `holdfast serve`."""
    from holdfast.runtime.access import shared_links
    from holdfast.runtime.access.access_keys import AccessKeys

    holdfast = controller()
    keys = AccessKeys(holdfast.home.root)
    if revoke is not None:
        if session is not None or read_only or may_type or lasting is not None:
            raise InvalidArgument("cannot both make and revoke a link", hint="give --revoke alone")
        gone = shared_links.revoke(holdfast.context, keys, revoke)
        if wants_json(json):
            printing.emit({"name": gone.name, "id": gone.session})
        else:
            printing.note(f"revoked {gone.name}: the pages that it opened are cut")
        return
    if session is None:
        if read_only or may_type or lasting is not None:
            raise InvalidArgument("cannot share: no session was named", hint="`holdfast share SESSION`")
        _list(keys, in_json=wants_json(json))
        return
    if read_only and may_type:
        raise InvalidArgument("cannot let visitors only watch and type", hint="give one of them")
    found, what = holdfast.session(session), shared_links.TYPE if may_type else shared_links.WATCH
    address = page_verbs.server()
    seconds = _seconds(lasting)
    made, text = shared_links.share(holdfast.context, keys, found.id, what, seconds)
    url = f"{address.url}/#ticket={text}&session={found.name}"
    if wants_json(json):
        printing.emit({"id": found.id, "url": url, **_told(made)})
        return
    where = f"in {found.name}" if may_type else found.name
    printing.say(url)
    printing.note(
        f"the link lets its holders {what} {where}, until {_moment(made.expires_at)}; "
        f"`holdfast share --revoke {made.name}` ends it"
    )


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


def _list(keys: AccessKeys, *, in_json: bool) -> None:
    from holdfast.runtime.access import shared_links

    found, now = shared_links.links(keys), time.time()
    if in_json:
        printing.emit([_told(each) for each in found])
        return
    if not found:
        printing.note("there is not a link yet; `holdfast share SESSION` makes one")
        return
    printing.table(
        ["LINK", "SESSION", "LETS", "STATE", "EXPIRES", "VISITS"],
        [
            [
                each.name,
                each.session,
                shared_links.may(each),
                each.state(now),
                _moment(each.expires_at),
                str(each.visits),
            ]
            for each in found
        ],
    )


def _told(link: AccessKey) -> dict[str, object]:
    from holdfast.runtime.access import shared_links

    return {
        "name": link.name,
        "session": link.session,
        "may": shared_links.may(link),
        "state": link.state(time.time()),
        "expires_at": link.expires_at,
        "visits": link.visits,
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")

"""Verb: open."""

from __future__ import annotations

import os
import sys

from holdfast.errors import HoldfastError, InvalidArgument, ServerUnavailable
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, session_names
from holdfast.runtime.cli.caller import acting, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.client.client_address import ClientAddress

SECONDS = 10.0
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@examples("open", "open work", "open work --print")
def open_(
    session: str | None = argument(
        "SESSION", default=None, help="The session to show first.", names=session_names
    ),
    only_print: bool = option("--print", help="Print the link, and start no browser."),
    json: bool = JSON,
) -> None:
    """Open the web page of `holdfast serve` by a link that works once, within five minutes.

    The link is printed. A browser is started if there is a screen for one.
    """
    name = None if session is None else controller().session(session).name
    from holdfast.runtime.client import client_address

    address = client_address.served("open the page")
    url = f"{address.url}/#ticket={_ticket(address)}" + (f"&session={name}" if name else "")
    if wants_json(json):
        printing.emit({"url": url})
        return
    printing.say(url)
    if not only_print and sys.stdout.isatty() and any(os.environ.get(each) for each in _DISPLAYS):
        import webbrowser

        webbrowser.open(url)


def _ticket(address: ClientAddress) -> str:
    """Return a ticket of a server.

    Raises:
        ServerUnavailable: it does not answer, or lacks the page.
        InvalidArgument: it does not take the token.
    """
    import httpx

    who = acting()
    headers = address.headers | ({"Holdfast-Actor": who} if who else {})
    try:
        address.check()
        answer = httpx.post(f"{address.url}/page/tickets", headers=headers, timeout=SECONDS, trust_env=False)
        answer_ = answer.json() if answer.status_code == 201 else {}
    except (OSError, ValueError, httpx.HTTPError) as error:
        if isinstance(error, HoldfastError):
            raise
        raise ServerUnavailable(
            f"cannot open the page: the server at {address.url} does not answer", hint="`holdfast serve`"
        ) from error
    if answer.status_code == 401:
        raise InvalidArgument(
            f"cannot open the page: the server at {address.url} does not accept the token",
            hint="set HOLDFAST_TOKEN to the token that it was started with",
        )
    if not isinstance(ticket := answer_.get("ticket"), str):
        raise ServerUnavailable(
            f"cannot open the page: the server at {address.url} does not serve one",
            hint="an older Holdfast serves there",
        )
    return ticket

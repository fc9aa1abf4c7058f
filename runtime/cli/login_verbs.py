"""Verbs: login, logout."""

from __future__ import annotations

import os
import sys

from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, ServerUnavailable
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.client.device_login import DeviceCode

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@examples("login https://holdfast.example.org", "login https://holdfast.example.org --issuer corp")
def login(
    url: str | None = argument("URL", default=None, help="The server; HOLDFAST_URL by default."),
    issuer: str | None = option(
        "--issuer", metavar="NAME", help="By which issuer, where a server has several."
    ),
    json: bool = JSON,
) -> None:
    """Sign in at a server as a person, by a code that is entered in a browser.

    The resulting key is kept in your configuration, and used for this URL if HOLDFAST_TOKEN
    is not set. If you are in several teams, `holdfast --team NAME login` says which.
    """
    from datetime import UTC, datetime

    from holdfast.runtime.client import device_login, kept_logins

    choose = _choose if sys.stdin.isatty() and sys.stderr.isatty() else None
    made = device_login.login(_server(url), issuer, _show, team=Home.team_named(), choose=choose)
    kept_logins.keep(made)
    if wants_json(json):
        told = {"url": made.url, "actor": made.actor, "team": made.team or None}
        printing.emit({**told, "expires_at": made.expires_at})
        return
    until = datetime.fromtimestamp(made.expires_at, UTC).strftime("%Y-%m-%d %H:%M")
    where = f" in team {plain(made.team, 40)}" if made.team else ""
    printing.note(f"you are {made.actor} at {made.url}{where} until {until} UTC")
    if os.environ.get("HOLDFAST_TOKEN"):
        printing.note("HOLDFAST_TOKEN is set, and goes before this login")


@examples("logout https://holdfast.example.org")
def logout(
    url: str | None = argument("URL", default=None, help="The server; HOLDFAST_URL by default."),
    json: bool = JSON,
) -> None:
    """Sign out at a server: the key of the login is revoked, and removed from your configuration."""
    from holdfast.runtime.client import device_login, kept_logins

    found = kept_logins.of(_server(url))
    if found is None:
        raise InvalidArgument("cannot log out: you are not logged in there", hint="`holdfast login URL`")
    kept_logins.forget(found)
    try:
        device_login.logout(found)
    except ServerUnavailable as error:
        raise ServerUnavailable(
            f"{error}", hint="the login is removed here; `holdfast access rm` revokes its key over there"
        ) from error
    if wants_json(json):
        printing.emit({"url": found.url, "actor": found.actor})
    else:
        printing.note(f"{found.actor} is no longer logged in at {found.url}")


def _server(url: str | None) -> str:
    given = url or os.environ.get("HOLDFAST_URL") or ""
    if "://" not in given:
        raise InvalidArgument(
            "cannot tell which server is meant: it needs a URL",
            hint="for example `holdfast login https://holdfast.example.org`",
        )
    return given


def _choose(teams: Sequence[str]) -> str:
    """Have a person choose one of their teams."""
    for number, name in enumerate(teams, 1):
        printing.note(f"{number}: {plain(name, 40) or 'no team: the home of the server itself'}")
    while True:
        sys.stderr.write(f"team (1 to {len(teams)}): ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InvalidArgument("cannot log in without a team", hint="`holdfast --team NAME login URL`")
        if line.strip().isdecimal() and 1 <= int(line) <= len(teams):
            return teams[int(line) - 1]


def _show(code: DeviceCode) -> None:
    printing.note(f"open {plain(code.url, 400)} in a browser and enter the code {plain(code.code, 40)}")
    if code.whole and sys.stdout.isatty() and any(os.environ.get(each) for each in _DISPLAYS):
        import webbrowser

        webbrowser.open(code.whole)

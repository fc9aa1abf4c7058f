"""Verbs: team new, ls, store, rm."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from holdfast.base.home import Home
from holdfast.errors import HoldfastError, InvalidArgument, SessionNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

NAME = argument("NAME", help="The name of the team.", names=lambda _typed: _names())
LEAVE_SECONDS = 60.0
"""How long servers have to let go of a team that is removed."""
_POLL_SECONDS = 0.2


def _names() -> list[str]:
    from holdfast.runtime.access import teams

    return teams.names(Home.own())


def _here(what: str) -> Home:
    """Return the home whose teams are meant, which is on this machine."""
    if os.environ.get("HOLDFAST_URL"):
        from holdfast.runtime.client.client_errors import not_over_a_url

        raise not_over_a_url(what)
    return Home.own()


@examples("team new research")
def new(name: str = argument("NAME", help="1 to 32 of a-z, 0-9 and -."), json: bool = JSON) -> None:
    """Make a team: a home of its own, which `holdfast serve` serves as well, from now on."""
    from holdfast.runtime.access import teams

    made = teams.create(_here("team").create(), name)
    if wants_json(json):
        printing.emit({"name": made.name, "home": made.home.place, "created_at": made.created_at})
        return
    printing.say(name)
    printing.note(f"its home is {made.home.place}; `holdfast --team {name} access new USER` makes a key")


@examples("team ls")
def list_(json: bool = JSON) -> None:
    """List teams: their sessions, running sessions, and keys."""
    from datetime import UTC, datetime

    from holdfast.runtime.access import teams
    from holdfast.runtime.access.access_keys import AccessKeys
    from holdfast.runtime.store.store import Store

    home, now, found = _here("team"), time.time(), []
    AccessKeys(home.root).has("")  # where machines share teams, the others' are known then
    teams.match(home)
    for name in teams.names(home):
        team = teams.find(home, name)
        if team is None:
            continue
        usage = Store.open(team.home.database).usage()
        keys = sum(each.is_valid(now) for each in AccessKeys(team.home.root).list())
        found.append((team, usage, keys))
    leaving = teams.names(home, teams.LEAVING)
    if wants_json(json):
        printing.emit(
            [
                {
                    "name": team.name,
                    "home": team.home.place,
                    "created_at": team.created_at,
                    "keys": keys,
                    **usage.as_dict(),
                }
                for team, usage, keys in found
            ]
        )
        return
    for name in leaving:
        printing.note(f"the removal of team {name} was cut short; `holdfast team rm {name}` completes it")
    if not found:
        printing.note("this home does not have teams; `holdfast team new NAME` makes one")
        return
    printing.table(
        ["NAME", "CREATED", "SESSIONS", "RUNNING", "KEYS"],
        [
            [
                team.name,
                datetime.fromtimestamp(team.created_at, UTC).strftime("%Y-%m-%d %H:%M"),
                str(usage.sessions),
                str(usage.running),
                str(keys),
            ]
            for team, usage, keys in found
        ],
    )


@examples(
    "team store", "team store postgresql://holdfast:PASSWORD@db.example.org/holdfast", "team store --local"
)
def store(
    url: str | None = argument("URL", default=None, help="A PostgreSQL for several machines."),
    local: bool = option("--local", help="Keep teams in the files of this home again, as they are now."),
    json: bool = JSON,
) -> None:
    """Show or change where teams, keys, people and quotas are kept: in files of the home, or in a PostgreSQL
    that several servers share. Servers that run have to be started again.
    """
    from urllib.parse import urlsplit

    from holdfast.runtime.http_doors import door_setup
    from holdfast.runtime.store.shared_rows import STORE_FILE

    home = _here("team").create()
    if url is not None and local:
        raise InvalidArgument("cannot keep teams in two places", hint="leave out the URL or --local")
    if url is not None or local:
        door_setup.check_packages("cluster", "share teams")
        from holdfast.runtime.access import joint_teams

        if local:
            joint_teams.leave(home)
        else:
            for name in joint_teams.join(home, str(url)):
                printing.note(f"left out the key of {name}: there is one of that name in the database")
    file = home.root / STORE_FILE
    there = ""
    if file.exists():
        parts = urlsplit(file.read_text().strip())
        there = f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    if wants_json(json):
        printing.emit({"store": there or None})
    else:
        printing.say(there or "the files of this home")


@examples("team rm research --force")
def remove(
    name: str = NAME,
    force: bool = option("--force", help="Remove its sessions and snapshots as well."),
    json: bool = JSON,
) -> None:
    """Remove a team; its keys open nothing from now on. With --force, also its sessions and snapshots."""
    from holdfast.base import serving_record
    from holdfast.runtime.access import teams
    from holdfast.runtime.access.access_keys import AccessKeys
    from holdfast.runtime.api.controller import Holdfast

    home = _here("team")
    team = teams.find(home, name)
    if team is not None and not force:
        with Holdfast(team.home) as holdfast:
            sessions, snapshots = len(holdfast.store.sessions()), len(holdfast.store.snapshots())
        if sessions or snapshots:
            raise InvalidArgument(
                f"cannot remove team {name}: it has {sessions} sessions and {snapshots} snapshots",
                hint=f"`holdfast team rm {name} --force` removes them as well",
            )
    there = teams.begin_removal(home, name)
    keys = AccessKeys(there.root)
    for each in keys.list():
        if not each.revoked_at:
            keys.revoke(each.id)
    keys.close()
    with Holdfast(there, progress=printing.note) as holdfast:
        holdfast.pool.set(0)
        _empty(holdfast.context)
    deadline = time.monotonic() + LEAVE_SECONDS
    while serving_record.running(there):
        if time.monotonic() > deadline:
            raise HoldfastError(
                f"cannot remove team {name}: a server still uses it",
                hint=f"its keys open nothing; `holdfast team rm {name}` continues",
            )
        time.sleep(_POLL_SECONDS)
    teams.erase(there)
    if wants_json(json):
        printing.emit({"name": name})
    else:
        printing.note(f"removed team {name}")


def _empty(context: Context) -> None:
    """Remove all sessions and snapshots of a home, and the containers that work for it."""
    from holdfast.runtime.lifecycle import teardown
    from holdfast.runtime.storage import snapshot_storage

    for row in context.store.sessions():
        with suppress(SessionNotFound):
            teardown.remove(context, row.id)
    if snapshots := context.store.snapshots():
        snapshot_storage.remove_snapshots(context, snapshots[::-1])
    for container in context.engine.containers(holdfast_home=context.home.digest):
        context.engine.kill_remove(container)

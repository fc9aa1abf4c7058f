"""A server whose home has two teams, reached without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.runtime.doors.walked_doors import TOKEN, WalkedDoors, run

from holdfast.base.home import Home
from holdfast.runtime.access import teams
from holdfast.runtime.access.access_keys import AccessKeys
from holdfast.runtime.cli.served_doors import ServedDoors
from holdfast.runtime.cli.served_teams import ServedTeam, ServedTeams
from holdfast.runtime.operations.context import no_progress
from holdfast.runtime.store.rows import SessionRow
from holdfast.runtime.store.store import Store

OF_RED, OF_BLUE = "1" * 12, "2" * 12
"""A session of each team; the one of blue has the name that a session of the server's own home has too."""


class TwoTeams:
    """Teams `red` and `blue` behind the doors of one server, each with a session and a key of an admin."""

    def __init__(self, doors: WalkedDoors) -> None:
        self.doors, self.home = doors, doors.doors.callers.home
        self.teams = {name: teams.create(self.home, name) for name in ("red", "blue")}
        self.keys = {
            name: AccessKeys(team.home.root).create("ci", ["admin"])[1] for name, team in self.teams.items()
        }
        for name, id_ in (("red", OF_RED), ("blue", OF_BLUE)):
            self.add(name, "secret" if name == "red" else "sa", id_)
        self.served = ServedTeams(doors.doors, TOKEN, self._made)

    def add(self, team: str, name: str, id_: str) -> SessionRow:
        store = Store.open(self.teams[team].home.database)
        return store.add_session(name, "image", {}, session_id=id_, state="running")

    def of(self, name: str) -> ServedTeam:
        return self.served._served[name]

    def _made(self, home: Home, secret: str) -> ServedDoors:
        return ServedDoors(home, TOKEN, no_progress, secret=secret)

    def ask(self, *args: Any, **how: Any) -> Any:
        self.doors.app = self.served
        return self.doors.ask(*args, **how)


def run_teams(folder: Path, steps: Callable[[TwoTeams], Awaitable[None]]) -> None:
    async def all_steps(doors: WalkedDoors) -> None:
        both = TwoTeams(doors)
        async with both.served.running():
            await steps(both)

    run(folder, all_steps)

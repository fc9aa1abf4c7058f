"""The beginning and end of teams that several machines share, and the teams here as they are there."""

from __future__ import annotations

import re

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.access import access_keys, name_owners, teams
from holdfast.runtime.cluster.shared_teams import SharedTeams
from holdfast.runtime.store.beside_database import BesideDatabase
from holdfast.runtime.store.shared_rows import QUOTA_FILE, STORE_FILE

_FILES = {access_keys.FILE: access_keys.SCHEMA, name_owners.FILE: name_owners.SCHEMA}
_TABLES = {access_keys.FILE: ("keys", "visits"), name_owners.FILE: ("people",)}
_URL = re.compile(r"postgres(ql)?://\S+")


def join(home: Home, url: str) -> list[str]:
    """Share the teams, keys, people and limits of a home in a PostgreSQL, and keep its address.

    Rows that are there already are taken over, rows that are only here are added. Returns the names of keys
    that were left out, because they are in use there.

    Raises:
        InvalidArgument: the address has a different form, or a different team of the same name is there.
        StoreError: PostgreSQL does not answer, or refuses.
    """
    if not _URL.fullmatch(url):
        raise InvalidArgument(
            "cannot share teams there: that is not the URL of a PostgreSQL",
            hint="for example postgresql://holdfast:PASSWORD@db.example.org/holdfast",
        )
    shared = SharedTeams(home.root, url)
    try:
        left_out = _take_in(shared, home)
        private_files.replace(home.root / STORE_FILE, url)
        teams.match(home, shared.all_teams())
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write {home.root / STORE_FILE}: {error}") from error
    finally:
        shared.close()
    return left_out


def leave(home: Home) -> None:
    """Keep teams in the files of this home alone from now on, as they are.

    Raises:
        InvalidArgument: they are.
    """
    try:
        (home.root / STORE_FILE).unlink()
    except FileNotFoundError:
        raise InvalidArgument("cannot leave: the teams of this home are not shared") from None


def _take_in(shared: SharedTeams, home: Home) -> list[str]:
    shared.make()
    there = {name: secret for name, _, secret in shared.all_teams()}
    here = [team for name in teams.names(home) if (team := teams.find(home, name)) is not None]
    for team in here:
        if there.get(team.name, team.secret) != team.secret:
            raise InvalidArgument(
                f"cannot share teams there: it has a different team named {team.name}",
                hint="remove one of the two, or use a database of its own",
            )
    left_out = []
    for team in here:
        shared.add_team(team.name, team.created_at, team.secret)
    for folder in (home.root, *(team.home.root for team in here)):
        for name, schema in _FILES.items():
            own = BesideDatabase(folder / name, schema)
            with own.reading() as db:
                rows = {
                    table: [tuple(row) for row in db.execute(f"SELECT * FROM {table}")] if db else []  # noqa: S608
                    for table in _TABLES[name]
                }
            if any(rows.values()):
                left_out += shared.add(own, rows)
            own.close()
        if (folder / QUOTA_FILE).exists() and not shared.has_file(folder / QUOTA_FILE):
            shared.put(folder / QUOTA_FILE, (folder / QUOTA_FILE).read_text("utf-8"))
    return left_out

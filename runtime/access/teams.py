"""The teams of a home: each is a home of its own in a folder below, and the same server serves all of them.

A team has its sessions, keys, secrets, snapshots, trail and quota in its own folder, and shares nothing. One
whose mark is missing is being removed, and is not a team any more. Knows no request, and removes no sessions.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.home import TEAM_MARK as MARK
from holdfast.base.home import TEAMS as FOLDER
from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.store.beside_database import origin_of
from holdfast.runtime.store.shared_rows import SharedTeam

LEAVING = "team.removed"
"""The name of the mark while a team is being removed."""
# The mark is written last, and removed first.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class Team:
    """A team, and its home. `secret` is an ingredient of its tokens."""

    name: str
    home: Home
    created_at: float
    secret: str

    @property
    def exists(self) -> bool:
        """Whether it is a team still."""
        return os.access(self.home.below(MARK), os.F_OK)


def find(home: Home, name: str) -> Team | None:
    """Return the team of a name; None if there is none.

    Raises:
        StoreError: its mark cannot be read.
    """
    if not _NAME.fullmatch(name):
        return None
    place = Home(home.below(FOLDER, name))
    path = Path(place.below(MARK))
    try:
        kept = json.loads(path.read_bytes())
        return Team(name, place, float(kept["created_at"]), str(kept["secret"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"cannot read {path}: {error}", hint=f"`holdfast team rm {name}` removes it"
        ) from error


def names(home: Home, mark: str = MARK) -> list[str]:
    """Return the names of all teams; with `LEAVING`, the names of teams that are being removed."""
    with suppress(FileNotFoundError), os.scandir(home.below(FOLDER)) as entries:
        return sorted(
            each.name
            for each in entries
            if _NAME.fullmatch(each.name) and os.access(f"{each.path}/{mark}", os.F_OK)
        )
    return []


def create(home: Home, name: str) -> Team:
    """Make a team. A server of the home serves it from the next request on.

    Raises:
        InvalidArgument: the name is not valid or in use.
        StoreError: its folder cannot be made.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"cannot name a team '{plain(name, 40)}': a name has 1 to 32 of a-z, 0-9 and -",
            hint="for example `holdfast team new research`",
        )
    if os.access(home.below(MARK), os.F_OK):
        raise InvalidArgument("cannot make a team of a team", hint="leave out --team and HOLDFAST_TEAM")
    if os.access(home.below(FOLDER, name), os.F_OK):
        is_leaving = os.access(home.below(FOLDER, name, LEAVING), os.F_OK)
        why = "its removal was cut short" if is_leaving else "it is in use"
        raise InvalidArgument(
            f"cannot make a team named {name}: {why}",
            hint=f"`holdfast team rm {name}` completes the removal"
            if is_leaving
            else "choose a different name",
        )
    created_at, secret = time.time(), secrets.token_hex(32)
    if (origin := origin_of(home.root)) is not None and not origin.add_team(name, created_at, secret):
        raise InvalidArgument(
            f"cannot make a team named {name}: it is in use on another machine",
            hint="choose a different name",
        )
    return _made(home, name, created_at, secret)


def _made(home: Home, name: str, created_at: float, secret: str) -> Team:
    made = Home(home.below(FOLDER, name)).create()
    path = made.root / MARK
    try:
        private_files.replace(path, json.dumps({"created_at": created_at, "secret": secret}))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return Team(name, made, created_at, secret)


def take_over(home: Home, name: str, created_at: float, secret: str) -> None:
    """Make a team here that another machine made. A different one of its name is closed first.

    Raises:
        StoreError: its folder cannot be made or written.
    """
    known = find(home, name)
    if known is not None and known.secret != secret:
        close_here(home, name)
    elif known is None and _NAME.fullmatch(name) and not os.access(home.below(FOLDER, name), os.F_OK):
        _made(home, name, created_at, secret)


def match(home: Home, there: Sequence[SharedTeam] | None = None) -> None:
    """Have teams here that other machines made, and close teams that others removed.

    Args:
        home: of the server.
        there: the teams of all machines; if it is left out, nothing is done until they have changed.

    Raises:
        StoreError: a folder cannot be made or written, or the shared teams cannot be used.
    """
    if there is None:
        origin = origin_of(home.root)
        there = None if origin is None else origin.teams()
        if there is None:
            return
    for name, created_at, secret in there:
        take_over(home, name, created_at, secret)
    for name in set(names(home)) - {name for name, _, _ in there}:
        close_here(home, name)


def close_here(home: Home, name: str) -> None:
    """Let a team be one no more on this machine: its keys open nothing from now on.

    Raises:
        StoreError: its folder cannot be written.
    """
    there = Home(home.below(FOLDER, name))
    with suppress(FileNotFoundError):
        try:
            Path(there.below(MARK)).replace(there.below(LEAVING))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(f"cannot remove team {name}: {error.strerror or error}") from error


def begin_removal(home: Home, name: str) -> Home:
    """Let a team be one no more: its keys open nothing from now on. Return its home, for the rest.

    A removal that was cut short is continued.

    Raises:
        InvalidArgument: the team does not exist.
        StoreError: its folder cannot be written.
    """
    there = Home(home.below(FOLDER, name)) if _NAME.fullmatch(name) else None
    if there is None or not any(os.access(there.below(mark), os.F_OK) for mark in (MARK, LEAVING)):
        raise InvalidArgument(
            f"cannot remove team '{plain(name, 40)}': it does not exist", hint="`holdfast team ls`"
        )
    if (origin := origin_of(home.root)) is not None and os.access(there.below(MARK), os.F_OK):
        origin.remove_team(name)
    close_here(home, name)
    return there


def erase(there: Home) -> None:
    """Remove the folder of a team that has ended, and was left by its sessions and by servers.

    Raises:
        StoreError: it cannot be removed.
    """
    if (origin := origin_of(there.root)) is not None:
        origin.forget_team(there.root.name)
    try:
        for each in sorted(there.root.iterdir(), key=lambda path: path.name == LEAVING):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()
        there.root.rmdir()
    except OSError as error:
        raise StoreError(f"cannot remove {there.root}: {error.strerror or error}") from error

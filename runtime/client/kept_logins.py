"""The logins of a user: for each server, the access key that `holdfast login` got there.

They are in one file of the user's configuration, which other users cannot read. Does not know servers.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument

FILE = "logins.json"


@dataclass(frozen=True, slots=True)
class KeptLogin:
    """One login."""

    url: str
    key: str
    actor: str
    expires_at: float
    """Seconds since 1970."""
    team: str = ""
    """The team that the key is of; empty for the server's own home."""

    @property
    def is_over(self) -> bool:
        """Whether its key has ended."""
        return time.time() >= self.expires_at


def file() -> Path:
    """Return the file; it can be missing."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "holdfast" / FILE


def named(url: str) -> str:
    """Return a URL as it is kept: two spellings of one server are one."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def of(url: str) -> KeptLogin | None:
    """Return the latest login at a server; where a team is named, the login for that team.

    Raises:
        InvalidArgument: other users can read the file.
    """
    return _read().get(_place(url, Home.team_named()))


def keep(login: KeptLogin) -> None:
    """Keep a login in place of an earlier one. Logins for several teams are all kept.

    Raises:
        InvalidArgument: the file cannot be written, or other users can read it.
    """
    _write(_read() | {_place(login.url, ""): login, _place(login.url, login.team): login})


def forget(login: KeptLogin) -> None:
    """Remove a login; raises as `keep` does."""
    _write({place: each for place, each in _read().items() if each.key != login.key})


def _place(url: str, team: str) -> str:
    return f"{named(url)}#{team}" if team else named(url)


def _read() -> dict[str, KeptLogin]:
    path = file()
    try:
        with path.open(encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise InvalidArgument(
                    f"cannot use the logins in {path}: other users can read it", hint=f"chmod 600 {path}"
                )
            told = json.load(opened)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"cannot read the logins in {path}: {error}", hint="remove the file") from error
    found = {}
    for url, fields in told.items() if isinstance(told, dict) else ():
        with suppress(TypeError, ValueError):
            login = KeptLogin(**fields)
            if isinstance(login.key, str) and isinstance(login.expires_at, int | float):
                found[url] = login
    return found


def _write(logins: dict[str, KeptLogin]) -> None:
    path = file()
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        private_files.replace(path, json.dumps({url: asdict(each) for url, each in logins.items()}, indent=1))
    except OSError as error:
        raise InvalidArgument(f"cannot keep the login in {path}: {error.strerror}") from error

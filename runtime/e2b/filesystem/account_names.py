"""Names of the users and groups that own files, as the session's own tables tell them.

The tables are the session's: what they say is only shown, and never decides about rights.
"""

from __future__ import annotations

import re

from holdfast.errors import SessionFileError
from holdfast.runtime.api.session_files import SessionFiles

MOST = 256 << 10
"""Bytes of a table that are read."""
_NAME = re.compile(rb"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,31}):[^:\n]*:(\d{1,10})(?::|$)", re.MULTILINE)


class AccountNames:
    """The names in a session; a table is read when the first of its names is asked for."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._tables: dict[str, dict[int, str]] = {}

    def user(self, uid: int) -> str:
        """Return the name of a user, or the number of one that has none."""
        return self._name("/etc/passwd", uid)

    def group(self, gid: int) -> str:
        """Return the name of a group, or the number of one that has none."""
        return self._name("/etc/group", gid)

    def _name(self, table: str, number: int) -> str:
        if number == 0:
            return "root"  # most files are root's: the tables are seldom needed
        if table not in self._tables:
            self._tables[table] = self._read(table)
        return self._tables[table].get(number, str(number))

    def _read(self, table: str) -> dict[int, str]:
        try:
            return names_in(self._files.read(table, 0, MOST))
        except SessionFileError:  # it is missing, or something else than a file
            return {}


def names_in(table: bytes) -> dict[int, str]:
    """Return the names in a table like passwd(5) and group(5), by number; the first of a number counts."""
    found: dict[int, str] = {}
    for line in _NAME.finditer(table):
        found.setdefault(int(line[2]), line[1].decode())
    return found

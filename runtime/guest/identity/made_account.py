"""Makes a user account in the session's own tables, as `useradd` does: an image can lack that program.

Owns which lines and folders an account is, and the workspace's owner. Whatever the tables have, they are
the session's: a line there gives rights in its container alone. An existing account stays as the image has
it, except for a missing home and sudo. Of folders, only unmounted ones are given away: a mounted one is the
host's, or a volume of others.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdfast.runtime.guest.identity.account import UserAccount

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
LARGEST = 1 << 20
"""Bytes of a table that is changed; larger ones are refused."""
FIRST, LAST = 1000, 59_999
"""The numbers of people's accounts (useradd(8)); the first that no user and no group has is taken."""
_RULE = "90-holdfast-{}"
_SHELLS = ("/bin/bash", "/bin/sh")
_DEVICE, _PART, _MOUNT_POINT = 2, 3, 4
"""Places among the fields of a line: of the mounted folder, and of its path (proc_pid_mountinfo(5))."""


class CannotMakeAccount(Exception):
    """The account cannot be made. The message says why."""


def make(name: str, root: Path = Path("/")) -> UserAccount:
    """Return the account of that name, made if there is none, with a home, and sudo where the image has it.

    Raises:
        CannotMake: the name or a table has another form, or the kernel refuses.
    """
    if not NAME.fullmatch(name):
        raise CannotMakeAccount("its name must be lower-case letters, digits, `-` and `_`")
    try:
        found = _listed(name, root / "etc/passwd") or _added(name, root)
        _give_home(found, root)
        _allow_sudo(name, root)
    except OSError as error:
        raise CannotMakeAccount((error.strerror or str(error)).lower()) from None
    return found


def _added(name: str, root: Path) -> UserAccount:
    etc = root / "etc"
    etc.mkdir(mode=0o755, exist_ok=True)
    users, groups = _Table(etc / "passwd"), _Table(etc / "group")
    taken = users.numbers() | groups.numbers()
    uid = next((number for number in range(FIRST, LAST) if number not in taken), None)
    if uid is None:
        raise CannotMakeAccount("all numbers for it are taken")
    gid = next((number for number in groups.numbers_of(name) if number > 0), uid)
    shell = next((each for each in _SHELLS if (root / each[1:]).exists()), _SHELLS[-1])
    home = f"/home/{name}"
    if gid == uid:
        groups.add(f"{name}:x:{gid}:", 0o644)
    shadow = _Table(etc / "shadow")
    if shadow.there and not shadow.has(name):  # sudo asks there whether the account is still valid
        shadow.add(f"{name}:!:19000:0:99999:7:::", 0o640)
    users.add(f"{name}:{'x' if shadow.there else '*'}:{uid}:{gid}::{home}:{shell}", 0o644)
    return UserAccount(name, uid, gid, home, shell)


def _listed(name: str, table: Path) -> UserAccount | None:
    """Return the account in a table like passwd(5); None if there is none."""
    for row in _Table(table).rows():
        if row[:1] == [name] and len(row) >= 7 and row[2].isdecimal() and row[3].isdecimal():
            return UserAccount(name, int(row[2]), int(row[3]), row[5], row[6])
    return None


def _give_home(account: UserAccount, root: Path) -> None:
    """Make its home, unless the path exists; an existing link and its target stay.

    An image can name any folder as the home of its own account, such as /etc: that is not given to it.
    """
    if account.home != f"/home/{account.name}":
        return
    home = root / account.home.lstrip("/")
    with suppress(FileExistsError):
        home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        home.mkdir(mode=0o755)
    give_workspace(home, account)


def _allow_sudo(name: str, root: Path) -> None:
    """Let it use sudo without a password, if the image has rules for sudo in a folder."""
    rules = root / "etc/sudoers.d"
    if rules.is_symlink() or not rules.is_dir():
        return
    rule = rules / _RULE.format(name)
    if not os.path.lexists(rule):
        _replace(rule, f"{name} ALL=(ALL:ALL) NOPASSWD: ALL\n".encode(), 0o440, None)


class _Table:
    """A file like passwd(5): lines of fields between colons, of any bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state, self._content = _read(path)

    @property
    def there(self) -> bool:
        """True if the image has it."""
        return self._state is not None

    def rows(self) -> Iterable[list[str]]:
        """Yield the fields of each line."""
        for line in self._content.decode("utf-8", "surrogateescape").split("\n"):
            yield line.split(":")

    def has(self, name: str) -> bool:
        """Return whether there is a line of that name."""
        return any(row[0] == name for row in self.rows())

    def numbers(self) -> set[int]:
        """Return the numbers of all."""
        return {int(row[2]) for row in self.rows() if _is_number(row)}

    def numbers_of(self, name: str) -> list[int]:
        """Return the numbers of a name."""
        return [int(row[2]) for row in self.rows() if row[0] == name and _is_number(row)]

    def add(self, line: str, mode: int) -> None:
        """Add a line; the file has `mode` if it is new."""
        content = (
            self._content if self._content.endswith(b"\n") or not self._content else self._content + b"\n"
        )
        _replace(self._path, content + f"{line}\n".encode(), mode, self._state)


def _is_number(row: list[str]) -> bool:
    return len(row) > 2 and bool(re.fullmatch(r"[0-9]{1,10}", row[2]))


def _read(path: Path) -> tuple[os.stat_result | None, bytes]:
    """Return the state and content of a table, None and nothing if there is none; a link is followed."""
    try:
        # Not a FIFO's other end is waited for, nor a terminal taken.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, b""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise CannotMakeAccount(f"{path.name} is not a file of at most {LARGEST >> 20} MiB")
        return found, os.read(descriptor, LARGEST)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes, mode: int, before: os.stat_result | None) -> None:
    """Put a new file in the place of another, or of a link; readers see either."""
    part = path.with_name(f".{path.name}.holdfast")
    with suppress(FileNotFoundError):
        part.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
        file.write(content)
        if before is not None and os.getuid() == 0:
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        os.fchmod(file.fileno(), mode if before is None else stat.S_IMODE(before.st_mode) & 0o777)
    part.replace(path)


def give_workspace(folder: Path, account: UserAccount, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Let the user write in the folder if it is root's; leave anything else, and mounts, alone."""
    if not account.foreign or str(folder) in _mounted(mounts.read_bytes()):
        return
    with suppress(OSError):  # an image may have something else there, such as a broken link
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)


def _mounted(table: bytes) -> set[str]:
    """Return where something is mounted. Escaped names do not occur in the path of a workspace.

    Below a read-only root, folders that are writable are mounts of the session's own files.
    """
    rows = [line.split() for line in table.decode("utf-8", "surrogateescape").splitlines()]
    own = {(row[_DEVICE], row[_PART].rstrip("/")) for row in rows if row[_MOUNT_POINT:][:1] == ["/"]}
    return {
        row[_MOUNT_POINT]
        for row in rows
        if len(row) > _MOUNT_POINT
        and not any((row[_DEVICE], row[_PART]) == (device, part + row[_MOUNT_POINT]) for device, part in own)
    }

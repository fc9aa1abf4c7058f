"""The user account of shells and kernels, the environment they begin with, and the bash that they find.

An image that was not made for sessions can lack bash, or have one that cannot load the builtin that marks
prompts: then a portable guest's own bash is used.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.base.value_classes import dataclass, replace

OOM_SCORE = "500"
"""Score that has the kernel kill the session's processes for memory before the supervisor."""
MOST = 2**32 - 2
"""The highest number of a user: the kernel takes the next one for `leave it as it is` (setreuid(2))."""
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_PROGRAMS = "/opt/holdfast/bin"
OWN = f"{OWN_PROGRAMS}/bash"
USUAL = "/bin/bash"
_OWN_TERMINALS = "/opt/holdfast/share/terminfo"
_TERMINALS = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo")
_TERMINAL = "x/xterm-256color"


@dataclass(frozen=True, slots=True)
class UserAccount:
    """A user of the container. `shell` is the program that `SHELL` names."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @classmethod
    def of(cls, user: str | None) -> UserAccount:
        """Return the user of that name or number, or the supervisor's own.

        Raises:
            LookupError: no such user.
        """
        if user is None:
            return cls._numbered(os.getuid(), None)
        uid, _, gid = user.partition(":")
        if uid.isdecimal():
            return cls._numbered(int(uid), int(gid) if gid else None)
        try:
            return cls._from(pwd.getpwnam(user))
        except (KeyError, ValueError):  # some texts cannot be names
            raise LookupError(f"cannot run as {user}: no such user") from None

    @classmethod
    def _numbered(cls, uid: int, gid: int | None) -> UserAccount:
        """Return the user of that number; an unlisted user has group 0 and no home."""
        if max(uid, gid or 0) > MOST:
            raise LookupError(f"cannot run as {uid}: no such user")
        try:
            found = cls._from(pwd.getpwuid(uid))
        except KeyError:
            found = cls("root", 0, 0, "/root", "") if uid == 0 else cls(str(uid), uid, 0, "/", "")
        return found if gid is None else replace(found, gid=gid)

    @classmethod
    def _from(cls, entry: pwd.struct_passwd) -> UserAccount:
        # Some have a program there that keeps them from logging in.
        shell = entry.pw_shell if entry.pw_shell.endswith("sh") else ""
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, shell)

    @property
    def foreign(self) -> bool:
        """True if processes must change their user to become this one's."""
        return self.uid != os.getuid()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the container's environment, plus the variables that a login would add."""
        env = {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8", **base}
        if self.foreign:
            env.update(HOME=self.home)
        env.setdefault("HOME", self.home)
        env.update(USER=self.name, LOGNAME=self.name)
        env["SHELL"] = self.shell or bash()
        return env

    def groups(self) -> list[int]:
        """Return the ids of all groups the user is in."""
        return os.getgrouplist(self.name, self.gid)

    def become(self) -> None:
        """Change this process to the user irrevocably, in a forked child."""
        if self.foreign:
            os.initgroups(self.name, self.gid)
            os.setgid(self.gid)
            os.setuid(self.uid)

    def own(self, *paths: Path) -> None:
        """Give files to the user."""
        if self.foreign:
            for path in paths:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


def working_directory(wanted: Path, account: UserAccount) -> str:
    """Return the directory to start in: the wanted one, else the user's home, else the root."""
    for path in (wanted, Path(account.home)):
        if path.is_dir():
            return str(path)
    return "/"


def expose_to_oom(pid: int) -> None:
    """Make a process and its children likelier to be killed for memory. Harmless where refused."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(OOM_SCORE)
    except OSError:
        return


def bash() -> str:
    """Return the path of the bash that shells, jobs and checks run."""
    return OWN if os.access(OWN, os.X_OK) else USUAL


def runnable(argv: Sequence[str]) -> list[str]:
    """Return the words of a program, with our bash in place of one that the image lacks."""
    if argv and argv[0] == USUAL and not os.access(USUAL, os.X_OK):
        return [bash(), *argv[1:]]
    return list(argv)


def describe_terminal(env: dict[str, str]) -> None:
    """Add the location of terminal descriptions, for an image that lacks them: terminfo(5)."""
    described = any(os.access(f"{each}/{_TERMINAL}", os.R_OK) for each in _TERMINALS)
    if not described and os.access(_OWN_TERMINALS, os.X_OK):
        env.setdefault("TERMINFO_DIRS", f":{_OWN_TERMINALS}")

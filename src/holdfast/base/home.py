"""Paths of the state that Holdfast keeps on this host.

Knows the names of folders and files, and creates them closed to other users. The contents of the files
belong to their owners: the store, the snapshots, the guest client.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import cached_property

from holdfast.base import ballast
from holdfast.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = (
    "snapshots",
    "staging",
    "intents",
    "locks",
    "run",
    "chunks",
    "checkpointer",
    "scratch",
    "init",
    "metrics",
)
"""Folders made together with the home, so that no module makes their parents later with another mode."""
TEAMS, TEAM_MARK = "teams", "team.json"
"""The folder of teams in a home, and the file that makes a folder in it the home of a team."""
_HINT = "set HOLDFAST_HOME to a folder of your own"


class Home:
    """One state directory; two of the same place are equal.

    Paths are also available as text (`place`, `below`): frequent commands need few of them, and pathlib takes
    longer to load than those take.

    holdfast.db          sessions, snapshots, operations
    run/<session id>/    contains the one folder of this host that a session sees, at /run/holdfast
    snapshots/<id>/      manifest and process images of a snapshot
    staging/<operation>/ what is being written; renamed or removed when the operation ends
    scratch/             the checkpointer's, while restores read snapshots
    checkpointer/        sockets of checkpointers
    init/                programs of sessions' first processes, by image and digest
    intents/             one file per session: calls about to be made under a key, and their outcomes
    metrics/             one file per session: its use of the machine in the last day
    downloads/, uploads/ transfers from or to a registry that were cut off
    artifacts/           files that sessions have produced: contents by digest, and an index
    gateway/             rules of sessions with secrets or domains: policies, values of secrets, the authority
    pool.*               how many sessions wait to be handed over, and the process that makes them
    ballast              room that is released when the disk is full, so that things can be removed
    serving/             servers that run now: where links of previews begin
    ssh/                 the key that opens sessions by ssh, and the keys of sessions
    teams/               homes of teams, which a server of this home serves as well
    locks/               lock files
    errors.log           tracebacks of unexpected errors, without secrets
    """

    team = ""
    """The team that the command line names."""

    def __init__(self, root: Path | str) -> None:
        """Name the home at an absolute path; `at` takes any path."""
        self.place = os.fspath(root)
        """The path of the directory."""

    def __eq__(self, other: object) -> bool:
        return self.place == other.place if isinstance(other, Home) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.place)

    def __repr__(self) -> str:
        return f"Home({self.place!r})"

    @cached_property
    def root(self) -> Path:
        """Return the directory."""
        from pathlib import Path

        return Path(self.place)

    @classmethod
    def at(cls, where: Home | Path | str | None) -> Home:
        """Return the home at a path; the default home without one."""
        if where is None:
            return cls.default()
        return where if isinstance(where, Home) else cls(_place(os.fspath(where)))

    def below(self, *names: str) -> str:
        """Return the path of an entry of the home."""
        return "/".join((self.place, *names))

    @classmethod
    def default(cls) -> Home:
        """Return the home that this process works in: a team's, if a team is named, else its own.

        Raises:
            StoreError: such a place, or the team, does not exist.
        """
        own, team = cls.own(), cls.team_named()
        if not team:
            return own
        there = own.below(TEAMS, team)
        if "/" in team or not os.access(f"{there}/{TEAM_MARK}", os.F_OK):
            raise StoreError(f"cannot find team {team[:40]!r}", hint="`holdfast team ls`")
        return cls(there)

    @classmethod
    def team_named(cls) -> str:
        """Return the team that the command line or HOLDFAST_TEAM names; empty for none."""
        return cls.team or os.environ.get("HOLDFAST_TEAM", "")

    @classmethod
    def own(cls) -> Home:
        """Return the home named by HOLDFAST_HOME, else `holdfast` below the XDG state directory.

        Raises:
            StoreError: there is no such place: no folder of this user is known, or the current one is gone.
        """
        if chosen := os.environ.get("HOLDFAST_HOME"):
            return cls(_place(chosen))
        state = os.environ.get("XDG_STATE_HOME") or ""
        if not state.startswith("/"):  # the XDG specification has relative paths ignored
            state = f"{_folder_of_user()}/.local/state"
        return cls(f"{_place(state)}/holdfast")

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.root / "holdfast.db"

    @property
    def snapshots(self) -> Path:
        """Parent of one folder per snapshot."""
        return self.root / "snapshots"

    @property
    def staging(self) -> Path:
        """Parent of one folder per unfinished operation."""
        return self.root / "staging"

    @property
    def init(self) -> Path:
        """Parent of the programs that containers of sessions start with."""
        return self.root / "init"

    @property
    def gateway(self) -> Path:
        """Parent of the rules of sessions with secrets or domains; made for the first of them."""
        return self.root / "gateway"

    @property
    def has_gateway(self) -> bool:
        """True if a session of this home has ever needed the gateway."""
        return self.gateway.exists()

    @property
    def has_unpacked(self) -> bool:
        """True if the packer of snapshots has work to do."""
        return os.access(self.below("chunks", "todo"), os.F_OK)

    @property
    def intents(self) -> Path:
        """Parent of one file per session that has run anything under a key."""
        return self.root / "intents"

    @property
    def metrics(self) -> Path:
        """Parent of one file per session that a server has sampled."""
        return self.root / "metrics"

    @property
    def locks(self) -> Path:
        """Parent of the lock files."""
        return self.root / "locks"

    @property
    def run(self) -> Path:
        """Parent of one folder per session."""
        return self.root / "run"

    def run_dir(self, session_id: str) -> Path:
        """Return the folder shared with a session, which the guest can write: open nothing there by path."""
        return self.run / session_id / "room" / "shared"

    def shared_folder(self, session_id: str) -> str:
        """Return the path of that folder."""
        return self.below("run", session_id, "room", "shared")

    @property
    def digest(self) -> str:
        """12 hex digits that distinguish this home's containers from another's on the same engine."""
        import hashlib

        return hashlib.sha256(os.fsencode(os.path.realpath(self.place))).hexdigest()[:12]

    def create(self) -> Home:
        """Make missing folders, readable by this user only.

        Raises:
            StoreError: a folder cannot be made, its file system lacks something, or other users could
                write to the home.
        """
        try:
            if not os.access(self.place, os.F_OK):
                # Path.mkdir would give its mode to the last folder only
                for folder in reversed((self.root, *self.root.parents)):
                    folder.mkdir(mode=0o700, exist_ok=True)
            self._check_owner()
            if not os.access(self.below("holdfast.db"), os.F_OK):
                self._try_filesystem()
            for name in FOLDERS:
                if not os.path.isdir(self.below(name)):  # noqa: PTH112
                    (self.root / name).mkdir(mode=0o700, exist_ok=True)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"cannot use state directory {self.place}: {error.strerror or error}",
                hint="make room there, or set HOLDFAST_HOME to a folder on another disk"
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else "make it writable, or set HOLDFAST_HOME to a writable folder",
            ) from error
        ballast.keep(self.place)
        return self

    def _check_owner(self) -> None:
        """Refuse a home that other users can write to; close it if they can read it."""
        status = os.stat(self.place)  # noqa: PTH116
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid():
            raise StoreError(
                f"cannot use state directory {self.root}: it belongs to user {status.st_uid}",
                hint="set HOLDFAST_HOME to a folder of your own",
            )
        if mode & 0o022:
            import shlex

            self._try_filesystem()  # without permissions, chmod would not help
            raise StoreError(
                f"cannot use state directory {self.root}: other users can write to it (mode {mode:04o})",
                hint=f"check its contents, then `chmod 700 {shlex.quote(str(self.root))}`",
            )
        if mode & 0o077:
            # Only a home, or an empty folder that becomes one, is closed: others may be meant to be read.
            if not self.database.exists() and any(self.root.iterdir()):
                raise StoreError(
                    f"cannot use state directory {self.root}: it holds unrelated files that other "
                    "users can read",
                    hint="set HOLDFAST_HOME to a new folder",
                )
            self.root.chmod(0o700)

    def _try_filesystem(self) -> None:
        from holdfast.base import home_filesystem  # only a new home needs it

        home_filesystem.require(self.root)


def _folder_of_user() -> str:
    """Return the folder of this user: HOME, else that of the account.

    Raises:
        StoreError: neither is known.
    """
    if (home := os.environ.get("HOME") or "").startswith("/"):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise StoreError(
            "cannot find a state directory: HOME is not set, and this user has no account here", hint=_HINT
        ) from None


def _place(given: str) -> str:
    """Return an absolute path that the database, the engine and messages can name.

    Raises:
        StoreError: the path cannot be resolved, or is not plain text.
    """
    text = given if _is_absolute(given) else _made_absolute(given)
    if not text.isprintable() or _is_broken(text):
        raise StoreError(f"cannot use state directory {text!r}: its name is not plain text", hint=_HINT)
    return text


def _is_absolute(path: str) -> bool:
    """Check whether pathlib would leave a path unchanged, as it does for most paths."""
    parts = path.split("/")
    return len(parts) > 1 and not parts[0] and all(part not in ("", ".") for part in parts[1:])


def _made_absolute(given: str) -> str:
    from pathlib import Path

    path = Path(given)
    try:
        return str(path.expanduser().absolute())
    except RuntimeError as error:
        raise StoreError(f"cannot use state directory {path}: no such user", hint=_HINT) from error
    except OSError as error:
        raise StoreError(
            f"cannot use state directory {path}: the current directory was removed", hint=_HINT
        ) from error


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False

"""Where Holdfast keeps its state on this host, as paths.

Knows names of folders and files, and creates them closed to other users.  What is in the files belongs
to their owners: the store, the snapshots, the guest client.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import ballast
from holdfast.errors import StoreError

FOLDERS = ("snapshots", "staging", "intents", "locks", "run", "chunks", "checkpointer", "scratch", "init")
"""Made with the home: whoever needs one later makes no parent of it, with whatever mode."""


@dataclass(frozen=True)
class Home:
    """One state directory.

    holdfast.db          sessions, snapshots, operations
    run/<session id>/    in it, the one folder a session sees of this host, at /run/holdfast
    snapshots/<id>/      manifest and process images of a snapshot
    staging/<operation>/ what is being written; renamed or removed when the operation ends
    scratch/             the checkpointer's, while restores read snapshots
    checkpointer/        sockets of checkpointers
    init/                programs of sessions' first processes, by image and digest
    intents/             one file per session: what was about to be run under a key, and what it came to
    downloads/, uploads/ what was on its way from or to a registry when it was cut off
    gateway/             what sessions with secrets or domains may: policies, values of secrets, the authority
    ballast              room that is given up when the disk is full, so that something can be removed
    locks/               one file per thing that only one process may do at a time
    """

    root: Path

    @classmethod
    def at(cls, where: Home | Path | str | None) -> Home:
        """The home meant; `default` if that is not said."""
        if where is None:
            return cls.default()
        return where if isinstance(where, Home) else cls(Path(where).absolute())

    @classmethod
    def default(cls) -> Home:
        """The directory named by HOLDFAST_HOME, else `holdfast` under the XDG state directory."""
        if chosen := os.environ.get("HOLDFAST_HOME"):
            return cls(Path(chosen).expanduser().absolute())
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return cls(Path(state).expanduser().absolute() / "holdfast")

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
        """Parent of the programs that sessions' containers are started with."""
        return self.root / "init"

    @property
    def gateway(self) -> Path:
        """Parent of what sessions with secrets or domains may do; made for the first of them."""
        return self.root / "gateway"

    @property
    def has_gateway(self) -> bool:
        """Whether any session of this home needed the gateway; else nothing of it has to be looked at."""
        return self.gateway.exists()

    @property
    def intents(self) -> Path:
        """Parent of one file per session in which something was run under a key."""
        return self.root / "intents"

    @property
    def locks(self) -> Path:
        """Parent of the lock files."""
        return self.root / "locks"

    @property
    def run(self) -> Path:
        """Parent of one folder per session."""
        return self.root / "run"

    def run_dir(self, session_id: str) -> Path:
        """The folder shared with a session. The guest can write there: open nothing in it by plain path."""
        return self.run / session_id / "room" / "shared"

    @property
    def digest(self) -> str:
        """12 hex digits that tell containers of this home from those of another on the same engine."""
        return hashlib.sha256(os.fsencode(os.path.realpath(self.root))).hexdigest()[:12]

    def create(self) -> Home:
        """Make the folders that are missing, readable by this user only.

        Raises:
            StoreError: a folder cannot be made, or other users could write to the home.
        """
        try:
            if not self.root.exists():  # Path.mkdir would give its mode to the last folder only
                for folder in reversed((self.root, *self.root.parents)):
                    folder.mkdir(mode=0o700, exist_ok=True)
            self._check_owner()
            for folder in map(self.root.joinpath, FOLDERS):
                folder.mkdir(mode=0o700, exist_ok=True)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"cannot use state directory {self.root}: {error.strerror or error}",
                hint="make it writable, or set HOLDFAST_HOME to a folder that is",
            ) from error
        ballast.keep(self.root)
        return self

    def _check_owner(self) -> None:
        """See that nobody else can put files into the home; close it if others may read it."""
        status = self.root.stat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid():
            raise StoreError(
                f"cannot use state directory {self.root}: it belongs to user {status.st_uid}",
                hint="set HOLDFAST_HOME to a folder of your own",
            )
        if mode & 0o022:
            raise StoreError(
                f"cannot use state directory {self.root}: others may write to it (mode {mode:04o})",
                hint=f"see what is in it, then `chmod 700 {shlex.quote(str(self.root))}`",
            )
        if mode & 0o077:
            # Only what is a home, or may become one: a folder that others are meant to read is not closed.
            if not self.database.exists() and any(self.root.iterdir()):
                raise StoreError(
                    f"cannot use state directory {self.root}: it holds other files, which others may read",
                    hint="set HOLDFAST_HOME to a new folder",
                )
            self.root.chmod(0o700)

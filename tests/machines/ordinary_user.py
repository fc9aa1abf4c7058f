"""Commands of this checkout, run by an ordinary user who is in the group of the engine's socket."""

from __future__ import annotations

import os
from pathlib import Path

UID = 4321
"""A number that is not in use: an account is not needed, and none is made."""
SOCKET = Path("/var/run/docker.sock")


def prefix(uid: int = UID) -> list[str]:
    """Return the words that come before a command for this user to run it."""
    # The interpreter may be in a folder of root's: reading it is added to an ordinary user's rights.
    rights = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", f"--groups={SOCKET.stat().st_gid}", *rights]


def home_folder(at: Path, uid: int = UID) -> Path:
    """Make a folder that belongs to this user alone, and return it."""
    at.mkdir(mode=0o700)
    os.chown(at, uid, uid)
    return at

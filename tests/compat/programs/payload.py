"""The files of the programs, and their transfer into a session."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import SessionError

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session

FILES = Path(__file__).resolve().parent / "inside"
# In a session: the files, and below it a folder for each program to work in.
INSIDE = "/srv/programs"
_SECONDS = 60.0


def packed() -> bytes:
    """Return all files as a compressed archive."""
    from holdfast.images.build_context import BuildContext, tree

    return gzip.compress(BuildContext("programs", dict(tree(FILES, "inside"))).tar(), mtime=0)


def put(session: Session) -> None:
    """Unpack the files in a session.

    Raises:
        SessionError: they could not be written there.
    """
    text = base64.encodebytes(packed()).decode()
    command = f"mkdir -p {INSIDE} && base64 -d <<'END' | tar -xz -C {INSIDE}\n{text}END"
    done = session.exec(command, timeout=_SECONDS)
    if not done.ok:
        raise SessionError(f"cannot put the programs' files into the session: {plain(done.text[-300:])}")


def framed(name: str, command: str) -> str:
    """Return a command as it runs for a program: in its folder, with the common functions."""
    return (
        f"mkdir -p {INSIDE}/{name}; cd {INSIDE}/{name}; INSIDE={INSIDE}/inside; . $INSIDE/lib.sh\n{command}"
    )


def apart(name: str, command: str) -> str:
    """Return the same in a shell of its own, which leaves the calling shell unchanged."""
    return f"(\n{framed(name, command)}\n)"

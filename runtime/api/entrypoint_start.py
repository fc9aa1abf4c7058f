"""Runs an image's own ENTRYPOINT with CMD as a job of a session: only when asked for.

The job has a terminal of its own, and the image's user, folder and variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base import shell_words
from holdfast.errors import ImageError
from holdfast.runtime.store.rows import FITTED

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.operations.context import Context

NAME = "entrypoint"
"""What the job is called."""


def command(config: Mapping[str, Any]) -> list[str]:
    """Return the program of an image's configuration, with its arguments; empty if it has none."""
    return [str(word) for key in ("Entrypoint", "Cmd") for word in config.get(key) or ()]


def begin(context: Context, session: Session) -> None:
    """Start it in a new session, which is removed if its image has none.

    Raises:
        ImageError: it has none.
        SessionError, GuestError: the job could not be started.
    """
    try:
        argv = command(context.engine.images.config(session.row.image) or {})
        of_sessions = not session.row.image.startswith(FITTED)  # its entrypoint is what sessions run
        if not argv or of_sessions:
            raise ImageError(
                f"cannot run the entrypoint of {session.image}: it has none", hint="leave it out"
            )
        session.detach(f"exec {shell_words.join(argv)}", name=NAME)
    except BaseException:
        session.remove()
        raise

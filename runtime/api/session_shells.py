"""The shells of a session beside the main one: listed, opened, closed.

What is done in a shell (`exec`, `send`, `screen`, `attach`) belongs to the session and its terminals, which
take the shell's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.guest_rpc import call_arguments

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.guest_rpc.shell_report import ShellInfo


class SessionShells:
    """The shells of one session. `main` is always there; others last until they are closed."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    def list(self) -> tuple[ShellInfo, ...]:
        """Return all shells, the main one first.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.shell_report import Shells

        return Shells.of(self._line.request("hello").head).shells

    def open(self, name: str, *, rows: int | None = None, cols: int | None = None) -> ShellInfo:
        """Open a shell, or return the one of that name that is open already.

        It is a bash of its own, with its own terminal, directory, variables, jobs, lease and recording, and
        is captured, restored and forked with the session. A restore without processes has the main one only.

        Args:
            name: up to 40 letters, digits, `-` and `_`.
            rows: height of its terminal in characters; 40 by default.
            cols: width of its terminal in characters; 120 by default.

        Raises:
            InvalidArgument: the name or the size is not valid.
            GuestError: there are 16 already.
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.shell_report import reported

        given = call_arguments.text(name, "shell")
        return reported(self._line.request("shell_open", shell=given, rows=rows, cols=cols).head)

    def close(self, name: str, *, force: bool = False) -> None:
        """End a shell and what has its terminal, and forget its output; programs it started in the background
        and made immune to hangups continue.

        Args:
            name: any but `main`.
            force: also if a command runs in it, or others use it.

        Raises:
            ShellNotFound: the session has no shell of that name.
            SessionBusy: a command runs in it, or others use it.
            InvalidArgument: it is the main one.
            SessionDead, SessionError: the session cannot be used.
        """
        self._line.request("shell_close", shell=call_arguments.text(name, "shell"), force=force)

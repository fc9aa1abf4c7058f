"""A handle on the terminal of one of a session's shells: its screen, its input, its holder.

It holds no state that matters, like `session.Session`; the results of commands are not its business.
"""

from __future__ import annotations

from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments, typing_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.attachment.attach import Attachment, PersonTerminal
    from holdfast.runtime.attachment.terminal_link import TerminalLink
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.results import Screen
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo
    from holdfast.runtime.history.recording.recording import Recording


class SessionTerminal:
    """The terminal of one shell."""

    def __init__(self, line: SessionChannel, shell: str = defaults.MAIN) -> None:
        self._line = line
        self.shell = shell

    def __repr__(self) -> str:
        return f"<SessionTerminal {self.shell}>"

    def info(self) -> ShellInfo:
        """Return the state of the shell, as the supervisor reports it."""
        from holdfast.runtime.guest_rpc.shell_report import shell_info

        with self._line.explained():
            return self._line.reconnection().run(lambda: shell_info(self._line.client(), self.shell))

    def screen(self) -> Screen:
        """Return the current screen of the terminal."""
        from holdfast.runtime.attachment.screen_state import shown, view

        with self._line.explained():
            found = self._line.reconnection().run(lambda: view(self._line.client(), self.shell))
        return shown(found.terminal)

    def lease(self) -> Lease:
        """Return the holder of the shell, and the attached viewers."""
        return self._lease("show")

    def take(self, seconds: float | None = None, *, force: bool = False) -> Lease:
        """Hold the shell for a time (15 minutes by default), as the actor of the controller.

        Raises:
            SessionBusy: another actor holds it; with `force` it is taken from them, and that is
                journalled.
        """
        return self._lease("take", seconds=seconds, force=force)

    def give_back(self) -> Lease:
        """Release the shell.

        Raises:
            SessionBusy: another actor holds it.
        """
        return self._lease("return")

    def give(self, to: str, seconds: float | None = None) -> Lease:
        """Hand the shell over, to an actor such as `person:alice` or `agent`.

        Raises:
            InvalidArgument: the actor is not valid.
            SessionBusy: another actor holds it.
        """
        return self._lease("give", to=to, seconds=seconds)

    def _lease(self, action: str, **args: Any) -> Lease:
        from holdfast.runtime.guest_rpc.shell_report import lease

        return lease(self._line.request("lease", shell=self.shell, action=action, **args).head)

    def send(self, text: str | bytes) -> None:
        """Type text, as it is.

        Raises:
            InvalidArgument: a line of it is longer than the terminal takes, 4095 bytes, and a program
                reads lines from it; the rest would be lost.
        """
        typing_input.send(self._line, "send", call_arguments.typed(text, "text"), shell=self.shell)

    def send_keys(self, *names: str) -> None:
        """Press keys, named as in `C-c`, `Enter`, `Up`.

        Raises:
            InvalidArgument: no key has that name.
        """
        from holdfast.runtime.terminal.key_names import keys

        self.send(keys(names))

    def recording(self, start: str | None = None, end: str | None = None) -> Recording:
        """Return its recording, to be played or written as a cast; also of an ended session, if it was kept.

        Args:
            start: a place: an offset of the output, a time (ISO 8601, or `10m` for ten minutes ago), or a
                snapshot from the history of the session. By default where the kept output begins.
            end: a place; by default now.

        Raises:
            SessionError: the session does not run, and nothing of it is kept.
            InvalidArgument: the place is not valid, or nothing was shown between them.
        """
        from holdfast.runtime.history.recording import recording_source
        from holdfast.runtime.history.recording.recording import Recording

        context, row = self._line.context, self._line.row
        places = [
            None if text is None else recording_source.place(context, row, text, self.shell)
            for text in (start, end)
        ]
        return Recording(recording_source.source(self._line, self.shell), *places, title=row.name)

    def link(
        self,
        *,
        rows: int = defaults.DEFAULT_ROWS,
        cols: int = defaults.DEFAULT_COLUMNS,
        start: int | None = None,
        tail: int = 0,
        view: bool = False,
        take: bool = False,
        patience: Patience | None = None,
    ) -> TerminalLink:
        """Return a link by which a program shows the terminal and types into it; its `run` follows.

        An actor of the kind `person` holds the shell while it is linked, unless another does.

        Args:
            rows: of the program's terminal, like `cols`.
            cols: see `rows`.
            start: offset of the output to begin with; by default its end, less `tail` bytes.
            tail: see `start`.
            view: only watch.
            take: take the shell from its holder.
            patience: another thread ends the link with it.
        """
        from holdfast.runtime.attachment.terminal_link import TerminalLink

        return TerminalLink(
            (self._line if view else self._line.awake()).client(),
            self._line.reconnection(),
            shell=self.shell,
            size=(rows, cols),
            start=start,
            tail=tail,
            view=view,
            take=take,
            patience=patience,
        )

    def attach(
        self,
        *,
        detach_key: str = "C-]",
        read_only: bool = False,
        take: bool = False,
        unfiltered: bool = False,
        status: bool = True,
    ) -> str:
        """Connect this process's terminal to it until the detach key is pressed (`detached`).

        A person who attaches holds the shell, unless another does, until they leave. Others watch.

        Args:
            detach_key: named as for `send_keys`.
            read_only: watch, and hold nothing.
            take: take the shell from its holder.
            unfiltered: pass on the session's output unchanged: it can set this terminal's clipboard,
                and make it send replies that count as typed.
            status: show a line at the bottom with the people here, the holder and waits for input.

        Raises:
            InvalidArgument: this process does not have a terminal.
        """
        from holdfast.runtime.attachment.own_terminal import OwnTerminal

        how = {
            "detach_key": detach_key,
            "read_only": read_only,
            "take": take,
            "unfiltered": unfiltered,
            "status": status,
        }
        with self._line.explained(), OwnTerminal.entered() as person:
            return attachment(self, person, **how).run()


def attachment(terminal: SessionTerminal, person: PersonTerminal, **how: Any) -> Attachment:
    """Return the link between a person's terminal and a shell's; `how` is as for `attach`."""
    from holdfast.runtime.attachment.attach import Attachment

    line = terminal._line if how.get("read_only") else terminal._line.awake()
    how = {"name": line.row.name, **how}
    return Attachment(line.client(), line.reconnection(), person, shell=terminal.shell, **how)

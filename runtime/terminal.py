"""A handle on the terminal of one of a session's shells: what it shows, who types into it.

Holds nothing that matters, as `session.Session`; what commands come to is not its business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.guest import layout
from holdfast.runtime.keys import keys
from holdfast.runtime.shell_calls import read_tail, shell_info

if TYPE_CHECKING:
    from holdfast.runtime.line import Line
    from holdfast.runtime.results import Screen, ShellInfo

# A screen of 40 x 120 that a program repainted a dozen times; pyte takes 1 s for each MiB.
SCREEN_TAIL = 64 << 10


class SessionTerminal:
    """The terminal of one shell."""

    def __init__(self, line: Line, shell: str = layout.MAIN) -> None:
        self._line = line
        self.shell = shell

    def __repr__(self) -> str:
        return f"<SessionTerminal {self.shell}>"

    def info(self) -> ShellInfo:
        """What the supervisor says about the shell."""
        with self._line.explained():
            return self._line.persistence().run(lambda: shell_info(self._line.client(), self.shell))

    def screen(self) -> Screen:
        """What the terminal shows now."""
        from holdfast.runtime.screen import render

        info = self.info()
        tail = self._line.persistence().run(lambda: read_tail(self._line.client(), self.shell, SCREEN_TAIL))
        return render(tail, info.rows, info.cols)

    def send(self, text: str | bytes) -> None:
        """Type text, as it is."""
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        for start in range(0, len(data), 1 << 20):
            self._line.request("send", data[start : start + (1 << 20)], shell=self.shell)

    def send_keys(self, *names: str) -> None:
        """Press keys, named as in `C-c`, `Enter`, `Up`. Raises InvalidArgument for a name no key has."""
        self.send(keys(names))

    def attach(self, *, detach_key: str = "C-]") -> str:
        """Join this process's terminal to it until the detach key is pressed (`detached`).

        Raises:
            InvalidArgument: this process has no terminal.
        """
        from holdfast.runtime.attach import Attachment

        with self._line.explained():
            return Attachment(
                self._line.client(),
                self._line.persistence(),
                shell=self.shell,
                screen=self.screen,
                detach_key=detach_key,
            ).run()

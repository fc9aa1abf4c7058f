"""Types into a shell for people and agents, and records the parts that can be recorded.

`typed.py` decides which parts can be. It goes to the recording immediately, and to the journal as bursts: a
line, or input without a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_fsm import ShellActivity
from holdfast.runtime.guest.shells.typed import Burst, Echo, LineLimit, Typing, echo_of

PAUSE = 1.0
"""Seconds without input that end a burst."""


def echo_at(shell: Shell) -> Echo:
    """Return the component that echoes text typed into a shell now."""
    terminal = shell.terminal
    if terminal is None:
        return Echo.NOBODY
    canonical, echo = terminal.line_modes()
    at_prompt = shell.state is ShellActivity.PROMPT and terminal.foreground() == terminal.pid
    return echo_of(canonical=canonical, echo=echo, at_prompt=at_prompt)


class Keyboard:
    """The keyboard of one shell."""

    def __init__(self, shell: Shell, note: Callable[..., object]) -> None:
        """Create the keyboard; `note(kind, **fields)` writes into the journal."""
        self._shell = shell
        self._note = note
        self._typing = Typing()
        self._limit, self._prompts = LineLimit(), 0
        self._burst: Burst | None = None
        self._timer: asyncio.TimerHandle | None = None

    def excess(self, data: bytes) -> int:
        """Return the length of the line of which the terminal would drop a part, or 0."""
        terminal = self._shell.terminal
        if terminal is None:
            return 0
        if echo_at(self._shell) is Echo.PROMPT:
            return self._limit.later_excess(data)
        return self._limit.excess(data, terminal.line_ends(), begun=self._prompts == self._shell.prompts)

    def excess_at_prompt(self, data: bytes) -> int:
        """Return the same as if a prompt were there."""
        return self._limit.later_excess(data)

    async def type(self, actor: str, data: bytes) -> None:
        """Type data for an actor; returns when the terminal has taken all of it."""
        shell = self._shell
        shell.command_journal.typist = actor
        before, prompts = echo_at(shell), shell.prompts
        self._limit.typed(data, shell.terminal.line_ends() if shell.terminal else b"")
        self._prompts = prompts
        await shell.write(data)
        parts = self._typing.judge(data, before, echo_at(shell), prompts)
        shell.command_journal.hidden |= any(part.text is None for part in parts)
        for part in parts:
            shell.recording.input(part)
        if self._burst is None or self._burst.actor != actor:
            self.flush()
            self._burst = Burst(actor)
        self._burst.add(parts)
        if data.endswith((b"\r", b"\n")):
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self.flush)

    def flush(self) -> None:
        """End the burst: write it into the journal."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        burst, self._burst = self._burst, None
        if burst and burst.size:
            self._note(
                "input",
                shell=self._shell.name,
                actor=burst.actor,
                bytes=burst.size,
                hidden=burst.hidden,
                text=burst.text,
            )

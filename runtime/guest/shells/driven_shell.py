"""Starts a shell so that it writes marks, and passes it commands through files.

It knows the files of `images/session/bash_marks.c`, which all kinds of shells use; it does not know why or
when a command is passed, nor how a kind of shell is made to read them (`startup_files`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.runtime.guest.identity.account import (
    OOM_SCORE,
    UserAccount,
    describe_terminal,
    working_directory,
)
from holdfast.runtime.guest.layout import Layout, ShellPaths
from holdfast.runtime.guest.shells import startup_files
from holdfast.runtime.guest.shells.shell_program import ShellKind, ShellProgram
from holdfast.runtime.guest.shells.shell_state import StateFile, read
from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize

TAKE_COMMAND = (b"\x1b[9517~", b"\x1b[9518~")
"""The key that makes the shell take the command from its file.

The other is for every second offer, for a shell may be slow to read the last one's, which was withdrawn.
Each has a file of its own: a shell that has read one offer and takes it then cannot take the next for it.
"""
TAKE_IN_FISH = (b"\x1b[9517;7u", b"\x1b[9518;7u")
"""The same for fish, which drops keys that no keyboard has: two characters with Control and Alt."""
_TELLS = 5
"""Where the two differ."""
MAX_TYPED = 64 << 10
END_OF_PASTE = b"\x1b[201~"
"""Ends a bracketed paste whose end never came; until then readline takes every key for text."""
TERM = "xterm-256color"
SHOWN_LINES, SHOWN_BYTES = 20, 2048


class DrivenShell:
    """One shell's files, and the means to start it repeatedly with the same nonce."""

    def __init__(
        self, paths: ShellPaths, layout: Layout, account: UserAccount, program: ShellProgram
    ) -> None:
        self.nonce = secrets.token_hex(8)
        """The word by which the shell's marks are known."""
        self._paths = paths
        self._layout = layout
        self._account = account
        self._program = program
        self._laid_out = 0
        self._keys = TAKE_IN_FISH if program.kind is ShellKind.FISH else TAKE_COMMAND
        self.key = self._keys[0]
        """The key that makes the shell take what was offered last."""
        self.state = StateFile(paths.state, program.name)

    @property
    def settings(self) -> str:
        """The user's file that the shell reads when it starts."""
        return startup_files.SETTINGS[self._program.kind]

    def lay_out(self) -> None:
        """Create the files the shell reads when it starts."""
        paths = self._paths
        paths.control.mkdir(parents=True, exist_ok=True)
        paths.control.chmod(0o700)
        for path in (
            paths.abort,
            paths.ended,
            *paths.control.glob("command-*"),
            *paths.control.glob("typed-*"),
        ):
            path.unlink(missing_ok=True)
        _write(paths.nonce, f"{self.nonce}\n".encode())
        _write(paths.pid, b"")
        startup_files.write(self._program, paths, self._layout.marks)
        # In a new folder, continue with higher numbers: marks with lower ones are taken for repetitions.
        _write(paths.epoch, b"%d\n" % (self._laid_out << 16))
        self._laid_out += 1
        self._account.own(paths.control, paths.nonce, paths.pid, paths.epoch)

    def kept(self) -> dict[str, object]:
        """Return the facts that a new supervisor needs to drive the same process."""
        return {"nonce": self.nonce, "key": self._keys.index(self.key), "laid_out": self._laid_out}

    def adopt(self, kept: Mapping[str, Any]) -> None:
        """Drive the process of a previous supervisor, with the facts that `kept` returned there."""
        self.nonce = str(kept["nonce"])
        self.key = self._keys[int(kept["key"]) % len(self._keys)]
        self._laid_out = int(kept["laid_out"])
        self.state.adopt(self._environment())

    def _environment(self) -> dict[str, str]:
        env = self._account.environment(os.environ)
        env["TERM"] = TERM
        env["HOLDFAST_SHELL"] = self._paths.folder.name
        describe_terminal(env)
        startup_files.prepare(self._program, self._paths, env)
        return env

    def start(self, size: TerminalSize) -> ProcessTerminal:
        """Start a shell.

        Raises:
            OSError: there is no such program or no terminal.
        """
        account, pid_file = self._account, self._paths.pid
        if not pid_file.exists():
            self.lay_out()

        def in_child() -> None:
            _overwrite(pid_file, str(os.getpid()).encode())
            _overwrite(Path("/proc/self/oom_score_adj"), OOM_SCORE.encode())
            account.become()

        env = self._environment()
        self.state.begin(env)
        return ProcessTerminal(
            startup_files.words(self._program, self._paths),
            cwd=working_directory(self._layout.workspace, account),
            env=env,
            size=size,
            in_child=in_child,
        )

    def offer(self, serial: int, command: bytes) -> None:
        """Leave a command for the shell to take, replacing an offer that was not taken."""
        self.resume()
        self.key = self._keys[self.key == self._keys[0]]
        if self._program.kind is not ShellKind.BASH:
            self._leave(self._paths.text, command)
            command = shown(command)
        self._leave(self._offered, b"%d\n%s" % (serial, command))

    @property
    def _offered(self) -> Path:
        return self._paths.command(chr(self.key[_TELLS]))

    def _leave(self, path: Path, text: bytes) -> None:
        try:
            _write(path, text)
        except FileNotFoundError:  # the user removed the folder
            self.lay_out()
            _write(path, text)
        self._account.own(path)

    def withdraw(self) -> bool:
        """Withdraw an offer. Return False if the shell has taken it."""
        try:
            self._offered.unlink()
        except FileNotFoundError:
            return False
        return True

    def offered_text(self) -> bytes | None:
        """Return the text of an offer that the shell has not taken."""
        offer = read(self._offered)
        if offer is None or self._program.kind is ShellKind.BASH:
            return None if offer is None else offer.partition(b"\n")[2]
        return read(self._paths.text)

    def offers(self) -> bool:
        """Return whether there is an offer that the shell has not taken."""
        return os.path.lexists(self._offered)

    def typed(self, number: int) -> bytes | None:
        """Return the typed line with the number of its mark, or None if the shell did not leave it."""
        path = self._paths.control / f"typed-{number}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(fd, MAX_TYPED) if stat.S_ISREG(os.fstat(fd).st_mode) else None
        except OSError:
            return None
        finally:
            os.close(fd)
            path.unlink(missing_ok=True)

    def failed_fast(self) -> bool:
        """Return whether `set -e` ended the shell, once."""
        found = read(self._paths.ended, limit=64) == b"errexit\n"
        with contextlib.suppress(OSError):  # the user may have put a folder there
            self._paths.ended.unlink()
        return found

    def abort(self) -> None:
        """Make the shell drop the lines of the current command that it has not run yet."""
        _write(self._paths.abort, b"")
        self._account.own(self._paths.abort)

    def resume(self) -> None:
        """Undo `abort`."""
        self._paths.abort.unlink(missing_ok=True)


def shown(command: bytes) -> bytes:
    """Return the first lines of a command, which a shell that reads it from a file shows at its prompt."""
    command = command.rstrip(b"\n")
    lines = command[:SHOWN_BYTES].split(b"\n")[:SHOWN_LINES]
    begun = b"\n".join(lines)
    left = len(command) - len(begun)
    return begun + (b"\n... (%d more bytes)" % left if left else b"")


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically. Its folder belongs to the user, who can have put anything there."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
    temporary.rename(path)


def _overwrite(path: Path, data: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    os.write(fd, data)
    os.close(fd)

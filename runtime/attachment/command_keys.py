"""The keys by which a person at a session's terminal leaves it, and takes or gives its shell. Pure.

Bytes come in as they were typed, in any parts; bytes for the session go out, and commands for this side.
"""

from __future__ import annotations

from collections.abc import Iterator

COMMAND_KEY = "C-^"
"""The key before each command; twice, it is passed on once."""
_BEGIN = b"\x1e"
TAKE, GIVE, LOOK, HELP, LEAVE, PASS = "take", "give", "look", "help", "leave", "pass"
STATUS, NEXT, BEFORE = "status", "next", "before"
_COMMANDS = {
    b"t": TAKE,
    b"g": GIVE,
    b"w": LOOK,
    b"d": LEAVE,
    b"s": STATUS,
    b"n": NEXT,
    b"p": BEFORE,
    b"?": HELP,
}
KEYS = (
    f"after {COMMAND_KEY}: t takes the shell, g gives it back, w shows who is here, d leaves, "
    f"n and p show other shells, s the status line, {COMMAND_KEY} is passed on"
)


class CommandKeys:
    """Reads what a person types. `leave` are the bytes of the key that leaves without another."""

    def __init__(self, leave: bytes) -> None:
        self._leave = leave
        self._begun = False

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield commands in order, among them PASS with bytes for the session. Nothing comes after LEAVE."""
        while data:
            if self._begun:
                self._begun = False
                key, data = data[:1], data[1:]
                if key == _BEGIN:
                    yield PASS, key
                    continue
                yield _COMMANDS.get(key.lower(), HELP), b""
                if _COMMANDS.get(key.lower()) == LEAVE:
                    return
                continue
            leave, command = data.find(self._leave), data.find(_BEGIN)
            if self._leave == _BEGIN:  # chosen by the person: then commands have none
                command = -1
            if leave >= 0 and not 0 <= command < leave:
                if leave:
                    yield PASS, data[:leave]
                yield LEAVE, b""
                return
            if command < 0:
                yield PASS, data
                return
            if command:
                yield PASS, data[:command]
            self._begun, data = True, data[command + 1 :]

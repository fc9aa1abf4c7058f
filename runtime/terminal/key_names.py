"""Names of keys as the bytes a terminal sends for them.  Pure.

The names come from tmux and Emacs: Enter, C-c, M-x, Up, F1.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

# xterm's sequences (ctlseqs, "PC-Style Function Keys"), as terminfo entry xterm-256color has them.
NAMED = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "btab": b"\x1b[Z",
    "space": b" ",
    "bspace": b"\x7f",
    "backspace": b"\x7f",
    "escape": b"\x1b",
    "esc": b"\x1b",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "insert": b"\x1b[2~",
    "ic": b"\x1b[2~",
    "delete": b"\x1b[3~",
    "dc": b"\x1b[3~",
    "pageup": b"\x1b[5~",
    "ppage": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "npage": b"\x1b[6~",
    **{f"f{n}": b"\x1bO" + letter.encode() for n, letter in enumerate("PQRS", 1)},
    **{
        f"f{n}": b"\x1b[%d~" % code
        for n, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
    },
}


def key(name: str) -> bytes:
    """Return the bytes of one key.

    Raises:
        InvalidArgument: no key has that name.
    """
    if len(name) == 1:
        return name.encode()
    if found := NAMED.get(name.lower()):
        return found
    modifier, dash, rest = name.partition("-")
    if dash and rest and modifier in ("M", "m"):
        return b"\x1b" + key(rest)
    if dash and modifier in ("C", "c") and (control := _control(rest)) is not None:
        return control
    raise InvalidArgument(
        f"cannot send key '{plain(name, 40)}': no key has that name",
        hint="names are like Enter, C-c, C-d, M-x, Tab, Up, F1, Escape, Space, BSpace",
    )


def keys(names: Iterable[str]) -> bytes:
    """Return the bytes of several keys, one after the other."""
    return b"".join(key(name) for name in names)


def _control(rest: str) -> bytes | None:
    """Return a character's byte with Control, which clears the bits above the fifth: C-a is 1, C-[ is 27."""
    if rest.lower() == "space":
        return b"\0"
    if rest == "?":
        return b"\x7f"
    if len(rest) == 1 and "@" <= rest.upper() <= "_":
        return bytes([ord(rest.upper()) & 0x1F])
    return None

"""Sequences that reset a terminal after a guest's program.  Pure."""

from __future__ import annotations

# First screen, no scroll region, no mode but wrap and a visible cursor. Every redraw begins from here.
RESET = (
    b"\x1b[?1049l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?2004l\x1b[?1l\x1b[?6l\x1b[?12l\x1b[?7h\x1b[4l\x1b>\x1b[r\x1b[?25h\x1b[0m"
)
# State that a redraw leaves to the program and a shell does not expect: character sets, reverse video,
# shape of the cursor.
CHARSETS = b"\x1b(B\x1b)B\x0f"
LEAVE = RESET + CHARSETS + b"\x1b[?5l\x1b[0 q"
# In place of a full reset (RIS), which would also drop what a person can scroll back to.
CLEARED = RESET + CHARSETS + b"\x1b[?5l\x1b[H\x1b[2J"
# Below everything on the screen: where a shell can continue.
BELOW = b"\x1b[999;1H\r\n"

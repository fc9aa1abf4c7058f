"""Names, sizes and limits on which both ends agree, whatever a session runs. Plain values;
`layout` has the paths."""

from __future__ import annotations

SOCKET_NAME = "guest.sock"
"""The supervisor's socket, in the folder shared with the host."""
MAIN = "main"
"""Name of the shell and of the kernel that every session has."""
DEFAULT_ROWS = 40
DEFAULT_COLUMNS = 120
MOST_FOUND = 10_000
"""Files that one search can name; the caller's side refuses more before it asks."""
LONGEST_LINE = 1000
"""Bytes of a found line, and characters once it is text: the session cuts it, and so does its caller."""
ACTOR_KINDS = ("agent", "person", "system")
"""The permitted kinds of actors; see `actor`."""

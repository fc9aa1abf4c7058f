"""Names and sizes that every session has, whatever it runs. Plain values;
`layout` has the paths."""

from __future__ import annotations

SOCKET_NAME = "guest.sock"
"""The supervisor's socket, in the folder shared with the host."""
MAIN = "main"
"""Name of the shell and of the kernel that every session has."""
DEFAULT_ROWS = 40
DEFAULT_COLUMNS = 120
ACTOR_KINDS = ("agent", "person", "system")
"""What an actor can be; see `actor`."""

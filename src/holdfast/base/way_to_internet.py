"""Whether this machine reaches the internet over IPv4, the only protocol of sessions. The parser is pure."""

from __future__ import annotations

from pathlib import Path

_ROUTES = Path("/proc/net/route")
_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200  # <linux/route.h>


def is_missing() -> bool:
    """Check that no IPv4 route of this machine leads beyond its own networks; False if that is unknown."""
    try:
        return not leads_out(_ROUTES.read_text())
    except OSError:
        return False


def leads_out(routes: str) -> bool:
    """Check /proc/net/route for a route through a gateway, or a default route without one (a tunnel)."""
    for line in routes.splitlines()[1:]:
        words = line.split()
        flags = int(words[3], 16)
        everywhere = words[1] == words[7] == "00000000"
        if flags & _UP and not flags & _REJECT and (flags & _GATEWAY or everywhere):
            return True
    return False

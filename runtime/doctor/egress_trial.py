"""A real trial whether a session of the default kind reaches this host.

The host briefly listens at every address it has; a program in the session connects to each.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from holdfast.base import way_to_internet
from holdfast.base.text import plain
from holdfast.runtime.egress import home_file, host_network
from holdfast.runtime.guest_rpc.results import Check

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.api.session import Session

METADATA = ("169.254.169.254", 80)
SECONDS = 3.0
"""Seconds after which an address counts as unreachable. A refusal comes at once."""
_STEP = 60.0
# `connected`, or the error; by destination.
_CONNECT = """
import json, socket
def tried(place):
    try:
        socket.create_connection(place, {seconds}).close()
    except OSError as error:
        return str(error)
    return "connected"
print(json.dumps([tried(tuple(place)) for place in {places}]))
"""


def check(session: Session, home: Home) -> Check:
    """Return what the session reached but should not have; raises what the session's kernel raises."""
    with _listening() as listener:
        port = listener.getsockname()[1]
        addresses = [str(one) for one in host_network.look().addresses if not one.is_link_local]
        places = [[address, port] for address in addresses] + [list(METADATA)]
        output = session.cell(_CONNECT.format(seconds=SECONDS, places=places), timeout=_STEP).stdout
    said = json.loads(output)
    reached = [place for (place, _), word in zip(places, said, strict=True) if word == "connected"]
    if reached:
        where = ", ".join(map(str, reached))
        return Check(
            "network",
            False,
            f"a session reached this host at {plain(where, 200)}",
            "do not run programs you do not trust; report this with the output of `nft list ruleset`",
        )
    detail = f"closed to {len(places)} addresses of host and cloud{_opened(home)}"
    if way_to_internet.is_missing():
        detail += "; this host has no IPv4 way out, and the sessions' network has no IPv6: they reach nothing"
    return Check("network", True, detail)


def _listening() -> socket.socket:
    """Open a listener at all addresses of all families."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("0.0.0.0", 0))  # noqa: S104 - to see that nothing gets here


def _opened(home: Home) -> str:
    known = home_file.read(home)
    resolvers = ", ".join(str(one) for one in host_network.look().resolvers)
    opened = ", ".join(map(str, known.every))
    return f"; names by {resolvers}" + (f"; open for all sessions: {plain(opened, 300)}" if opened else "")

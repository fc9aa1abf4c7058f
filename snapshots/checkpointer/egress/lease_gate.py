"""A gate at a session's network that closes by itself: a table of nftables whose elements have a lifetime.

Sessions of a node run under a lease. The gate lets packets of the protocols in one set pass; the kernel
removes these from it at the end of the lease unless the gate is set again before. So a session whose node has
lost everything that could stop it cannot reach others or be reached. Loopback passes always. The gate
only takes away: a packet that it lets pass is judged by the rules of `netrules` as well.

Pure: returns the text for nft(8), and the rest of the lifetime from nft's listing.
"""

from __future__ import annotations

from collections.abc import Mapping

TABLE = "holdfast_lease"
LONGEST = 3600.0
"""Seconds for which a gate can be open at most; leases last for half a minute."""
_PROTOCOLS = ("tcp", "udp", "icmp", "ipv6-icmp")
_HOOKS = ("output", "input", "forward")
_LOOPBACK = {"output": 'oif "lo" accept\n', "input": 'iif "lo" accept\n', "forward": ""}


def text(seconds: float) -> str:
    """Return the text for nft(8): one transaction that replaces the gate by one that is open for `seconds`.

    Raises:
        ValueError: the time is zero or too long.
    """
    if not 0.001 <= seconds <= LONGEST:
        raise ValueError(f"a gate is open for 0.001 to {LONGEST:.0f} seconds")
    lifetime = f"{int(seconds)}s{int(seconds % 1 * 1000)}ms"
    elements = ", ".join(f"{name} timeout {lifetime}" for name in _PROTOCOLS)
    return "\n".join(
        [
            f"table inet {TABLE}",
            f"delete table inet {TABLE}",
            f"table inet {TABLE} {{",
            f"set leased {{ type inet_proto; flags timeout; elements = {{ {elements} }}; }}",
            *(
                f"chain {hook} {{\ntype filter hook {hook} priority -10; policy accept;\n"
                f"{_LOOPBACK[hook]}meta l4proto != @leased drop\n}}"
                for hook in _HOOKS
            ),
            "}",
            "",
        ]
    )


def is_set(listed: Mapping[str, object]) -> bool:
    """Return whether nft's listing of the table in JSON has the gate, with an end to each element."""
    items = listed.get("nftables")
    given = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
    chains = {str(one["chain"].get("hook")) for one in given if isinstance(one.get("chain"), dict)}
    dropping = {
        str(one["rule"].get("chain"))
        for one in given
        if isinstance(one.get("rule"), dict) and {"drop": None} in (one["rule"].get("expr") or [])
    }
    held = [
        element
        for one in given
        if isinstance(one.get("set"), dict) and one["set"].get("name") == "leased"
        for element in one["set"].get("elem") or []
    ]
    ends = all(isinstance(one, dict) and "expires" in one.get("elem", {}) for one in held)
    return chains == dropping == set(_HOOKS) and ends

"""The proxies of the host, for programs that read only one spelling of their names. Pure.

apt and mmdebstrap read `http_proxy`, others HTTP_PROXY; people set either.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

NAMES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


def both_spellings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings under both spellings of each name; the small letters win, as for curl."""
    found: dict[str, str] = {}
    for name in NAMES:
        if value := environ.get(name) or environ.get(name.upper()):
            found |= {name: value, name.upper(): value}
    return found


def on_this_machine(environ: Mapping[str, str]) -> bool:
    """Check whether a proxy is on the host's loopback, which containers do not share."""
    settings = both_spellings(environ)
    return any(_is_loopback(settings.get(name, "")) for name in NAMES if name != "no_proxy")


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False

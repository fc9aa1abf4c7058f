"""Where the calls of an `AsyncHoldfast` go: to a server, or to a home, which needs one of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.base.home import Home
from holdfast.runtime.client import client_address
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.client.private_server import PrivateServer


def opened(url: str | Path | Home | None, token: str | None) -> tuple[ClientAddress, Callable[[], None]]:
    """Return the address, and what is to be called at the end.

    Raises:
        InvalidArgument: the URL is not valid, there is no token, or a home cannot be used without packages.
    """
    if isinstance(url, str) and client_address.is_url(url):
        return client_address.address_of(url, token), lambda: None
    own = PrivateServer(Home.at(url))
    return own.address, own.close

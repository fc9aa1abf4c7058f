"""Where the calls of a `RemoteHoldfast` go: to a server. A home needs none, and has a `Holdfast`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.base.home import Home
from holdfast.runtime.client import client_address
from holdfast.runtime.client.client_address import ClientAddress


def opened(url: str | Path | Home | None, token: str | None) -> tuple[ClientAddress, Callable[[], None]]:
    """Return the address, and what is to be called at the end.

    Raises:
        InvalidArgument: the URL is not valid, or there is no token.
    """
    return client_address.address_of(str(url), token), lambda: None

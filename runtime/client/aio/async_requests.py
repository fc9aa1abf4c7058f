"""Sends the requests of a client over HTTP, and waits for their answers as long as it takes."""

from __future__ import annotations

import httpx

from holdfast.runtime.client.client_address import ClientAddress


def carrier(address: ClientAddress) -> httpx.AsyncBaseTransport:
    """Return what carries requests to a server."""
    return httpx.AsyncHTTPTransport(uds=address.socket, limits=httpx.Limits())

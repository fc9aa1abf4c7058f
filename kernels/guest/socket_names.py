"""Finds a kernel whose sockets are named as addresses of the network are: `c:1` where Jupyter has `c-1`.

Kernels that put transport, address and port together for themselves do so, whatever the transport. Each of
their sockets gets a link with the name by which it is looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_SECONDS = 0.05
"""Between two looks; an interpreter needs more to start."""


def link(address: Path, ports: Iterable[int]) -> None:
    """Make the links that are missing for sockets that are there; `address` is that of all, without port."""
    for port in ports:
        named = address.with_name(f"{address.name}:{port}")
        wanted = address.with_name(f"{address.name}-{port}")
        if named.is_socket() and not wanted.is_socket():
            with suppress(OSError):  # the folder is the user's, who may have put anything there
                wanted.symlink_to(named.name)


async def keep_linked(address: Path, ports: Iterable[int]) -> None:
    """Make links as sockets appear, until this is cancelled."""
    ports = list(ports)
    while True:
        link(address, ports)
        await asyncio.sleep(_SECONDS)

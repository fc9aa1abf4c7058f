"""A container's place in the sessions' network: taken from one, given to another, given back.

Owns how the engine is told about addresses. Knows no sessions.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.errors import EngineError
from holdfast.runtime.engine import NETWORK

if TYPE_CHECKING:
    from holdfast.runtime.engine import Engine


def endpoint(network: str, addresses: Iterable[str]) -> dict[str, Any]:
    """What the SDK's `containers.create` is given for a container that is to have these addresses."""
    from docker.types import EndpointConfig

    # The version of the SDK's interface only decides which options it refuses.
    return {network: EndpointConfig("1.41", **_families(addresses))}


def leave(engine: Engine, container_id: str) -> None:
    """Take a container out of the network, and free its addresses; nothing if it is not in it."""
    from holdfast.runtime import engine_faults

    with engine_faults.translated("take a container out of the network"):
        if NETWORK in _networks(engine, container_id):
            engine.client.api.disconnect_container_from_network(container_id, NETWORK, force=True)


def join(engine: Engine, container_id: str, addresses: Iterable[str]) -> None:
    """Give a container its place in the network back; nothing if it is in it."""
    from holdfast.runtime import engine_faults

    with engine_faults.translated("put a container into the network"):
        if NETWORK not in _networks(engine, container_id):
            engine.client.api.connect_container_to_network(container_id, NETWORK, **_families(addresses))


def is_taken(error: EngineError) -> bool:
    """Whether an error of the engine means that another container has the address."""
    text = str(error).lower()
    return "address already in use" in text or "no available ipv4" in text or "address is in use" in text


def _networks(engine: Engine, container_id: str) -> dict[str, Any]:
    import docker.errors

    try:
        found = engine.client.api.inspect_container(container_id)
    except docker.errors.NotFound:
        return {NETWORK: {}}
    return dict(found["NetworkSettings"]["Networks"] or {})


def _families(addresses: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in addresses:
        found.setdefault(f"ipv{ipaddress.ip_address(text).version}_address", text)
    return found

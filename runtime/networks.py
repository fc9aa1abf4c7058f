"""The sessions' network, and a container's place in it: taken from one, given to another, given back.

Owns how the engine is told about networks and addresses. Knows no sessions.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from holdfast.errors import EngineError
from holdfast.runtime.engine_calls import translated

if TYPE_CHECKING:
    from docker.errors import APIError

    from holdfast.runtime.engine import Engine

# Sessions are apart from each other and from other containers: a bridge of their own, without traffic
# between its ports.  It is made once for an engine (0.1-0.2 s) and shared by all homes.
NETWORK = "holdfast"
_MAKING_SECONDS = 20.0


def ensure(engine: Engine, name: str = NETWORK) -> str:
    """Make the sessions' own bridge if it is missing, and return its name.

    Older engines (20.10 is one) make two networks of one name if asked twice at once, and then refuse
    to use either.  Two bridges cannot share an interface, so its name decides who comes first.

    Raises:
        EngineError: it cannot be made.
    """
    deadline = time.monotonic() + _MAKING_SECONDS
    with translated(f"create network {name}"):
        while not _exists(engine, name):
            failure = _made(engine, name)
            if failure is None:
                break
            # Another process makes it at this moment; else it will not be there.
            if time.monotonic() > deadline:
                raise failure
            time.sleep(0.02)
    return name


def endpoint(network: str, addresses: Iterable[str]) -> dict[str, Any]:
    """What the SDK's `containers.create` is given for a container that is to have these addresses."""
    from docker.types import EndpointConfig

    # The version of the SDK's interface only decides which options it refuses.
    return {network: EndpointConfig("1.41", **_families(addresses))}


def leave(engine: Engine, container_id: str) -> None:
    """Take a container out of the network, and free its addresses; nothing if it is not in it."""
    with translated("take a container out of the network"):
        if NETWORK in _networks(engine, container_id):
            engine.client.api.disconnect_container_from_network(container_id, NETWORK, force=True)


def join(engine: Engine, container_id: str, addresses: Iterable[str]) -> None:
    """Give a container its place in the network back; nothing if it is in it."""
    with translated("put a container into the network"):
        if NETWORK not in _networks(engine, container_id):
            engine.client.api.connect_container_to_network(container_id, NETWORK, **_families(addresses))


def is_taken(error: EngineError) -> bool:
    """Whether an error of the engine means that another container has the address."""
    text = str(error).lower()
    return "address already in use" in text or "no available ipv4" in text or "address is in use" in text


def _exists(engine: Engine, name: str) -> bool:
    import docker.errors

    try:
        engine.client.api.inspect_network(name)
    except docker.errors.NotFound:
        return False
    except docker.errors.APIError as error:
        if "ambiguous" not in str(error):
            raise
        _remove_duplicates(engine, name)
    return True


def _made(engine: Engine, name: str) -> APIError | None:
    """Make it. Returns what the engine says if it does not."""
    import docker.errors

    engine_id = engine.info().get("ID")  # two engines of a machine may not share an interface either
    interface = f"hf-{sha256(f'{engine_id} {name}'.encode()).hexdigest()[:12]}"
    options = {"com.docker.network.bridge.enable_icc": "false", "com.docker.network.bridge.name": interface}
    try:
        engine.client.api.create_network(
            name, driver="bridge", check_duplicate=True, options=options, labels={"holdfast.role": "network"}
        )
    except docker.errors.APIError as error:
        return error
    return None


def _remove_duplicates(engine: Engine, name: str) -> None:
    """Leave one network of this name: one that is in use."""
    import docker.errors

    found = [each for each in engine.client.api.networks(names=[name]) if each["Name"] == name]
    left = len(found)
    for each in found:
        with suppress(docker.errors.APIError):  # in use
            if left > 1:
                engine.client.api.remove_network(each["Id"])
                left -= 1


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

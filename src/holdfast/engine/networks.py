"""The sessions' network, and a container's place in it: taken, given to a different container, given back.

Owns the calls about networks and addresses. Knows no sessions.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from holdfast.engine.engine_faults import translated

if TYPE_CHECKING:
    from docker.errors import APIError
    from docker.types import IPAMPool

    from holdfast.engine.engine import Engine

# Sessions are isolated from each other and from other containers: a bridge of their own, without
# traffic between its ports. It is made once for an engine and shared by all homes.
NETWORK = "holdfast"
_MAKING_SECONDS = 20.0
# Errors as engines word them.
_TAKEN = ("address already in use", "no available ipv4", "address is in use")
_NO_CHOICE = "user configured subnets"


def ensure(engine: Engine) -> str:
    """Make the sessions' own bridge if it is missing, and return its name.

    Older engines (20.10 is one) make two networks of one name if asked twice at once, and then refuse to use
    either. Two bridges cannot share an interface, so its name decides which request wins.

    Raises:
        EngineError: the network cannot be made.
    """
    deadline = time.monotonic() + _MAKING_SECONDS
    with translated(f"create network {NETWORK}"):
        while not _exists(engine):
            failure = _made(engine)
            if failure is None:
                break
            # Another process is making it; otherwise it will not appear.
            if time.monotonic() > deadline:
                raise failure
            time.sleep(0.02)
    return NETWORK


def endpoint(network: str, addresses: Iterable[str]) -> dict[str, Any]:
    """Return the argument of `containers.create` for a container with these addresses."""
    from docker.types import EndpointConfig

    # The version of the SDK's interface only decides which options it refuses.
    return {network: EndpointConfig("1.41", **_families(addresses))}


def leave(engine: Engine, container_id: str) -> None:
    """Disconnect a container from the network and free its addresses, if it is connected."""
    with translated("take a container out of the network"):
        if NETWORK in _networks(engine, container_id):
            engine.client.api.disconnect_container_from_network(container_id, NETWORK, force=True)


def join(engine: Engine, container_id: str, addresses: Iterable[str]) -> None:
    """Give a container its place in the network back, or a new one, unless it is connected."""
    import docker.errors

    with translated("put a container into the network"):
        if NETWORK in _networks(engine, container_id):
            return
        try:
            engine.client.api.connect_container_to_network(container_id, NETWORK, **_families(addresses))
        except docker.errors.APIError as error:
            if why_another(error) is None:
                raise
            engine.client.api.connect_container_to_network(container_id, NETWORK)


def why_another(error: Exception) -> str | None:
    """Return why a container cannot have its former addresses; None if the error has another cause."""
    text = str(error).lower()
    if any(word in text for word in _TAKEN):
        return "is in use by now"
    if _NO_CHOICE in text:
        return f"cannot be requested in the network `{NETWORK}` as it is; remove it to have it created again"
    return None


def _exists(engine: Engine) -> bool:
    import docker.errors

    try:
        engine.client.api.inspect_network(NETWORK)
    except docker.errors.NotFound:
        return False
    except docker.errors.APIError as error:
        if "ambiguous" not in str(error):
            raise
        _remove_duplicates(engine)
    return True


def _made(engine: Engine) -> APIError | None:
    """Make the network. Return the engine's error if it does not."""
    import docker.errors
    from docker.types import IPAMConfig

    engine_id = engine.info().get("ID")  # two engines of a machine may not share an interface either
    interface = f"hf-{sha256(f'{engine_id} {NETWORK}'.encode()).hexdigest()[:12]}"
    try:
        engine.client.api.create_network(
            NETWORK,
            driver="bridge",
            check_duplicate=True,
            options={
                "com.docker.network.bridge.enable_icc": "false",
                "com.docker.network.bridge.name": interface,
            },
            labels={"holdfast.role": "network"},
            ipam=IPAMConfig(pool_configs=[_unused_pool(engine)]),
        )
    except docker.errors.APIError as error:
        return error
    return None


def _unused_pool(engine: Engine) -> IPAMPool:
    """Return the pool the engine would choose itself; containers may request addresses only of explicit
    pools.
    """
    from docker.types import IPAMPool

    api = engine.client.api
    probe = api.create_network(f"{NETWORK}-{uuid4().hex[:12]}", driver="bridge")["Id"]
    try:
        (chosen,) = api.inspect_network(probe)["IPAM"]["Config"]
    finally:
        api.remove_network(probe)
    return IPAMPool(subnet=chosen["Subnet"], gateway=chosen.get("Gateway"))


def _remove_duplicates(engine: Engine) -> None:
    """Keep one network of the name: the one in use."""
    import docker.errors

    found = [each for each in engine.client.api.networks(names=[NETWORK]) if each["Name"] == NETWORK]
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

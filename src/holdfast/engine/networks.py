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
from uuid import uuid4

from holdfast.engine.engine_faults import translated

if TYPE_CHECKING:
    from docker.errors import APIError
    from docker.types import IPAMPool

    from holdfast.engine.engine import Engine

# Sessions are apart from each other and from other containers: a bridge of their own, without traffic
# between its ports.  It is made once for an engine and shared by all homes.
NETWORK = "holdfast"
_MAKING_SECONDS = 20.0
# What engines say.
_TAKEN = ("address already in use", "no available ipv4", "address is in use")
_NO_CHOICE = "user configured subnets"


def ensure(engine: Engine) -> str:
    """Make the sessions' own bridge if it is missing, and return its name.

    Older engines (20.10 is one) make two networks of one name if asked twice at once, and then refuse
    to use either.  Two bridges cannot share an interface, so its name decides who comes first.

    Raises:
        EngineError: it cannot be made.
    """
    deadline = time.monotonic() + _MAKING_SECONDS
    with translated(f"create network {NETWORK}"):
        while not _exists(engine):
            failure = _made(engine)
            if failure is None:
                break
            # Another process makes it at this moment; else it will not be there.
            if time.monotonic() > deadline:
                raise failure
            time.sleep(0.02)
    return NETWORK


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
    """Give a container its place in the network back, if need be another one; nothing if it is in it."""
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
    """Why a container cannot have the addresses it was to have; None if the error is about something else."""
    text = str(error).lower()
    if any(word in text for word in _TAKEN):
        return "is in use by now"
    if _NO_CHOICE in text:
        return f"cannot be asked for in the network `{NETWORK}` as it is; remove it to have it created again"
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
    """Make it. Returns what the engine says if it does not."""
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
    """What the engine would choose itself; if it is asked for that, containers may ask for addresses."""
    from docker.types import IPAMPool

    api = engine.client.api
    probe = api.create_network(f"{NETWORK}-{uuid4().hex[:12]}", driver="bridge")["Id"]
    try:
        (chosen,) = api.inspect_network(probe)["IPAM"]["Config"]
    finally:
        api.remove_network(probe)
    return IPAMPool(subnet=chosen["Subnet"], gateway=chosen.get("Gateway"))


def _remove_duplicates(engine: Engine) -> None:
    """Leave one network of the name: one that is in use."""
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

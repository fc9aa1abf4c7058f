"""The second machine and the registries that other tests rely on match their descriptions."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from tests.machines.registry import PASSWORD, USER, Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine
from tests.machines.tokens import TokenServer

from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast


@pytest.mark.thorough
def test_the_second_machine_shares_nothing(second: Machine, hf: Holdfast) -> None:
    """It has another data root, no other images than Holdfast's, and no way out of its network."""
    info, ours = second.engine.info(), hf.engine.info()
    assert info["DockerRootDir"] != ours["DockerRootDir"]
    assert info["ID"] != ours["ID"]
    tags = {tag for each in second.engine.client.images.list() for tag in each.tags}
    assert {build.reference(kind) for kind in build.ALWAYS} <= tags
    assert not {tag for tag in tags if tag.startswith("holdfast/")} - {
        build.reference(k) for k in build.ALWAYS
    }
    routes = second.run("ip", "-o", "route", "show", "default")
    assert (routes.returncode, routes.stdout) == (0, "")
    links = second.run("ip", "-o", "link").stdout
    assert "eth0" not in links.replace("veth", "")


def test_a_door_leads_to_one_registry(
    second: Machine, registry: Registry, password_registry: Registry, door: Callable[[Registry], Relay]
) -> None:
    """An opened address is reached under the name it has here; others are not."""
    door(registry)
    command = ("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}")
    assert second.run(*command, f"http://{registry.address}/v2/").stdout == "200"
    assert second.run(*command, f"http://{password_registry.address}/v2/").returncode == 7


def test_registries_require_their_credentials(
    registry: Registry, password_registry: Registry, token_registry: Registry, token_server: TokenServer
) -> None:
    """One nothing, one a password, one a token that its server signed for the same."""

    def status(which: Registry, **options: object) -> int:
        return httpx.get(f"http://{which.address}/v2/", **options).status_code  # type: ignore[arg-type]

    assert status(registry) == 200
    assert status(password_registry) == 401
    assert status(password_registry, auth=(USER, "wrong")) == 401
    assert status(password_registry, auth=(USER, PASSWORD)) == 200
    assert status(token_registry, auth=(USER, PASSWORD)) == 401
    assert httpx.get(token_server.realm, auth=(USER, "wrong")).status_code == 401
    token = httpx.get(token_server.realm, auth=(USER, PASSWORD)).json()["token"]
    assert status(token_registry, headers={"Authorization": f"Bearer {token}"}) == 200

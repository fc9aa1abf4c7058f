"""Secrets that a session uses and does not have: what their hosts get, what all others get, and where values are.

The hosts are servers of the tests, on the host's address in the sessions' network, with certificates of an
authority that only the gateway is told of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.machines import searching
from tests.machines.certificates import Authority
from tests.machines.upstream import Upstream

from holdfast.runtime import networks
from holdfast.runtime.controller import Holdfast
from holdfast.runtime.home import Home
from holdfast.runtime.session import Session

pytestmark = pytest.mark.engine

PATIENCE = 120.0
VALUE = "r3al-Value/of+the=secret-4711"


@dataclass
class World:
    """Hosts: one that is given the secret, one that is not, one without TLS, one with a wrong certificate."""

    address: str
    api: Upstream
    other: Upstream
    plain: Upstream
    forged: Upstream

    @property
    def servers(self) -> tuple[Upstream, ...]:
        return (self.api, self.other, self.plain, self.forged)


@pytest.fixture(scope="module")
def world(
    shared_hf: Holdfast, shared_home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    network = shared_hf.engine.client.api.inspect_network(networks.ensure(shared_hf.engine))
    address = str(network["IPAM"]["Config"][0]["Gateway"])
    authority = Authority(tmp_path_factory.mktemp("authority"))
    elsewhere = Authority(tmp_path_factory.mktemp("elsewhere"))
    made = World(
        address,
        Upstream(address, authority.issue_name("api.test")),
        Upstream(address, authority.issue_name("other.test")),
        Upstream(address),
        Upstream(address, elsewhere.issue_name("forged.test")),
    )
    told = {
        "allow": [f"{address}:{one.port}" for one in made.servers],
        "ca": str(authority.certificate),
        "hosts": dict.fromkeys(("api.test", "other.test", "plain.test", "forged.test"), address),
    }
    (shared_home.root / "network.json").write_text(json.dumps(told))
    yield made
    for one in made.servers:
        one.close()


@pytest.fixture(scope="module")
def session(shared_hf: Holdfast, world: World) -> Session:
    hosts = f"api.test:{world.api.port},http://plain.test:{world.plain.port},forged.test:{world.forged.port}"
    return shared_hf.new("keyed", secrets=[f"TOKEN@{hosts}={VALUE}"])


def said(session: Session, command: str) -> str:
    return session.exec(command, timeout=PATIENCE).text.strip()


def test_the_host_of_a_secret_gets_its_value_wherever_the_placeholder_is(
    session: Session, world: World
) -> None:
    """In headers, Basic authentication, the query, forms and JSON; the session sees its placeholder come back."""
    url = f"https://api.test:{world.api.port}"
    placeholder = said(session, "echo $TOKEN")
    assert placeholder.startswith("holdfast-secret-")

    told = [
        said(session, f'curl -sSi -H "Authorization: Bearer $TOKEN" {url}/header'),
        said(session, f'curl -sS -u "me:$TOKEN" {url}/basic'),
        said(session, f'curl -sS "{url}/query?key=$TOKEN&b=1"'),
        said(session, f'curl -sS -d "key=$TOKEN" {url}/form'),
        said(
            session, f"""curl -sS -H 'Content-Type: application/json' -d '{{"key": "'$TOKEN'"}}' {url}/json"""
        ),
        said(session, f'curl -sS -H "Authorization: Bearer $TOKEN" {url}/stream'),
        said(session, f'curl -sS -H "Authorization: Bearer $TOKEN" {url}/large | head -c 3000'),
    ]

    assert f"Authorization: Bearer {VALUE}" in world.api.asked[0]
    assert "Basic bWU6cjNhbC1WYWx1ZS9vZit0aGU9c2VjcmV0LTQ3MTE=" in world.api.asked[1]
    assert "/query?key=r3al-Value%2Fof%2Bthe%3Dsecret-4711&b=1" in world.api.asked[2]
    assert world.api.asked[3].endswith("key=r3al-Value%2Fof%2Bthe%3Dsecret-4711")
    assert world.api.asked[4].endswith(json.dumps({"key": VALUE}))
    assert all(f"Authorization: Bearer {VALUE}" in asked for asked in world.api.asked[5:])
    assert [VALUE in text or "r3al" in text or "bWU6cjNhbC1" in text for text in told] == [False] * 7, told
    assert [text.count(placeholder) > 0 for text in (told[0], *told[2:6])] == [True] * 5, told


ASK = """
import os, urllib.request
token = os.environ["TOKEN"]
def ask():
    asked = urllib.request.Request("https://api.test:{port}/kernel", headers={{"Authorization": "Bearer " + token}})
    return urllib.request.urlopen(asked).read().decode()
answer = ask()
"""


def places_of(hf: Holdfast, session: Session, needle: bytes) -> list[str]:
    """Where it is, of all that there is of a session but the gateway's own folder."""
    api, container = hf.engine.client.api, str(session.row.container_id)
    found = ["inspect"] if needle in json.dumps(api.inspect_container(container)).encode() else []
    pids = [int(row[1]) for row in api.top(container)["Processes"]]
    found += [f"memory of {pid}" for pid in pids if searching.in_memory(pid, needle)]
    for layer in hf.engine.layers(container)[:1]:
        found += searching.in_folder(layer, needle)
    return found


def test_the_value_is_nowhere_but_at_the_gateway(
    shared_hf: Holdfast, session: Session, world: World, tmp_path: Path
) -> None:
    """Not in the container, its memory and files, the database, journal, recordings, snapshots or bundles, after it
    was used; nor of copies, in which the placeholder that their memory has works all the same."""
    hf, gateway = shared_hf, shared_hf.home.root / "gateway"
    placeholder = said(session, "echo $TOKEN").encode()
    session.cell(ASK.format(port=world.api.port), timeout=PATIENCE)
    said(session, f'curl -sS -H "X-Key: $TOKEN" https://api.test:{world.api.port}/file > /srv/file')
    taken = session.snapshot("used")
    (copy,) = taken.fork(1, "copy")
    session.rewind(taken)
    world.api.asked.clear()
    session.suspend()
    images = [str(one) for one in searching.in_folder(hf.home.root, VALUE.encode(), but=[gateway])]
    session.resume()

    for each in (session, copy):
        told = each.cell("ask()", timeout=PATIENCE)
        assert told.status == "ok", told.error
        assert placeholder.decode() in told.text
        assert places_of(hf, each, VALUE.encode()) == []
        known = places_of(hf, each, placeholder)
        assert "inspect" in known
        assert any(place.startswith("memory") for place in known)
    assert [f"Authorization: Bearer {VALUE}" in asked for asked in world.api.asked] == [True, True]
    layer = hf.engine.client.api.inspect_image(f"holdfast/snapshot:{taken.id}")["GraphDriver"]["Data"][
        "UpperDir"
    ]
    assert images + searching.in_folder(hf.home.root, VALUE.encode(), but=[gateway]) == []
    assert searching.in_folder(Path(layer), VALUE.encode()) == []
    # The same search finds what is there: in packed memory, in files of the image, in the database.
    held = searching.in_folder(hf.home.root, placeholder, but=[gateway])
    assert any(path.endswith(".pack") for path in held)
    assert any("holdfast.db" in path for path in held)
    assert searching.in_folder(Path(layer), placeholder) != []

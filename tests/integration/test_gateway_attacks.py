"""Hostile hosts, silent resolvers and hostile sessions at the gateway: others are served all the while."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import tls_greetings as greetings
from tests.machines.hostile_host import ENDLESS, SOUND, HostileHost, Names
from tests.machines.hosts import Hosts, hosts
from tests.parsers.gateway_trials import altered, in_gateway_image

from holdfast.errors import NetworkNotClosed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.egress import gateway, session_policy

PATIENCE = 240.0
CALLING = Path(__file__).parents[1] / "inside" / "calling.py"
MANY = 300
BODY = 64 << 20
MORE = 112 << 20
"""Bytes; the process of a session may take some less (`session_process.BUDGET`)."""


@pytest.fixture(scope="module")
def world(shared_hf: Holdfast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with hosts(shared_hf, tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture(scope="module")
def hostile(shared_hf: Holdfast, world: Hosts) -> Iterator[HostileHost]:
    made = HostileHost(world.address)
    path = shared_hf.home.root / "network.json"
    told = json.loads(path.read_text())
    told["allow"] += [f"{world.address}:{port}" for port in (made.port, made.early)]
    told["hosts"] |= {"hostile.test": world.address}
    told["hosts"] |= {f"host{one}.test": world.address for one in range(MANY)}
    path.write_text(json.dumps(told))
    yield made
    made.close()


def keyed(hf: Holdfast, world: Hosts, name: str, *, domains: list[str] | None = None) -> Session:
    """Return a session with a secret for a plain host, or one of domains."""
    if domains is not None:
        made = hf.new(name, network="domains", domains=domains)
    else:
        made = hf.new(name, secrets=[f"TOKEN@http://plain.test:{world.plain.port}=a-value-of-{name}"])
    assert made.cell(CALLING.read_text(), timeout=PATIENCE).status == "ok"
    return made


@pytest.fixture(scope="module")
def rough(shared_hf: Holdfast, world: Hosts, hostile: HostileHost) -> Session:
    return keyed(shared_hf, world, "rough")


@pytest.fixture(scope="module")
def calm(shared_hf: Holdfast, world: Hosts, hostile: HostileHost) -> Session:
    return keyed(shared_hf, world, "calm")


def called(session: Session, code: str) -> str:
    """Return the output of the code: an expression, or statements."""
    told = session.cell(code if "\n" in code else f"print({code})", timeout=PATIENCE)
    assert told.status == "ok", told.error
    return told.stdout.strip()


def container(hf: Holdfast) -> Any:
    (found,) = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="gateway")
    return hf.engine.client.containers.get(found)


def until(look: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def get(host: str, path: str = "/") -> bytes:
    return f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


@pytest.fixture
def watched(shared_hf: Holdfast, world: Hosts, calm: Session) -> Iterator[None]:
    """The gateway is the same afterwards, and so is a connection that another session had before."""
    raw = get(f"plain.test:{world.plain.port}")
    assert called(calm, f"(link := kept({raw!r}))[1][:12]").endswith("200'")
    before = container(shared_hf).attrs["State"]["StartedAt"]
    yield
    assert called(calm, f"again(link[0], {raw!r})[:12]").endswith("200'")
    called(calm, "link[0].close()")
    assert container(shared_hf).attrs["State"]["StartedAt"] == before


@pytest.mark.thorough
def test_hostile_answers_end_with_their_connection(
    shared_hf: Holdfast, rough: Session, hostile: HostileHost, watched: None
) -> None:
    """Heads, lines, trailers and hints without end, HTTP/2 and messages of a WebSocket: none is kept.

    Ordinary trailers and hints of honest hosts are not an error.
    """
    place = f"hostile.test:{hostile.port}"
    answers = {what: called(rough, f"exchange({get(place, '/' + what)!r})") for what in ENDLESS}
    for what in SOUND:  # twice, since what ends properly is followed by another
        answers[what] = called(rough, f"exchange({get(place, '/' + what) * 2!r})")

    for what in ENDLESS:
        until(lambda what=what: what in hostile.ended and hostile.ended[what].is_set(), what)  # type: ignore[misc]
        assert hostile.sent[what] > 512, what
    assert [
        what for what in ("head", "status", "chunk-size", "trailers") if hostile.sent[what] <= 64 << 10
    ] == []
    for what in ("head", "status", "informational", "http2"):
        assert answers[what].startswith("HTTP/1.1 502"), (what, answers[what])
    assert "too long" in answers["head"]
    assert "too many informational answers" in answers["informational"]
    for what in ("chunk-size", "trailers"):
        assert answers[what].startswith("HTTP/1.1 200"), (what, answers[what])
    for what in SOUND:
        assert answers[what].startswith("HTTP/1.1 200"), (what, answers[what])
        # The host may hang up after one: then the other is answered with that.
        assert answers[what].count("HTTP/1.1 ") == 2, (what, answers[what])
        assert "ok" in answers[what]

    ask = get(place, "/websocket")[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    # The session reads only the head: then the host can send what fits between, and no more.
    assert called(rough, f"(unread := socket.create_connection(GATEWAY, 60)).sendall({ask!r})") == "None"
    assert called(rough, "unread.recv(12)") == "b'HTTP/1.1 101'"
    until(lambda: hostile.sent.get("websocket", 0) > 64 << 10, "the message of the WebSocket")
    called(rough, f"exchange({get(place, '/hint')!r})")
    # And if it reads, more than a session's process may keep.
    assert called(rough, f"received(unread, {MORE})") == "True"
    called(rough, "unread.close()")
    until(lambda: hostile.ended["websocket"].is_set(), "the end of the WebSocket")
    assert "too much memory" not in container(shared_hf).logs().decode()


@pytest.mark.thorough
def test_excess_memory_ends_its_session_alone(
    shared_hf: Holdfast, rough: Session, world: Hosts, watched: None
) -> None:
    """Many bodies that wait for their last byte: the session's process ends, and comes back."""
    place = f"plain.test:{world.plain.port}"
    body = 1_040_000
    head = f"POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: {body}\r\n\r\n".encode()

    count = called(rough, f"len(calls := filled({head!r} + b'b' * {body - 1}, 120))")

    assert count == "120"
    assert called(rough, "ended(calls, 50)") == "True"  # the last of them went to the next process
    assert "too much memory" in container(shared_hf).logs().decode()
    called(rough, "[one.close() for one in calls] and None")
    assert called(rough, f"exchange({get(place)!r})[:12]") == "HTTP/1.1 200"


@pytest.mark.thorough
def test_names_that_no_resolver_answers_for_delay_no_other_session(
    shared_hf: Holdfast, rough: Session, calm: Session, world: Hosts, watched: None
) -> None:
    """A session asks for 120 of them; the name of another session is found. They are distinguished from
    absent ones.

    Of a body for such a host only the part that fits between is read.
    """
    resolver = Names({"served.test": world.address}, "absent.test")
    path = Path(container(shared_hf).attrs["ResolvConfPath"])
    before = path.read_text()
    try:
        path.write_text(f"nameserver {resolver.address}\n")
        asked = "[f'CONNECT silent{one}.test:443 HTTP/1.1\\r\\n\\r\\n'.encode() for one in range(120)]"
        called(
            rough,
            f"calls = [socket.create_connection(GATEWAY, 60) for _ in range(120)]\n"
            f"for one, raw in zip(calls, {asked}): one.sendall(raw)\n",
        )
        until(lambda: len({name for name in resolver.asked if name.startswith("silent")}) >= 8, "look-ups")
        head = f"POST http://silent.test/ HTTP/1.1\r\nHost: silent.test\r\nContent-Length: {BODY}\r\n\r\n"
        assert 64 << 10 < int(called(rough, f"pushed({head.encode()!r}, {BODY})")) < BODY // 2
        served = get(f"served.test:{world.plain.port}")
        for _ in range(3):
            assert called(calm, f"exchange({served!r})[:12]") == "HTTP/1.1 200"
        assert "served.test" in resolver.asked

        assert "the name does not have an address" in called(
            calm, "exchange(b'CONNECT absent.test:443 HTTP/1.1\\r\\n\\r\\n')"
        )
        silent = called(rough, "again(calls[0], b'').decode()")
        assert "the resolver does not answer" in silent
        assert "no address" not in silent
    finally:
        called(rough, "[one.close() for one in calls] and None")
        path.write_text(before)
        resolver.close()


@pytest.mark.thorough
def test_connections_to_hosts_are_counted_for_each_session(
    rough: Session, calm: Session, world: Hosts, watched: None
) -> None:
    """A session has two for each call it can have, however few calls it makes; another session has its
    own."""
    code = (
        f"links = [socket.create_connection(GATEWAY, 60) for _ in range(6)]\n"
        f"answers = []\n"
        f"for one in range({MANY}):\n"
        f"    name = f'host{{one}}.test:{world.plain.port}'\n"
        f"    raw = f'GET http://{{name}}/ HTTP/1.1\\r\\nHost: {{name}}\\r\\n\\r\\n'.encode()\n"
        f"    answers.append(again(links[one * 6 // {MANY}], raw))\n"
        f"    if b' 200' not in answers[-1][:13]: break\n"
        f"print(len(answers), answers[-1])\n"
    )
    count, _, last = called(rough, code).partition(" ")

    assert int(count) == 257
    assert "too many connections to hosts" in last
    assert called(calm, f"exchange({get(f'host0.test:{world.plain.port}')!r})[:12]") == "HTTP/1.1 200"
    called(rough, "[one.close() for one in links] and None")


@pytest.mark.thorough
def test_connections_are_made_to_judged_addresses_only(shared_hf: Holdfast) -> None:
    """Whatever a name stands for when its connection is made, and wherever that leads."""
    assert "only to judged addresses" in in_gateway_image(shared_hf, "tests.parsers.gateway_pins")


@pytest.mark.thorough
def test_altered_requests_and_answers_are_read_as_hosts_read_them(shared_hf: Holdfast) -> None:
    """Hosts find the requests that were judged, and no other; sessions get no value of a secret."""
    assert "all was read or refused" in altered(shared_hf, "gateway", 300)


def test_a_tunnel_to_a_domain_carries_tls_that_names_it(
    shared_hf: Holdfast, world: Hosts, hostile: HostileHost
) -> None:
    """Plain HTTP, other record versions, different, several or hidden names end it, and so does a host that
    speaks first; port 80 has none.
    """
    api, plain = f"api.test:{world.api.port}", f"plain.test:{world.plain.port}"
    early = f"hostile.test:{hostile.early}"
    session = keyed(shared_hf, world, "narrow", domains=[api, plain, early, "web.test"])
    greeting = greetings.openssl("api.test", greetings.TLS12, greetings.TLS13)
    other = greetings.openssl("elsewhere.test", greetings.TLS12, greetings.TLS13)
    named = greetings.names(b"api.test")
    attacks: dict[str, tuple[str, tuple[bytes, ...]]] = {
        "plain HTTP": (plain, (b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n",)),
        "plain HTTP to TLS": (api, (b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n",)),
        "another name": (api, (other,)),
        "another version": (api, (greeting[:1] + b"\x03\x04" + greeting[3:],)),
        "another version and name": (api, (other[:1] + b"\x03\x04" + other[3:],)),
        "in pieces": (api, (other[:3], other[3:100], other[100:])),
        "two names": (
            api,
            (greetings.records(greetings.hello(greetings.names(b"api.test", b"elsewhere.test"))),),
        ),
        "a hidden name": (
            api,
            (greetings.records(greetings.hello(named + greetings.extension(0xFE0D, b"\x00" + b"e" * 99))),),
        ),
        "no name": (api, (greetings.openssl(None, greetings.TLS12, greetings.TLS13),)),
        "SSL 2": (api, (b"\x80\x2e\x01\x03\x03\x00\x15\x00\x00\x00\x10" + b"c" * 37,)),
        "another greeting after it": (api, (greeting + other,)),
        "the host speaks first": (early, ()),
    }
    world.asked()

    good = called(session, f"through({api!r}, {greeting!r})[1][:3].hex()")
    pieces = (greeting[:3], greeting[3:99], greeting[99:])
    cut = called(session, f"through({api!r}, *{pieces!r})[1][:3].hex()")
    ended = {
        what: called(session, f"through({place!r}, *{pieces!r})") for what, (place, pieces) in attacks.items()
    }

    assert (good, cut) == ("160303", "160303")
    assert {what: text for what, text in ended.items() if text != "('200', b'')"} == {}
    assert world.asked() == []
    assert hostile.spoke == 1
    assert called(session, f"exchange({get(plain)!r})[:12]") == "HTTP/1.1 200"
    assert "a tunnel to port 80 is not allowed" in called(session, "connect('web.test:80')")
    quic = (
        "quic = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "try: print(quic.sendto(b'q' * 1200, ('198.51.100.7', 443)))\n"
        "except PermissionError: print('refused')\n"
    )
    assert called(session, quic) == "refused"
    recorded = {(one.host, one.port) for one in session_policy.refused(shared_hf.home, session.id)}
    assert {("api.test", world.api.port), ("plain.test", world.plain.port)} <= recorded
    session.remove()


def test_an_attempt_goes_on_where_the_last_one_left_the_gateway(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that stays behind is an error, and stays for the next session; an ended one is replaced."""
    first = hf.new("first", network="domains")
    made = container(hf)
    place = gateway.known(hf.home)
    assert place is not None
    # As if it was still starting, and got no time for it.
    made.pause()
    gateway._starting(hf.home).touch()
    first.remove()
    assert container(hf).id == made.id
    monkeypatch.setattr(gateway, "START_SECONDS", 0.5)
    with pytest.raises(NetworkNotClosed, match="it does not answer at") as refused:
        hf.new("second", network="domains")
    assert "try again" in str(refused.value.hint)
    assert [row.name for row in hf.store.sessions()] == []
    made.unpause()
    monkeypatch.undo()

    second = hf.new("second", network="domains")

    assert container(hf).id == made.id
    made.kill()  # as a person does: the engine leaves it ended
    with gateway.alone(hf.home), pytest.raises(NetworkNotClosed, match="its process ended"):
        gateway._await(hf.engine, hf.home, place)
    second.remove()
    assert hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="gateway") == {}

"""Servers keep listening in copies on any address, and connections in every state are unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast

# Connections in all states that last, on three addresses: half-closed with bytes on their way, left by a peer
# that is gone, closed by both with bytes unread, and not accepted yet.
STATES = """
import json, os, socket
held = {}
def pair(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    client = socket.socket(family); client.connect(listener.getsockname()[:2])
    return listener, client, listener.accept()[0]
def asking(host, backlog, count):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family, backlog=backlog)
    clients = [socket.socket(family) for _ in range(count)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(listener.getsockname()[:2])
    return listener, clients
for host in ("127.0.0.1", "::1", socket.gethostbyname(socket.gethostname())):
    half, left, both = pair(host), pair(host), pair(host)
    half[1].sendall(b"question"); half[1].shutdown(socket.SHUT_WR)
    left[2].sendall(b"answer"); left[2].close()
    both[1].sendall(b"one"); both[2].sendall(b"two")
    both[1].shutdown(socket.SHUT_WR); both[2].shutdown(socket.SHUT_WR)
    kind = host if host in ("127.0.0.1", "::1") else "own"
    held[kind] = (half, left, both, asking(host, 128, 1), asking(host, 0, 4))
"""
# Reads to the end of the stream, and says so.
LOOK = """
def read(connection):
    connection.settimeout(60)
    got = b""
    while True:
        data = connection.recv(100)
        if not data: return got.decode() + "|"
        got += data
said = {}
for kind, (half, left, both, one, full) in held.items():
    half[2].sendall(b"reply"); half[2].shutdown(socket.SHUT_WR)
    said[kind] = [read(half[2]), read(half[1]), read(left[1]), read(both[1]), read(both[2])]
    for listener, clients in (one, full):
        if COPY: [client.close() for client in clients]
        listener.settimeout(60)
        # Whoever asks while the queue is full is answered seconds later: see tcp_syn_retries in tcp(7).
        if not COPY: said[kind].append(listener.accept()[0].close() is None); continue
        fresh = socket.socket(listener.family); fresh.settimeout(60)
        fresh.connect(listener.getsockname()[:2])
        said[kind].append(fresh.getsockname()[1] > 0)
print(json.dumps(said))
"""


@pytest.mark.thorough
def test_connections_in_every_state_come_back(hf: Holdfast) -> None:
    """Bytes on their way are read, then the end; listeners whose queue was full accept new callers."""
    session = hf.new("states")
    told = session.cell(STATES, timeout=60)
    assert told.status == "ok", told.error
    copy = session.snapshot().restore("copy")
    again = copy.snapshot().restore("again")
    whole = ["question|", "reply|", "answer|", "two|", "one|", True, True]
    for each, is_copy in ((copy, True), (again, True), (session, False)):
        told = each.cell(f"COPY = {is_copy}\n" + LOOK, timeout=240)
        assert told.status == "ok", told.error
        assert json.loads(told.stdout) == {"127.0.0.1": whole, "::1": whole, "own": whole}


@pytest.fixture
def ipv6_network(hf: Holdfast) -> Iterator[Any]:
    """A network of the engine with IPv6 addresses."""
    import docker.types

    pool = docker.types.IPAMPool(subnet="fd00:601d:fa57::/64")
    made = hf.engine.client.networks.create(
        "holdfast-test-ipv6", enable_ipv6=True, ipam=docker.types.IPAMConfig(pool_configs=[pool])
    )
    yield made
    made.reload()
    for container in made.containers:
        made.disconnect(container, force=True)
    made.remove()


BOUND = """
import json, os, socket
own = socket.gethostbyname(socket.gethostname())
def listening(family, address, **options):
    made = socket.create_server((address, 0), family=family, **options)
    return made, made.getsockname()[1]
def bound(family, address):
    made = socket.socket(family, socket.SOCK_DGRAM); made.bind((address, 0)); return made
places = {
    "any": listening(socket.AF_INET, "0.0.0.0"),
    "own": listening(socket.AF_INET, own),
    "any6": listening(socket.AF_INET6, "::", dualstack_ipv6=True),
    "only6": listening(socket.AF_INET6, "::"),
    "own6": listening(socket.AF_INET6, OWN6),
}
group = [socket.socket() for _ in range(3)]
for each in group:
    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    each.bind(("127.0.0.1", group[0].getsockname()[1] if each is not group[0] else 0)); each.listen()
datagrams = {"own": bound(socket.AF_INET, own), "own6": bound(socket.AF_INET6, OWN6)}
"""
TRY = """
own = socket.gethostbyname(socket.gethostname())
def reached(listener, host, port):
    listener.settimeout(60)
    with socket.create_connection((host, port), timeout=60), listener.accept()[0]: return True
said = {
    "any": reached(*places["any"][:1], "127.0.0.1", places["any"][1]),
    "own": reached(places["own"][0], own, places["own"][1]) and places["own"][0].getsockname()[0] == own,
    "any6": reached(places["any6"][0], own, places["any6"][1]),
    "only6": reached(places["only6"][0], "::1", places["only6"][1]),
    "own6": reached(places["own6"][0], HOST6, places["own6"][1]),
    "udp": datagrams["own"].getsockname()[0] == own,
}
sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sender.sendto(b"x", (HOST6, datagrams["own6"].getsockname()[1]))
said["udp6"] = datagrams["own6"].recv(9) == b"x"
import select
taken = 0
for _ in range(30):
    with socket.create_connection(group[0].getsockname(), timeout=60):
        for ready in select.select(group, [], [], 60)[0]: ready.accept()[0].close(); taken += 1
said["group"] = taken == 30
said["option"] = all(each.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for each in group)
print(json.dumps([name for name, well in said.items() if not well]))
"""


def test_listeners_come_back_on_all_addresses(hf: Holdfast, ipv6_network: Any) -> None:
    """Listeners on any address, on the session's own, which differs in a copy, on IPv6 ones that a copy can
    lack, and groups of a port."""
    session = hf.new("listening")
    ipv6_network.connect(session.row.container_id)
    ask = "ip -6 -o addr show scope global | awk '{print $4}' | cut -d/ -f1"
    own6 = session.exec(ask, timeout=30).text.strip()
    assert own6.startswith("fd00:601d:fa57:")
    told = session.cell(f"OWN6 = {own6!r}\n" + BOUND, timeout=60)
    assert told.status == "ok", told.error
    copy = session.snapshot().restore("copy")
    for each, host6 in ((copy, "::1"), (session, own6)):
        told = each.cell(f"HOST6 = {host6!r}\n" + TRY, timeout=240)
        assert told.status == "ok", told.error
        assert json.loads(told.stdout) == []


@pytest.mark.thorough
def test_a_session_without_network_keeps_its_connections(hf: Holdfast, witnesses: Any) -> None:
    """Loopback is all it has, and its copies have the same."""
    session = hf.new("alone", network="none")
    witnesses.start(hf, session, "tcp", "tcp6", "udp")
    copy = session.snapshot().restore("copy")
    for each in (session, copy):
        assert witnesses.wrong(each, 20) == {}
        assert each.exec("ip -o link | wc -l", timeout=30).text == "1\n"

"""A session's reach: the internet, but not the host, its networks, its cloud or other sessions.

The attacks come from a program in the session that connects. Another program connects without end and is
captured in the middle of that: it shows whether the same rules hold in a restored session before anything
runs.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.integration import foreign_first

from holdfast.engine import networks
from holdfast.errors import InvalidArgument, LiveUnsupported, NetworkNotClosed, SessionDead
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.doctor import round_trip
from holdfast.runtime.egress import close_network, home_network, host_network, package_hosts
from holdfast.runtime.sessions.network_exceptions import Allowed
from holdfast.snapshots import service
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules

PATIENCE = 600.0
NET_ADMIN = 1 << 12


class HostService:
    """Listens on every address of the host, for TCP and UDP, and remembers its callers."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port: int = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.udp.bind(("::", self.port))
        self.came: list[str] = []
        for target in (self._accept, self._receive):
            threading.Thread(target=target, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, address = self.tcp.accept()
                self.came.append(f"tcp {address[0]}")
                connection.sendall(b"host")
                connection.close()

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data, address = self.udp.recvfrom(100)
                if not data:
                    return
                self.came.append(f"udp {address[0]}")

    def close(self) -> None:
        self.udp.sendto(b"", ("::1", self.port))
        self.tcp.shutdown(socket.SHUT_RDWR)
        self.tcp.close()
        self.udp.close()


@dataclass
class Place:
    """The host as a session sees it: a service on it, its addresses, and the route to it."""

    service: HostService
    gateway: str
    addresses: list[str]

    @property
    def port(self) -> int:
        return self.service.port


@pytest.fixture(scope="module")
def host(shared_hf: Holdfast) -> Iterator[Place]:
    network = shared_hf.engine.client.api.inspect_network(networks.ensure(shared_hf.engine))
    made = HostService()
    known = [str(one) for one in host_network.look().addresses if not one.is_link_local]
    yield Place(made, str(network["IPAM"]["Config"][0]["Gateway"]), known)
    made.close()


CONNECT = """
import errno, json, socket
def tried(place):
    host, port, kind = place
    try:
        with socket.create_connection((host, port), 5) if kind == "tcp" else socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM
        ) as one:
            if kind == "udp":
                one.connect((host, port)); one.send(b"x"); one.settimeout(0.3); one.recv(1)
    except TimeoutError:
        return "silence"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "connected"
print(json.dumps([tried(place) for place in PLACES]))
"""
REFUSED = {"ECONNREFUSED", "EPERM", "EACCES", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL"}
"""The errors that a program gets at once. The last two: there is no IPv6 route at all."""


def tried(session: Session, *places: tuple[str, int, str]) -> list[str]:
    """Return the outcome of each attempt to connect."""
    told = session.cell(CONNECT.replace("PLACES", repr(places)), timeout=PATIENCE)
    assert told.status == "ok", told.error
    found: list[str] = json.loads(told.stdout)
    return found


def said(session: Session, command: str) -> str:
    return session.exec(command, timeout=PATIENCE).text.strip()


# What a default session reaches.


def test_no_service_of_the_host_is_reached_on_any_of_its_addresses(shared: Session, host: Place) -> None:
    """Over TCP and UDP; the program is refused immediately; nothing arrives. One is the bridge's own."""
    assert host.gateway in host.addresses
    places = [(address, host.port, kind) for address in host.addresses for kind in ("tcp", "udp")]

    found = tried(shared, *places)

    assert set(found) <= REFUSED, dict(zip(places, found, strict=True))
    assert host.service.came == []


def test_nothing_around_the_host_or_of_a_cloud_is_reached(shared: Session) -> None:
    """Its networks, private and shared ones, metadata, multicast and broadcast are refused without delay."""
    connected = [str(one[1]) for one in host_network.look().networks if one.num_addresses > 2]
    private = ["10.1.2.3", "172.20.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "168.63.129.16"]
    others = ["224.0.0.251", "255.255.255.255", "fd00:ec2::254", "fe80::1", "fd00::1", "ff02::1"]
    places = [(address, 80, kind) for address in (*connected, *private, *others) for kind in ("tcp", "udp")]

    found = dict(zip(places, tried(shared, *places), strict=True))

    assert set(found.values()) <= {*REFUSED, "EINVAL"}, found


def test_the_internet_is_reached(shared: Session) -> None:
    """Names resolve, and packages come from where this machine has them."""
    assert said(shared, "apt-get update -q >/dev/null 2>&1; echo $?") == "0"
    assert said(shared, "pip download -q --no-deps -d /tmp/six six >/dev/null 2>&1; echo $?") == "0"


def test_sessions_neither_reach_nor_know_each_other(shared_hf: Holdfast, shared: Session) -> None:
    """Neither by address nor by name; the engine's resolver, which knows names, is refused."""
    other = shared_hf.new("neighbour")
    code = "import socket; s = socket.create_server(('0.0.0.0', 0)); print(s.getsockname()[1])"
    port, address = int(other.cell(code, timeout=PATIENCE).stdout), said(other, "hostname -i")
    names = ("neighbour", f"holdfast-{other.id}", other.row.container_id or "")

    assert set(tried(shared, (address, port, "tcp"), (address, port, "udp"))) <= REFUSED
    assert [said(shared, f"getent hosts {name}; echo $?") for name in names] == ["2"] * 3
    assert set(tried(shared, ("127.0.0.11", 53, "tcp"), ("127.0.0.11", 53, "udp"))) <= REFUSED
    listening = "ss -Hlnu src 127.0.0.11 | awk '{print $4}' | cut -d: -f2"
    engines = [(("127.0.0.11"), int(each), "udp") for each in said(shared, listening).split()]
    assert set(tried(shared, *engines)) <= REFUSED
    assert said(shared, "touch /etc/resolv.conf 2>&1").endswith("Read-only file system")
    # The host's own programs may still use what a session serves.
    with socket.create_connection((address, port), timeout=30):
        pass


def test_no_program_of_a_session_can_change_the_network(shared: Session) -> None:
    """No process, not even the first, has NET_ADMIN in any set."""
    sets = said(shared, "cat /proc/[0-9]*/status | grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' | cut -f2 | sort -u")

    assert sets
    assert [word for word in sets.split() if int(word, 16) & NET_ADMIN] == []


DISGUISE = f"""
cat > /srv/first <<'END' && chmod 755 /srv/first
#!/bin/sh
grep ^Cap /proc/self/status | cut -f2 >/srv/seen
ip route add 192.0.2.77/32 dev eth0 2>/srv/refused
exec "{foreign_first.OURS}" "$@"
END
"""


def test_a_replaced_first_process_cannot_change_the_network(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is made to run a program of root in the session first. It cannot change the network; nor can
    anything it leaves behind.
    """
    session = hf.new("disguised")
    assert session.exec(DISGUISE, timeout=PATIENCE).ok
    foreign_first.begin(monkeypatch, "/srv/first")
    foreign_first.overlook(monkeypatch, hf)

    copy = session.snapshot(kind="filesystem").restore("copy")

    sets = [int(word, 16) for word in said(copy, "cat /srv/seen").split()]
    assert len(sets) == 5  # it was the first, and ran
    sets += [int(word, 16) for word in said(copy, "grep ^Cap /proc/1/status | cut -f2").split()]
    assert [bits for bits in sets if bits & NET_ADMIN] == []
    assert "Operation not permitted" in said(copy, "cat /srv/refused")
    assert said(copy, "ip route show 192.0.2.77/32") == ""


# The same rules, however a session was made.

RESTLESS = """
import socket, threading
heard, tries = [], 0
def restless():
    global tries
    while True:
        tries += 1
        try:
            with socket.create_connection(({gateway!r}, {port}), 5) as one:
                heard.append(one.recv(4))  # nothing, of a call that a capture found in its middle
        except OSError:
            pass
threading.Thread(target=restless, daemon=True).start()
"""
HEARD = """
import time
before = tries
while tries < before + 2:
    time.sleep(0.01)
any(heard)
"""
"""It tries here and now, and what it has heard of the host."""


@pytest.mark.thorough
def test_the_rules_hold_before_a_restored_program_runs(hf: Holdfast, host: Place) -> None:
    """A program that connects without pause fails every time: in forks, after a rewind, a resume, and without
    its
    processes; and the first process never has a right to the network.
    """
    session = hf.new("restless")
    session.cell(RESTLESS.format(gateway=host.gateway, port=host.port), timeout=PATIENCE)
    taken = session.snapshot()
    copies = [*taken.fork(2, "copy"), session.snapshot(kind="filesystem").restore("files")]
    session.exec("x=1")
    session.rewind(taken)
    session.suspend()
    session.resume()

    for each in (session, *copies):
        assert set(tried(each, (host.gateway, host.port, "tcp"))) <= REFUSED
        bits = int(said(each, "awk '/^CapBnd/ {print $2}' /proc/1/status"), 16)
        assert not bits & NET_ADMIN
    assert host.service.came == []
    heard = [each.cell(HEARD, timeout=PATIENCE).text for each in (session, *copies[:2])]
    assert heard == ["False"] * 3


def test_a_session_that_is_reconnected_has_its_rules(
    shared_hf: Holdfast, shared: Session, host: Place
) -> None:
    """They belong to the network namespace, not to the interface that a rewind removes and adds.

    Its address can be in use by then; in that case it gets a new one.
    """
    container, address = str(shared.row.container_id), said(shared, "hostname -i")
    networks.leave(shared_hf.engine, container)
    networks.join(shared_hf.engine, container, [address])

    assert set(tried(shared, (host.gateway, host.port, "tcp"))) <= REFUSED
    assert said(shared, "apt-get update -q >/dev/null 2>&1; echo $?") == "0"


def test_rules_that_are_not_in_force_are_noticed(shared_hf: Holdfast, shared: Session) -> None:
    """The check after a restore is real: it fails when the rules differ from the set ones."""
    network = close_network.Closing(shared_hf.engine, shared_hf.home, print)
    state = shared_hf.engine.inspect(str(shared.row.container_id))
    assert state is not None

    with pytest.raises(NetworkNotClosed, match="not in force: set refused4"):
        network.check(close_network.ClosedNetwork(state, NetworkRules()))


def test_a_container_that_is_started_by_hand_runs_nothing(hf: Holdfast) -> None:
    """Its first process waits, alone, until its network is closed; the session is reported dead."""
    session = hf.new("stopped")
    api, container = hf.engine.client.api, str(session.row.container_id)
    api.stop(container, timeout=10)
    api.start(container)
    state = hf.engine.inspect(container)
    assert state is not None
    assert state.running

    assert len(api.top(container)["Processes"]) == 1
    with pytest.raises(SessionDead, match="started by hand: nothing runs in it"):
        session.exec("true", timeout=5)
    assert hf.session("stopped").state == "dead"
    assert len(api.top(container)["Processes"]) == 1


# What is chosen.


def test_only_allowed_destinations_are_reached_also_in_copies(hf: Holdfast, cli: Any, host: Place) -> None:
    """One port of one address; a name counts as its current addresses; the choice goes along with a
    snapshot.
    """
    place = f"{host.gateway}:{host.port}"
    assert cli("new", "--name", "some", "--allow", place, "--allow", "localhost:1").code == 0
    session = hf.session("some")
    copy = session.snapshot().restore("some-copy")

    for each in (session, copy):
        assert tried(each, (host.gateway, host.port, "tcp")) == ["connected"]
        assert (
            set(tried(each, (host.gateway, host.port + 1, "tcp"), ("172.17.0.1", host.port, "tcp")))
            <= REFUSED
        )
    host.service.came.clear()


def test_an_open_session_reaches_the_host_but_no_metadata_and_no_session(
    shared_hf: Holdfast, shared: Session, host: Place
) -> None:
    """Only on request."""
    session = shared_hf.new("wide", network="open")
    neighbour = said(shared, "hostname -i")

    assert tried(session, (host.gateway, host.port, "tcp")) == ["connected"]
    assert set(tried(session, ("169.254.169.254", 80, "tcp"), (neighbour, 80, "tcp"))) <= REFUSED
    assert said(session, "getent hosts shared; echo $?") == "2"
    host.service.came.clear()


def test_a_name_without_an_address_is_refused_before_anything_is_made(
    shared_hf: Holdfast, shared: Session
) -> None:
    """In one line."""
    with pytest.raises(InvalidArgument, match=r"^cannot allow no-such\.invalid: no address"):
        shared_hf.new("never", allow=["no-such.invalid:80"])

    assert [each.name for each in shared_hf.sessions() if each.name == "never"] == []


def test_without_the_checkpointer_only_a_session_without_a_network_begins(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused and nothing is left of it, never open; a session without a network does not need it."""

    def refuse(*_: object) -> None:
        raise LiveUnsupported("cannot start the checkpointer: not here")

    monkeypatch.setattr(service, "_start", refuse)

    with pytest.raises(NetworkNotClosed, match="cannot start the checkpointer") as refused:
        hf.new("refused")
    assert "--network none" in refused.value.hint
    assert hf.sessions() == []
    assert hf.engine.containers(holdfast_home=hf.home.digest) == {}
    alone = hf.new("alone", network="none")
    assert said(alone, "ls /sys/class/net") == "lo"


def test_the_first_sessions_of_a_home_can_start_at_once(hf: Holdfast, cli: Any) -> None:
    """All need the checkpointer, and none finds one: it is started once."""
    started = [cli.start("new", "--name", name, stderr=subprocess.PIPE) for name in ("a", "b", "c")]
    said = [each.communicate(timeout=PATIENCE)[1].decode() for each in started]

    assert [each.returncode for each in started] == [0, 0, 0], said
    assert len(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer")) == 1


# Package sources on private addresses, and what doctor says.


def test_package_sources_on_closed_addresses_are_opened_for_all_sessions(
    hf: Holdfast, host: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly the host and port the machine's own configuration names, and only if it would be closed."""
    mirror = Allowed.parse(f"{host.gateway}:{host.port}")
    monkeypatch.setattr(package_hosts, "find", lambda *_, **__: [mirror, Allowed.parse("8.8.8.8:443")])
    session = hf.new("mirrored")

    assert home_network.read(hf.home).found == (mirror,)
    assert tried(session, (host.gateway, host.port, "tcp")) == ["connected"]
    assert set(tried(session, (host.gateway, host.port + 1, "tcp"))) <= REFUSED
    checked = round_trip.egress_check(session, hf.home)
    assert checked.ok
    assert str(mirror) in checked.detail
    host.service.came.clear()


def test_doctor_checks_whether_a_session_reaches_the_host(shared_hf: Holdfast, shared: Session) -> None:
    """By connecting: it passes a closed session, and fails an open one."""
    wide = next(each for each in shared_hf.sessions() if each.name == "wide")

    assert round_trip.egress_check(shared, shared_hf.home).ok
    found = round_trip.egress_check(wide, shared_hf.home)
    assert not found.ok
    assert "reached this host" in found.detail

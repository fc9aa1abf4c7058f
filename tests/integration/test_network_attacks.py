"""Root in a session tries every way to send a packet past the rules on destinations, and to hide that.

The sessions' network has no IPv6, so the test gives the session's interface an address, from outside: the
rules are in force before, and hold for it as for any interface.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.integration import foreign_first
from tests.integration.test_egress import PATIENCE, said

from holdfast.base.home import Home
from holdfast.errors import NetworkNotClosed
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.sessions import init_program
from holdfast.snapshots.checkpointer.egress.attempts import SIZE

pytestmark = pytest.mark.thorough

OUTSIDE4, OUTSIDE6 = "8.8.8.8", "2001:db8:2::1"
PRIVATE4, PRIVATE6 = "10.1.2.3", "fd00::1"
DENIED4, DENIED6 = "203.0.113.9", "2001:db8:4::1"
IPV6 = """
echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
ip addr add 2001:db8:1::2/64 dev eth0 nodad
ip -6 route add default via 2001:db8:1::1
ip neigh add 2001:db8:1::1 lladdr 02:00:00:00:00:01 dev eth0
"""

# A packet, by family, type and protocol of the socket, its options, the address it is bound to, and control
# messages. The numbers are those of <linux/in.h>, <linux/in6.h> and <linux/socket.h>.
PREPARE = r"""
import errno, itertools, json, socket, struct
V4, V6 = socket.AF_INET, socket.AF_INET6
TCP, UDP, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
ports = itertools.count(20000)
def named(error):
    return errno.errorcode.get(error.errno, str(error))
def send(family, kind, address, protocol=0, options=(), bind=None, control=(), data=b"8 octets"):
    try:
        one = socket.socket(family, kind, protocol)
    except OSError as error:
        return "no socket: " + named(error)
    with one:
        try:
            for option in options:
                one.setsockopt(*option)
            if bind:
                one.bind((bind, 0))
        except OSError as error:
            return "no option: " + named(error)
        try:
            one.settimeout(0.3)
            if kind == TCP:
                one.connect(address)
                return "connected"
            one.sendmsg([data], control, 0, address)
        except TimeoutError:
            return "sent"
        except OSError as error:
            return named(error)
    return "sent"
def inet(text):
    return socket.inet_pton(V6 if ":" in text else V4, text)
def route4(kind, *hops):  # RFC 791: type, length, pointer, addresses
    return bytes([kind, 3 + 4 * len(hops), 4]) + b"".join(map(inet, hops)) + b"\0"
def route6(*hops):  # RFC 8754: the last one first; the kernel writes the destination into the first place
    count = len(hops)
    head = struct.pack("BBBBBBH", 0, 2 * (count + 1), 4, count, count, 0, 0)
    return head + bytes(16) + b"".join(map(inet, hops))
DNS = 53
far4, far6, near4, near6 = (OUTSIDE4, DNS), (OUTSIDE6, DNS), (PRIVATE4, DNS), (PRIVATE6, DNS)
def both(name, far, **more):
    family, port = V6 if ":" in far[0] else V4, next(ports)
    return {
        f"{name} udp": send(family, UDP, far, **more),
        f"{name} tcp {port}": send(family, TCP, (far[0], port), **more),
    }
"""
PASSES = r"""
print(json.dumps({"4": send(V4, UDP, far4), **both("6", far6),
    "large 4": send(V4, UDP, far4, data=bytes(20000)), "large 6": send(V6, UDP, far6, data=bytes(20000))}))
"""
ATTACKS = r"""
found = {}
for name, near in (("4", near4), ("6", near6), ("mapped", ("::ffff:" + PRIVATE4, DNS))):
    found |= both(name, near)
    found[f"{name} large"] = send(V6 if ":" in near[0] else V4, UDP, near, data=bytes(20000))
    found[f"{name} by device"] = send(
        V6 if ":" in near[0] else V4, UDP, near, options=[(socket.SOL_SOCKET, 25, b"eth0\0")])
# The judged destination is a hop on the way to another one.
for name, option in (("loose", route4(131, OUTSIDE4)), ("strict", route4(137, OUTSIDE4)),
                     ("record", route4(7, "0.0.0.0")), ("timestamp", bytes([68, 8, 5, 0, 0, 0, 0, 0])),
                     ("alert", bytes([148, 4, 0, 0]))):
    for place in (near4, far4):
        found |= both(f"option {name} {place[0]}", place, options=[(0, 4, option)])
    found[f"message {name}"] = send(V4, UDP, far4, control=[(0, 7, option)])
for place in (near6, far6):
    found |= both(f"segments {place[0]}", place, options=[(41, 57, route6(OUTSIDE6))])
    found[f"message segments {place[0]}"] = send(V6, UDP, place, control=[(41, 57, route6(OUTSIDE6))])
for number in (54, 55, 59):  # hop-by-hop, and destination options before and behind routing
    found[f"header {number}"] = send(V6, UDP, far6, options=[(41, number, bytes([0, 0, 1, 4, 0, 0, 0, 0]))])
# Somebody else's source, so that the answer, or the blame, goes there.
for name, family, level, options, source, far in (
    ("4", V4, 0, (15, 19), "192.0.2.1", far4), ("6", V6, 41, (78, 75), "2001:db8:9::1", far6)):
    for option in options:  # FREEBIND, TRANSPARENT
        found |= both(f"source {name} {option}", far, options=[(level, option, 1)], bind=source)
found["source of loopback"] = send(V6, UDP, far6, bind="::1")
found["source by message"] = send(V6, UDP, far6, options=[(41, 78, 1)],
    control=[(41, 50, inet("2001:db8:9::1") + bytes(4))])
# Many at once.
index = socket.if_nametoindex("eth0")
for address in ("224.0.0.1", "224.0.0.251", "239.255.255.250", "232.1.1.1"):
    found[address] = send(V4, UDP, (address, 5353))
for address in ("ff02::1", "ff02::fb", "ff05::2", "ff0e::1", "ff3e::1"):
    found[address] = send(V6, UDP, (address, 5353, 0, index))
found["broadcast"] = send(V4, UDP, ("255.255.255.255", 67), options=[(socket.SOL_SOCKET, 6, 1)])
# Data in the first packet.
for name, place in (("4", near4), ("6", near6)):
    with socket.socket(V6 if name == "6" else V4, TCP) as one:
        one.setsockopt(socket.SOL_SOCKET, 21, struct.pack("ll", 5, 0))  # SNDTIMEO
        try:
            one.sendto(b"first", 0x20000000, place)
            one.recv(1)
            found[f"fast open {name}"] = "connected"
        except OSError as error:
            found[f"fast open {name}"] = named(error)
# Other protocols: UDP-Lite, SCTP, DCCP, MPTCP; ICMP without rights; whatever a header may name, raw.
for protocol, kind in ((136, UDP), (132, TCP), (132, 5), (33, 6), (262, TCP)):
    for place in (near4, far4, near6, far6):
        found[f"protocol {protocol} {kind} {place[0]}"] = send(
            V6 if ":" in place[0] else V4, kind, place, protocol=protocol)
found["ping 4"], found["ping 6"] = (send(V4, UDP, (PRIVATE4, 0), protocol=1),
    send(V6, UDP, (PRIVATE6, 0), protocol=58))
for protocol in range(1, 256):
    found[f"raw {protocol}"] = send(V4, RAW, near4, protocol=protocol)
    found[f"raw6 {protocol}"] = send(V6, RAW, (PRIVATE6, 0), protocol=protocol)
try:
    socket.socket(socket.AF_PACKET, RAW, 3).close()
    found["link layer"] = "sent"
except OSError as error:
    found["link layer"] = named(error)
# Transforms (IPsec) and marks, which other rules than these may go by.
found["transform"] = send(V4, UDP, near4, options=[(0, 17, bytes(200))])
found["encapsulated"] = send(V4, UDP, near4, options=[(17, 100, 2)])
found["mark"] = send(V4, UDP, near4, options=[(socket.SOL_SOCKET, 36, 1)])
found["priority"] = send(V4, UDP, near4, options=[(socket.SOL_SOCKET, 12, 6)])
print(json.dumps(found))
"""
REFUSED = {"EPERM", "EACCES", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "EINVAL"}
"""The errors that a program gets for a packet that did not leave."""


def run(session: Session, program: str, closed: tuple[str, str] = (PRIVATE4, PRIVATE6)) -> dict[str, Any]:
    places = (
        ("OUTSIDE4", OUTSIDE4),
        ("OUTSIDE6", OUTSIDE6),
        ("PRIVATE4", closed[0]),
        ("PRIVATE6", closed[1]),
    )
    known = "".join(f"{name} = {value!r}\n" for name, value in places)
    told = session.cell(known + PREPARE + program, timeout=PATIENCE)
    assert told.status == "ok", told.error
    found: dict[str, Any] = json.loads(told.stdout)
    return found


@pytest.fixture(scope="module")
def six(shared_hf: Holdfast, shared: Session) -> Session:
    """The session with IPv6 that leads out of it."""
    container = str(shared.row.container_id)
    image = build.reference("session")
    given = ["--cap-add", "NET_ADMIN", "--security-opt", "systempaths=unconfined"]
    given += ["--security-opt", "apparmor=unconfined", "--network", f"container:{container}"]
    done = subprocess.run(
        ["docker", "run", "--rm", *given, "--entrypoint", "sh", image, "-ec", IPV6],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return shared


@pytest.mark.parametrize("closed", [(PRIVATE4, PRIVATE6), (DENIED4, DENIED6)], ids=["private", "denied"])
def test_no_packet_gets_past_the_rules(six: Session, closed: tuple[str, str]) -> None:
    """Source routes, headers, foreign sources, multicast, fast open, other protocols, raw sockets,
    transforms: each is refused, by the rules or before. Allowed packets are sent. So it is for addresses of
    the internet that are denied, whose neighbours are not.
    """
    denied = [f"{DENIED4}/24", DENIED6] if closed[0] == DENIED4 else []
    exempt = ["203.0.113.10", "[2001:db8:3::/48]"] if denied else []
    six.change_network(deny=denied, allow=exempt)
    passes = run(six, PASSES)
    found = run(six, ATTACKS, closed)
    six.change_network(no_deny=denied, disallow=exempt)

    assert set(passes.values()) <= {"sent", "connected"}, passes
    assert len(found) > 550
    left = {
        name: told
        for name, told in found.items()
        if told not in REFUSED and not told.startswith(("no socket: ", "no option: "))
    }
    # TCP does not learn of a dropped packet: it asks again until it times out. The record has it.
    silent = {
        name: int(name.split()[-1]) for name, told in left.items() if told == "sent" and " tcp " in name
    }
    assert {name: told for name, told in left.items() if name not in silent} == {}
    assert silent
    assert set(silent.values()) <= {one.port for one in six.network().refused}


FLOOD = """
import socket
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(3000):
    try:
        one.sendto(b"x", (f"10.{number // 250}.7.{number % 250}", 1 + number))
    except OSError:
        pass
"""


def test_a_flood_of_destinations_is_bounded_and_reported(shared_hf: Holdfast, shared: Session) -> None:
    """It fills the record, whose size is fixed; earlier entries are in it, and all is refused."""
    session = shared_hf.new("flooding")
    said(session, "curl -sm 5 10.99.99.99:9999")
    assert session.network().refused_more is False
    assert session.cell(FLOOD, timeout=PATIENCE).status == "ok"

    reached = session.network()
    again = session.network()

    places = {one.place for one in reached.refused}
    assert (reached.refused_more, len(reached.refused), "10.99.99.99:9999" in places) == (True, SIZE, True)
    assert {one.place for one in again.refused} == places
    assert len(list(session.events(kinds=["refused"]))) == SIZE
    # A full record refuses all the same.
    refused = run(session, 'print(json.dumps(both("4", near4)))')
    assert set(refused.values()) == {"ECONNREFUSED", "EPERM"}


def test_refusals_are_events_while_followed(shared: Session) -> None:
    """Once for each destination, however often it is tried."""
    followed = shared.events(follow=True, kinds=["refused"])
    shared.exec("for n in 1 2 3; do curl -sm 5 10.44.0.1:4444; done", timeout=PATIENCE)

    event = next(event for event in followed if event.data["address"] == "10.44.0.1")
    shared.exec("curl -sm 5 10.44.0.1:4444; curl -sm 5 10.44.0.2:4444", timeout=PATIENCE)
    later = next(followed)

    assert event.text == "tcp to 10.44.0.1 port 4444 was refused: the session's network rules forbid it"
    assert later.data["address"] == "10.44.0.2"
    counted = {one.place: one.packets for one in shared.network().refused}
    assert (counted["10.44.0.1:4444"], counted["10.44.0.2:4444"]) == (4, 1)


# In place of the first process: leaves a word on the host, and waits as ours does.
FOREIGN = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
int main(void)
{
	sigset_t all;

	close(open("/run/holdfast/foreign", O_CREAT | O_WRONLY, 0600));
	sigemptyset(&all);
	sigaddset(&all, SIGUSR2);
	sigaddset(&all, SIGUSR1);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGCHLD);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigdelset(&all, SIGUSR2);
	if (sigwaitinfo(&all, NULL) == SIGUSR1)
		close(open("/run/holdfast/released", O_CREAT | O_WRONLY, 0600));
	pause();
}
"""


def test_a_foreign_first_process_is_not_released(
    shared_hf: Holdfast, shared: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even without a network, where no checkpointer checks."""
    source = f"cat >/srv/f.c <<'END'\n{FOREIGN}\nEND\n"
    made = shared.exec(f"{source}gcc -o /srv/foreign /srv/f.c", timeout=PATIENCE)
    assert made.ok, made.text
    snapshot = shared.snapshot("foreign", kind="filesystem")
    left: list[str] = []
    judge = init_program.is_another

    def judged(home: Home, pid: int) -> bool:
        left.extend(path.name for path in home.run.glob("*/room/shared/foreign"))
        found = judge(home, pid)
        left.extend(path.name for path in home.run.glob("*/room/shared/released"))
        return found

    monkeypatch.setattr(init_program, "is_another", judged)
    foreign_first.begin(monkeypatch, "/srv/foreign")
    with pytest.raises(NetworkNotClosed, match="its first process is not Holdfast's own"):
        snapshot.restore("never", network="none")

    assert left == ["foreign"]  # it was the first, and ran
    assert "never" not in [each.name for each in shared_hf.sessions()]
    snapshot.remove()

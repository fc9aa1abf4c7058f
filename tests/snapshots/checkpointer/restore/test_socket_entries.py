"""What becomes of a snapshot's sockets at another address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.restore.socket_entries import adapt, half_closed

TCP, UDP = 6, 17
ESTABLISHED, SYN_SENT, FIN_WAIT2, CLOSE, CLOSE_WAIT, LISTEN = 1, 2, 5, 7, 8, 10


def words(address: str) -> list[int]:
    packed = ipaddress.ip_address(address).packed
    return [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]


@dataclass
class Isk:
    """As much of CRIU's inet_sk_entry as is looked at."""

    src_addr: list[int]
    src_port: int
    dst_addr: list[int] = field(default_factory=lambda: [0])
    dst_port: int = 0
    proto: int = TCP
    state: int = ESTABLISHED
    shutdown: int = 0


@dataclass
class Entry:
    """A file of a snapshot that may be a socket."""

    isk: Isk | None = None

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        return getattr(self, name) is not None


def connection(source: str, port: int, target: str, target_port: int) -> Entry:
    return Entry(Isk(words(source), port, words(target), target_port))


def bound(address: str, port: int, proto: int = TCP) -> Entry:
    return Entry(Isk(words(address), port, proto=proto, state=LISTEN))


def isk(entry: Entry) -> Any:
    assert entry.isk is not None
    return entry.isk


def test_loopback_pairs_survive() -> None:
    """Both ends are in the snapshot: nothing is changed."""
    pair = [connection("127.0.0.1", 5000, "127.0.0.1", 80), connection("127.0.0.1", 80, "127.0.0.1", 5000)]

    outcome = adapt([*pair, Entry()], ("172.17.0.2",), ("172.17.0.3",))

    assert (outcome.kept, outcome.moved, outcome.closed) == (2, 0, 0)
    assert [isk(end).state for end in pair] == [ESTABLISHED, ESTABLISHED]


@pytest.mark.parametrize("server", ["127.0.0.1", "172.18.0.5"])
def test_an_ipv4_client_of_a_server_on_both_families_survives(server: str) -> None:
    """The server listens on `::`: its end of the connection has both addresses mapped (ipv6(7))."""
    pair = [
        connection(server, 5000, server, 80),
        connection(f"::ffff:{server}", 80, f"::ffff:{server}", 5000),
    ]

    outcome = adapt(pair, ("172.18.0.5",), ("172.18.0.5",))

    assert outcome.closed == 0
    assert [isk(each).state for each in pair] == [ESTABLISHED, ESTABLISHED]


def test_a_connection_to_outside_is_closed() -> None:
    """The parent still uses it: the copy is a closed socket that was never connected anywhere."""
    outside = connection("172.17.0.2", 5000, "93.184.216.34", 443)

    outcome = adapt([outside], ("172.17.0.2",), ("172.17.0.3",))

    assert outcome.closed == 1
    assert (isk(outside).state, isk(outside).src_port, isk(outside).dst_port) == (CLOSE, 0, 0)
    assert isk(outside).shutdown == 3


def test_one_end_of_a_loopback_connection_is_not_enough() -> None:
    """A peer outside of the captured tree does not come back."""
    half = connection("127.0.0.1", 5000, "127.0.0.1", 80)

    assert adapt([half], (), ()).closed == 1


@pytest.mark.parametrize("state", [CLOSE, CLOSE_WAIT])
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "172.17.0.2", "::ffff:172.17.0.2"]
)
def test_what_a_closed_peer_within_has_left_is_kept(address: str, state: int) -> None:
    """The peer's socket is gone, but not what it sent: an answer that was not read yet."""
    left = connection(address, 80, address, 5000)
    isk(left).state = state

    outcome = adapt([left], ("172.17.0.2",), ("172.17.0.3",))

    assert outcome.closed == 0
    assert isk(left).state == state
    assert isk(left).dst_port == 5000


def test_what_a_closed_peer_outside_has_left_is_not() -> None:
    """Closing such a socket would send a packet to it."""
    left = connection("172.17.0.2", 5000, "93.184.216.34", 80)
    isk(left).state = CLOSE_WAIT

    assert adapt([left], ("172.17.0.2",), ("172.17.0.3",)).closed == 1


def test_a_program_that_is_still_connecting_reconnects() -> None:
    """Its call continues after the restore, with a socket that was never connected and can be."""
    asking = connection("172.17.0.2", 5000, "93.184.216.34", 443)
    isk(asking).state = SYN_SENT

    assert adapt([asking], ("172.17.0.2",), ("172.17.0.3",)).closed == 1
    assert (isk(asking).state, isk(asking).dst_port, isk(asking).shutdown) == (CLOSE, 0, 0)


def test_the_old_address_becomes_the_new_one() -> None:
    """Listeners, datagram sockets and connections to oneself move along."""
    listener, datagram = bound("172.17.0.2", 80), bound("172.17.0.2", 53, UDP)
    pair = [
        connection("172.17.0.2", 5000, "172.17.0.2", 80),
        connection("172.17.0.2", 80, "172.17.0.2", 5000),
    ]

    outcome = adapt([listener, datagram, *pair], ("172.17.0.2",), ("172.17.0.3",))

    assert outcome.moved == 4
    assert isk(listener).src_addr == isk(datagram).src_addr == words("172.17.0.3")
    assert all(isk(end).src_addr == isk(end).dst_addr == words("172.17.0.3") for end in pair)


def test_mapped_addresses_move_too() -> None:
    """An IPv6 socket may be bound to the IPv4 address."""
    listener = bound("::ffff:172.17.0.2", 80)

    adapt([listener], ("172.17.0.2",), ("172.17.0.3",))

    assert isk(listener).src_addr == words("::ffff:172.17.0.3")


def test_without_a_new_address_it_is_any() -> None:
    """A session restored without a network keeps its listener."""
    listener = bound("172.17.0.2", 80)

    adapt([listener], ("172.17.0.2",), ())

    assert isk(listener).src_addr == [0]


def test_a_listener_on_all_addresses_stays() -> None:
    """What is bound to no address in particular needs nothing."""
    listener = bound("0.0.0.0", 80)

    assert adapt([listener], ("172.17.0.2",), ("172.17.0.3",)).kept == 1


@pytest.mark.parametrize("state", [CLOSE_WAIT, FIN_WAIT2])
def test_connections_that_one_end_has_closed_are_half_closed(state: int) -> None:
    assert half_closed([bound("127.0.0.1", 80), Entry(), Entry(Isk(words("127.0.0.1"), 80, state=state))])


def test_listeners_and_whole_connections_are_not_half_closed() -> None:
    whole = Entry(Isk(words("127.0.0.1"), 80, state=ESTABLISHED))
    assert not half_closed([whole, bound("127.0.0.1", 80), Entry()])

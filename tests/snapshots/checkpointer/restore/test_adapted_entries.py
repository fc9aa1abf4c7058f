"""Entries of images in a copy: sockets at another address, terminals, memory files that are mapped."""

from __future__ import annotations

import ipaddress
import mmap
import os
import socket
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.restore import adapted_entries
from holdfast.snapshots.checkpointer.restore.adapted_entries import (
    adapt_accepted,
    adapt_sockets,
    adapt_terminals,
    half_closed,
    lengthen_queues,
    order_sockets,
    order_terminals,
    plan_terminals,
)

TCP, UDP = 6, 17
ESTABLISHED, SYN_SENT, FIN_WAIT2, CLOSE, CLOSE_WAIT, LISTEN = 1, 2, 5, 7, 8, 10
MEMORY_FILE = 1 << 14


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
    """A file of a snapshot that can be a socket."""

    isk: Isk | None = None
    usk: Any = None

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

    outcome = adapt_sockets([*pair, Entry()], ("172.17.0.2",), ("172.17.0.3",))

    assert (outcome.kept, outcome.moved, outcome.closed) == (2, 0, 0)
    assert [isk(end).state for end in pair] == [ESTABLISHED, ESTABLISHED]


@pytest.mark.parametrize("server", ["127.0.0.1", "172.18.0.5"])
def test_an_ipv4_client_of_a_server_on_both_families_survives(server: str) -> None:
    """The server listens on `::`: its end of the connection has both addresses mapped (ipv6(7))."""
    pair = [
        connection(server, 5000, server, 80),
        connection(f"::ffff:{server}", 80, f"::ffff:{server}", 5000),
    ]

    outcome = adapt_sockets(pair, ("172.18.0.5",), ("172.18.0.5",))

    assert outcome.closed == 0
    assert [isk(each).state for each in pair] == [ESTABLISHED, ESTABLISHED]


def test_a_connection_to_outside_is_closed() -> None:
    """The parent still uses it: the copy is a closed socket that was never connected anywhere."""
    outside = connection("172.17.0.2", 5000, "93.184.216.34", 443)

    outcome = adapt_sockets([outside], ("172.17.0.2",), ("172.17.0.3",))

    assert outcome.closed == 1
    assert (isk(outside).state, isk(outside).src_port, isk(outside).dst_port) == (CLOSE, 0, 0)
    assert isk(outside).shutdown == 3


def test_one_end_of_a_loopback_connection_is_not_enough() -> None:
    """A peer outside of the captured tree does not come back."""
    half = connection("127.0.0.1", 5000, "127.0.0.1", 80)

    assert adapt_sockets([half], (), ()).closed == 1


@pytest.mark.parametrize("state", [CLOSE, CLOSE_WAIT])
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "172.17.0.2", "::ffff:172.17.0.2"]
)
def test_data_of_a_closed_inside_peer_is_kept(address: str, state: int) -> None:
    """The peer's socket is closed, but its data is kept: an answer that was not read yet."""
    left = connection(address, 80, address, 5000)
    isk(left).state = state

    outcome = adapt_sockets([left], ("172.17.0.2",), ("172.17.0.3",))

    assert outcome.closed == 0
    assert isk(left).state == state
    assert isk(left).dst_port == 5000


def test_data_of_a_closed_outside_peer_is_lost() -> None:
    """Closing such a socket would send a packet to it."""
    left = connection("172.17.0.2", 5000, "93.184.216.34", 80)
    isk(left).state = CLOSE_WAIT

    assert adapt_sockets([left], ("172.17.0.2",), ("172.17.0.3",)).closed == 1


def test_a_program_that_is_still_connecting_reconnects() -> None:
    """Its call continues after the restore, with a socket that was never connected and can be."""
    asking = connection("172.17.0.2", 5000, "93.184.216.34", 443)
    isk(asking).state = SYN_SENT

    assert adapt_sockets([asking], ("172.17.0.2",), ("172.17.0.3",)).closed == 1
    assert (isk(asking).state, isk(asking).dst_port, isk(asking).shutdown) == (CLOSE, 0, 0)


def test_the_old_address_becomes_the_new_one() -> None:
    """Listeners, datagram sockets and connections to oneself move along."""
    listener, datagram = bound("172.17.0.2", 80), bound("172.17.0.2", 53, UDP)
    pair = [
        connection("172.17.0.2", 5000, "172.17.0.2", 80),
        connection("172.17.0.2", 80, "172.17.0.2", 5000),
    ]

    outcome = adapt_sockets([listener, datagram, *pair], ("172.17.0.2",), ("172.17.0.3",))

    assert outcome.moved == 4
    assert isk(listener).src_addr == isk(datagram).src_addr == words("172.17.0.3")
    assert all(isk(end).src_addr == isk(end).dst_addr == words("172.17.0.3") for end in pair)


def test_mapped_addresses_also_move() -> None:
    """An IPv6 socket can be bound to the IPv4 address."""
    listener = bound("::ffff:172.17.0.2", 80)

    adapt_sockets([listener], ("172.17.0.2",), ("172.17.0.3",))

    assert isk(listener).src_addr == words("::ffff:172.17.0.3")


def test_without_a_new_address_it_is_any() -> None:
    """A session restored without a network keeps its listener."""
    listener = bound("172.17.0.2", 80)

    adapt_sockets([listener], ("172.17.0.2",), ())

    assert isk(listener).src_addr == [0]


def test_a_listener_on_all_addresses_stays() -> None:
    """A socket without a particular address needs no change."""
    listener = bound("0.0.0.0", 80)

    assert adapt_sockets([listener], ("172.17.0.2",), ("172.17.0.3",)).kept == 1


@pytest.mark.parametrize("state", [CLOSE_WAIT, FIN_WAIT2])
def test_connections_that_one_end_has_closed_are_half_closed(state: int) -> None:
    assert half_closed([bound("127.0.0.1", 80), Entry(), Entry(Isk(words("127.0.0.1"), 80, state=state))])


def test_listeners_and_whole_connections_are_not_half_closed() -> None:
    whole = Entry(Isk(words("127.0.0.1"), 80, state=ESTABLISHED))
    assert not half_closed([whole, bound("127.0.0.1", 80), Entry()])


@dataclass
class Terminal:
    """As much of CRIU's tty_info_entry as is looked at."""

    sid: int
    pgrp: int


@dataclass
class Process:
    """As much of CRIU's pstree_entry as is looked at."""

    pgid: int
    pid: int = 0
    sid: int = 0


class SparseEntry(SimpleNamespace):
    """One of CRIU's messages: fields that it has not been given are missing."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - as protobuf calls it
        return hasattr(self, name)


@dataclass
class Master:
    """The master of a terminal and the special file it was opened by."""

    index: int
    id: int
    name: str = "/dev/ptmx"
    entries: list[SparseEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        tty = SimpleNamespace(tty_info_id=2 * self.index + 1, regf_id=self.id + 1)
        self.entries = [
            SparseEntry(id=self.id, tty=tty),
            SparseEntry(id=self.id + 1, reg=SimpleNamespace(name=self.name)),
        ]


def test_a_group_without_members_is_replaced() -> None:
    """The leader of the session gets the terminal, as it would have a moment later."""
    terminal = Terminal(sid=302, pgrp=663)

    assert adapt_terminals([terminal], [Process(301), Process(302)]) == 1
    assert terminal.pgrp == 302


def test_a_living_group_stays_in_the_foreground() -> None:
    """A job that runs keeps the terminal."""
    terminal = Terminal(sid=302, pgrp=400)

    assert adapt_terminals([terminal], [Process(302), Process(400)]) == 0
    assert terminal.pgrp == 400


def test_a_terminal_of_no_session_is_left_alone() -> None:
    """A PTY that controls no session does not have a foreground."""
    terminal = Terminal(sid=0, pgrp=0)

    assert adapt_terminals([terminal], []) == 0


def test_terminals_are_made_before_their_sessions() -> None:
    """In the order of the index, each with the session that has it, if its leader lives."""
    masters = [Master(4, 10), Master(0, 20), Master(2, 30)]
    infos = [
        SparseEntry(sid=sid, pty=SimpleNamespace(index=index))
        # Of the first one, the slave is in the hands of another session.
        for index, sid in ((4, 302), (4, 0), (0, 0), (2, 700))
    ]
    processes = [Process(302, pid=302, sid=302), Process(702, pid=702, sid=700)]
    slave = [
        SparseEntry(id=40, tty=SimpleNamespace(tty_info_id=8, regf_id=41)),
        SparseEntry(id=41, reg=SimpleNamespace(name="/dev/pts/4")),
    ]
    files = [entry for master in masters for entry in master.entries] + slave

    assert plan_terminals(files, infos, processes) == "0:0 2:0 4:302"
    assert [entry.reg.name for entry in files if entry.HasField("reg")] == [
        "/dev/holdfast-ptmx-4",
        "/dev/holdfast-ptmx-0",
        "/dev/holdfast-ptmx-2",
        "/dev/pts/4",
    ]


def test_a_queue_longer_than_criu_keeps_is_put_together() -> None:
    """Each with its own rest; most have none."""
    queues = [SimpleNamespace(tty_id=9, data=b"first"), SimpleNamespace(tty_id=8, data=b"typed")]

    lengthen_queues(queues, {9: b" and the rest", 11: b"of no terminal"})

    assert [queue.data for queue in queues] == [b"first and the rest", b"typed"]


def test_a_queue_is_lengthened_once_however_often_images_name_it() -> None:
    """A small image must not ask for memory many times over."""
    queues = [SimpleNamespace(tty_id=3, data=b"a") for _ in range(3)]
    lengthen_queues(queues, {3: b"rest"})

    assert [one.data for one in queues] == [b"arest", b"a", b"a"]


def test_masters_come_before_all_slave_ends() -> None:
    """Of two that CRIU joins, one is the master then; the rest keeps its order."""
    ends = [SparseEntry(id=number) for number in (4, 5, 0, 1)]
    order_terminals(ends)
    assert [one.id for one in ends] == [5, 1, 4, 0]


@dataclass
class Area:
    """As much of CRIU's vma_entry as is looked at."""

    shmid: int
    status: int = MEMORY_FILE
    flags: int = mmap.MAP_SHARED
    fdflags: int = os.O_RDWR


@dataclass
class Memory:
    """As much of CRIU's mm_entry as is looked at."""

    vmas: list[Area] = field(default_factory=list)


def test_shared_mappings_of_sealed_files_are_made_to_read() -> None:
    """Others are made as they were: private ones, of files without the seal, of the same number by chance."""
    others = [Area(5, flags=mmap.MAP_PRIVATE), Area(6), Area(5, status=0)]
    memory = Memory([Area(5), *others])

    assert adapted_entries.map_read_only(memory, {5})
    assert [area.fdflags for area in memory.vmas] == [os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_RDWR]
    assert not adapted_entries.map_read_only(Memory(others), {5})
    assert not adapted_entries.map_read_only(memory, ())


def test_mappings_that_prevent_loading_on_demand() -> None:
    """A private mapping of a memory file; not one of a different kind, and not a shared one."""
    assert adapted_entries.mapped_privately(Memory([Area(5), Area(5, flags=mmap.MAP_PRIVATE)]))
    assert not adapted_entries.mapped_privately(Memory([Area(5), Area(5, status=0, flags=mmap.MAP_PRIVATE)]))


def test_only_accepted_connections_lose_the_mark_of_a_removed_name() -> None:
    """A listener and a datagram socket are bound, and so is whatever waits for a connection."""
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    kinds = [(stream, ESTABLISHED), (stream, LISTEN), (datagram, ESTABLISHED), (datagram, CLOSE)]
    entries = [Entry(usk=SimpleNamespace(type=kind, state=state, deleted=True)) for kind, state in kinds]

    adapt_accepted([*entries, Entry()])

    assert [entry.usk.deleted for entry in entries] == [False, True, True, True]


def test_listeners_come_before_their_connections() -> None:
    """All else keeps its order."""
    waiting, pair, other = (Entry(usk=SimpleNamespace(peer=peer)) for peer in (7, 5, 4))
    listener, file = Entry(usk=SimpleNamespace(peer=0)), Entry()
    entries = [waiting, file, pair, listener, other]

    order_sockets(entries)

    assert entries == [listener, waiting, file, pair, other]

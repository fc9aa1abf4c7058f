"""A session's network policy changed from outside: immediately, as a whole, and for everything after it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.integration import test_egress as egress
from tests.integration.test_egress import PATIENCE, REFUSED, Place, tried

from holdfast.errors import InvalidArgument, LiveUnsupported, NetworkNotClosed, StoreError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import reuse_check, snapshot_service
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.store.operations import Operations
from holdfast.snapshots import manifest, service

host = egress.host
DYING = Path(__file__).parents[1] / "inside" / "dying_change.py"


@pytest.fixture
def patient(host: Place) -> Iterator[socket.socket]:
    """A service of the host that keeps its connections."""
    with socket.create_server((host.gateway, 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


def reaches(session: Session, host: Place) -> bool:
    """Check whether the service of the host is reached; it is refused otherwise."""
    (found,) = tried(session, (host.gateway, host.port, "tcp"))
    assert found == "connected" or found in REFUSED, found
    return found == "connected"


ELSEWHERE = "198.51.100.9"
"""An address of the internet, as sessions are judged."""


def denied(session: Session, address: str = ELSEWHERE) -> bool:
    """Check whether a packet to an address is refused by the rules."""
    (found,) = tried(session, (address, 9, "udp"))
    return found in ("EPERM", "EACCES")


def place_of(host: Place) -> str:
    return f"{host.gateway}:{host.port}"


TALK = """
import errno, socket
def talk(one):
    try:
        one.settimeout(60); one.send(b"more"); return one.recv(9).decode()
    except OSError as error:
        return errno.errorcode[error.errno]
def rest(one):
    try:
        one.settimeout(60)
        while one.recv(9): pass
        return "end"
    except OSError as error:
        return errno.errorcode[error.errno]
"""


def test_a_connection_ends_when_it_is_no_longer_allowed(shared: Session, patient: socket.socket) -> None:
    """With the next packet that the session sends, which is dropped: also one that only acknowledges what
    the other side sent.
    """
    address, port = patient.getsockname()
    shared.cell(TALK, timeout=PATIENCE)
    shared.allow(f"{address}:{port}")
    connect = (
        f"c, idle = [socket.create_connection(({address!r}, {port}), 20) for _ in '12']; c.send(b'first')"
    )
    assert shared.cell(connect, timeout=PATIENCE).status == "ok"
    connection, _ = patient.accept()
    idle, _ = patient.accept()
    assert connection.recv(100) == b"first"

    shared.disallow(f"{address}:{port}")

    assert shared.cell("print(talk(c))", timeout=PATIENCE).stdout.strip() == "ECONNRESET"
    with idle:
        idle.send(b"late")
        assert shared.cell("print(rest(idle))", timeout=PATIENCE).stdout.strip() == "ECONNRESET"
    with connection:
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(100)
    assert shared.network().allow == ()
    assert f"{address}:{port}" in [one.place for one in shared.network().refused]


@pytest.mark.thorough
def test_a_change_is_kept_by_everything_after_it(
    hf: Holdfast, host: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forks, snapshots that share everything with the last one, a rewind to an earlier one, and resuming;
    a copy of an older snapshot has that snapshot's policy, unless one is given.
    """
    place = place_of(host)
    session = hf.new("work")
    assert not reaches(session, host)
    first = session.snapshot()

    session.change_network(allow=[place], deny=[ELSEWHERE])

    with monkeypatch.context() as resting:  # as on a machine where nothing else happens
        same = (first.row, GuestClient(hf.home.run_dir(session.id)).request("moment"))
        resting.setattr(reuse_check, "since", lambda *_: same)
        auto = {"trigger": "idle"}
        taken = [
            session.snapshot().row,
            snapshot_service.capture(hf.context, session.row, None, "live", auto=auto),
        ]
    for row in taken:
        assert row.details["same_as"] == first.id
        kept = manifest.read(hf.home.snapshots / row.id).options
        assert (kept["allow"], kept["deny"]) == ([place], [ELSEWHERE])
    (copy,) = session.fork(1, "copy")
    assert [(reaches(each, host), denied(each)) for each in (session, copy)] == [(True, True)] * 2
    session.rewind(first, discard=True)
    assert (reaches(session, host), denied(session)) == (True, True)
    session.suspend()
    session.disallow(place)
    session.resume()
    assert (reaches(session, host), denied(session)) == (False, True)
    assert (session.network().allow, session.network().deny) == ((), (ELSEWHERE,))
    older = first.restore("older")
    assert (reaches(older, host), denied(older)) == (False, False)
    opened = first.restore("opened", allow=[place], deny=["198.51.100.0/24"])
    assert (reaches(opened, host), denied(opened)) == (True, True)
    assert first.restore("nowhere", network="none").network().network == "none"
    kinds = [entry.kind for entry in session.journal() if entry.host and entry.kind == "network"]
    assert len(kinds) == 1  # the other was in the life that was left
    host.service.came.clear()


def test_the_kind_of_network_changes_at_once(hf: Holdfast, cli: Any, host: Place) -> None:
    """`open` and back; by the command line, which shows it."""
    session = hf.new("work")

    session.change_network("open")
    assert (session.network().network, reaches(session, host)) == ("open", True)
    closed = cli("network", "work", "--network", "internet").out
    assert closed.startswith("reaches   the internet, but not the host")
    assert not reaches(session, host)
    # What is denied is closed in it, but for what is allowed without a port, which opens nothing else.
    denial = cli("network", "work", "--network", "open", "--deny", f"{host.gateway}/24", "--deny", ELSEWHERE)
    assert f"denied    {ip_network(f'{host.gateway}/24', strict=False)}, {ELSEWHERE}\n" in denial.out
    assert (reaches(session, host), denied(session)) == (False, True)
    assert cli("network", "work", "--allow", host.gateway).code == 0
    assert (reaches(session, host), denied(session)) == (True, True)
    assert cli("network", "work", "--no-deny", ELSEWHERE, "--network", "internet").code == 0
    assert (reaches(session, host), denied(session)) == (False, False)
    # The metadata service is closed in any case.
    assert set(tried(session, ("169.254.169.254", 80, "tcp"))) <= REFUSED
    host.service.came.clear()


def test_impossible_changes_are_refused_in_one_line(hf: Holdfast, cli: Any) -> None:
    """Nothing is changed by them."""
    hf.new("alone", network="none")
    work = hf.new("work", allow=["10.0.0.1:80"])
    refused: dict[tuple[str, str], dict[str, Any]] = {
        ("alone", "it was created without one"): {"allow": ["10.0.0.1:80"]},
        ("alone", "created without one"): {"network": "internet"},
        ("work", "it keeps its interface"): {"network": "none"},
        ("work", "network"): {"network": "host"},
        ("work", "it is not an exception of this session"): {"disallow": ["10.0.0.2:80"]},
        ("work", "both allow and disallow"): {"allow": ["10.0.0.1:80"], "disallow": ["10.0.0.1:80"]},
        ("work", "no address is known"): {"allow": ["no-such.invalid:80"]},
        ("work", "it is not on the internet, and lacks a port"): {"allow": ["10.0.0.0/8"]},
        ("work", "neither an address nor a network"): {"deny": ["1.1.1.1:80"]},
        ("work", "this session does not have it"): {"no_deny": ["1.1.1.1"]},
        ("work", "it is not HOST:PORT"): {"allow": ["10.0.0.2:80"], "disallow": ["nothing"]},
    }
    for (name, why), change in refused.items():
        with pytest.raises(InvalidArgument, match=r"^cannot ") as told:
            hf.session(name).change_network(**change)
        assert why in str(told.value)
        assert "\n" not in str(told.value)
    done = cli("network", "work", "--disallow", "10.0.0.2:80")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("holdfast: cannot disallow 10.0.0.2:80")
    assert work.network().allow == ("10.0.0.1:80",)


def test_a_change_that_fails_leaves_rules_and_options_as_they_were(
    shared_hf: Holdfast, shared: Session, host: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the checkpointer is not available, or the new options cannot be written down."""

    def refuse(*_: object, **__: object) -> None:
        raise LiveUnsupported("cannot start the checkpointer: not here")

    with monkeypatch.context() as broken:
        broken.setattr(service, "ask", refuse)
        with pytest.raises(NetworkNotClosed, match=r"^cannot change the network"):
            shared.allow(place_of(host))

    def full(*_: object, **__: object) -> None:
        assert reaches(shared, host)  # the new rules are in force here
        raise StoreError("cannot write: no space left")

    with monkeypatch.context() as broken:
        broken.setattr(Operations, "complete", full)
        with pytest.raises(StoreError, match=r"no space left"):
            shared.allow(place_of(host))

    assert shared.network().allow == ()
    assert not reaches(shared, host)
    host.service.came.clear()


@pytest.mark.thorough
def test_a_killed_change_is_undone(hf: Holdfast, cli: Any, host: Place) -> None:
    """By the next process that opens the home: rules and options are the earlier ones."""
    session = hf.new("work")
    died = subprocess.run(
        [sys.executable, str(DYING), place_of(host)], env=cli.environment, capture_output=True, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert reaches(session, host)

    assert cli("ls").code == 0

    assert not reaches(session, host)
    assert hf.session("work").network().allow == ()
    assert hf.store.operations.open() == []
    host.service.came.clear()

"""Sessions that reach hosts only by name: reached and refused hosts, and whose policy counts."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from tests.machines.hosts import Hosts, hosts

from holdfast.errors import InvalidArgument, RestoreFailed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.doctor import doctor
from holdfast.runtime.egress import gateway, session_policy
from holdfast.runtime.restore.restore_session import Restoring

PATIENCE = 120.0


@pytest.fixture(scope="module")
def world(shared_hf: Holdfast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with hosts(shared_hf, tmp_path_factory.mktemp("hosts")) as made:
        path = shared_hf.home.root / "network.json"
        told = json.loads(path.read_text())
        # By their names alone: the address itself is not opened, except for one port.
        told["allow"] = [f"{made.address}:{made.api.port}", f"{made.address}:{made.plain.port}"]
        path.write_text(json.dumps(told))
        yield made


@pytest.fixture(scope="module")
def session(shared_hf: Holdfast, world: Hosts) -> Session:
    return shared_hf.new(
        "narrow", network="domains", domains=["*.example.invalid", "cloud.test", "rebound.test"]
    )


def said(session: Session, command: str) -> str:
    return session.exec(command, timeout=PATIENCE).text.strip()


def web(session: Session, url: str) -> str:
    """Return the status, and the text of a refusal. The session does not know the servers' authority."""
    return said(session, f"curl -sSk -m 30 -w ' %{{http_code}} %{{http_connect}}' '{url}' 2>&1")


def gateways(hf: Holdfast) -> list[str]:
    return list(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="gateway"))


def test_allowed_domains_are_reached_only_through_the_gateway(session: Session, world: Hosts) -> None:
    """By its name; not by a different name, an address, or the resolver; opened addresses are open."""
    assert web(session, f"https://api.test:{world.api.port}/").endswith("200 200")
    assert web(session, f"http://plain.test:{world.plain.port}/").endswith("200 000")

    refused = web(session, f"https://other.test:{world.other.port}/")
    assert refused.endswith("000 403")
    plain = web(session, "http://elsewhere.test/")
    assert plain == (
        f"holdfast: elsewhere.test:80 is not allowed for this session; "
        f"`holdfast network {session.id} --domain elsewhere.test` allows it\n 403 000"
    )
    assert "192.0.2.9:80 is not allowed" in web(session, "http://192.0.2.9/")
    for name in ("cloud.test", "rebound.test"):
        assert "at an address that this session cannot reach" in web(session, f"http://{name}/")
    assert "not have an address" in web(session, "http://a.example.invalid/")
    direct = said(session, "for at in 1.1.1.1 9.9.9.9; do curl --noproxy '*' -sS -m 5 http://$at/ 2>&1; done")
    assert direct.count("Failed to connect") == 2
    assert "Could not resolve" in said(session, "curl --noproxy '*' -sS -m 5 http://example.org/ 2>&1")
    assert f"Failed to connect to {world.address}" in said(
        session, f"curl --noproxy '*' -sSk -m 5 https://{world.address}:{world.other.port}/ 2>&1"
    )


def test_refusals_are_recorded(shared_hf: Holdfast, session: Session, world: Hosts) -> None:
    """By host and port, once; and nothing that was allowed."""
    for _ in range(3):
        web(session, "http://asked.test/")
    web(session, f"https://api.test:{world.api.port}/")

    found = session_policy.refused(shared_hf.home, session.id)

    assert [(one.host, one.port) for one in found].count(("asked.test", 80)) == 1
    assert "api.test" not in [one.host for one in found]
    for _ in range(2):
        (told,) = (one for one in session.network().refused if one.address == "asked.test")
        assert (told.protocol, told.port, told.packets) == ("http", 80, 1)
    events = [event.text for event in session.events() if event.kind == "refused"]
    assert events.count("http to asked.test port 80 was refused: the session's network rules forbid it") == 1


def test_the_domains_of_a_running_session_change(shared_hf: Holdfast, session: Session, world: Hosts) -> None:
    """For new connections immediately; an absent domain cannot be removed, and only such sessions have
    domains.
    """
    name = f"other.test:{world.other.port}"
    assert web(session, f"https://{name}/").endswith("403")

    assert session.allow_domains(name.upper()).network().domains[-1] == name
    # The name is allowed, but its address is not: it is this machine's.
    assert "403" in web(session, f"https://{name}/")
    session.disallow_domains(name, "cloud.test")
    assert session_policy.domains(shared_hf.home, session.id) == ("*.example.invalid", "rebound.test")

    session.allow_domains("later.test")
    assert "not have an address" in web(session, "http://later.test/")
    told = ("*.example.invalid", "rebound.test", "later.test")
    assert shared_hf.session("narrow").network().domains == told
    assert session_policy.domains(shared_hf.home, session.id) == told

    with pytest.raises(InvalidArgument, match=f"^cannot remove domain {name}"):
        session.disallow_domains(name)
    with pytest.raises(InvalidArgument, match=r"^cannot allow domain '127\.0\.0\.1': it is an address"):
        session.allow_domains("127.0.0.1")
    with pytest.raises(InvalidArgument, match="proxy that is set up when the session is created"):
        session.change_network("internet")
    usual = shared_hf.new("usual")
    with pytest.raises(InvalidArgument, match="was not made with"):
        usual.allow_domains(name)
    with pytest.raises(InvalidArgument, match="when the session is created"):
        usual.change_network("domains")
    usual.remove()


def test_a_denied_address_is_not_reached_through_the_gateway(session: Session, world: Hosts) -> None:
    """By name, in a tunnel, or as an address, whatever the home opens; until it is no longer denied."""
    places = (
        f"https://api.test:{world.api.port}/",
        f"https://{world.address}:{world.api.port}/",
        f"http://plain.test:{world.plain.port}/",
        f"http://{world.address}:{world.plain.port}/",
    )
    name = f"plain.test:{world.plain.port}"
    assert all(web(session, place).split()[-2] == "200" for place in places)

    session.change_network(deny=[world.address], domains=[name])
    for place in places:
        assert "403" in web(session, place).split()[-2:]
    assert "at an address that this session cannot reach" in web(session, places[2])
    direct = f"import socket; socket.create_connection(({world.address!r}, {world.api.port}), 5)"
    assert "ConnectionRefusedError" in said(session, f'python3 -c "{direct}" 2>&1')

    session.change_network(no_deny=[world.address], no_domains=[name])
    assert all(web(session, place).split()[-2] == "200" for place in places)


def test_policies_are_not_inherited(shared_hf: Holdfast, session: Session, world: Hosts) -> None:
    """A session that gets the address of a removed one begins without a policy; others have none."""
    gone = shared_hf.new("gone", network="domains", domains=["api.test"])
    address = said(gone, "hostname -i")
    path = shared_hf.home.root / "gateway" / "sessions" / f"{address}.json"
    written = path.read_text()
    gone.remove()
    assert not path.exists()

    # As if the process that removes them was killed; the engine assigns a low address that is free.
    first = ip_address(address)
    left = {path.with_name(f"{first + more}.json") for more in range(-200, 200)}
    left = {each for each in left if not each.exists()}
    for each in left:
        each.write_text(written)
    found = path.with_name(said(shared_hf.new("next"), "hostname -i") + ".json")
    assert found in left
    assert not found.exists()
    for each in left - {found}:
        each.unlink()
    place = gateway.known(shared_hf.home)
    assert place is not None
    with socket.create_connection((place.address, place.port), timeout=60) as stranger:
        stranger.sendall(b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
        assert b"403" in stranger.recv(100)
    shared_hf.session("next").remove()


@pytest.mark.thorough
def test_copies_and_a_gateway_that_was_killed_go_by_the_same_policy(
    shared_hf: Holdfast, session: Session, world: Hosts
) -> None:
    """A fork, a session rewound or resumed, and all of them after the gateway restarted."""
    taken = session.snapshot()
    (copy,) = taken.fork(1, "narrow-copy")
    session.rewind(taken)
    copy.suspend()
    copy.resume()
    (container,) = gateways(shared_hf)
    assert doctor._gateway(shared_hf.context).ok
    pid = shared_hf.engine.client.api.inspect_container(container)["State"]["Pid"]
    os.kill(pid, signal.SIGKILL)  # as the kernel does when memory is short: the engine starts it again
    deadline = time.monotonic() + PATIENCE
    while not doctor._gateway(shared_hf.context).ok:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert web(copy, f"https://api.test:{world.api.port}/").endswith("200 200")
    shared_hf.engine.client.containers.get(container).kill()  # done by a person: the engine leaves it ended
    assert not doctor._gateway(shared_hf.context).ok
    assert shared_hf.new("another", network="domains").exec("true").ok

    for each in (session, copy, shared_hf.session("another")):
        assert web(each, f"https://api.test:{world.api.port}/").endswith("200 200")
        assert web(each, "https://elsewhere.test/").endswith("000 403")
        assert "Could not resolve" in said(each, "curl --noproxy '*' -sS -m 5 http://example.org/ 2>&1")


def test_a_failed_rewind_keeps_the_domains(
    shared_hf: Holdfast, world: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its own domains, not the snapshot's; also when its address was another container's."""
    session = shared_hf.new("back", network="domains", domains=["old.example.invalid"])
    taken = session.snapshot()
    session.change_network(domains=["new.example.invalid"], no_domains=["old.example.invalid"])

    def fail(*_: Any) -> None:
        found = session_policy.domains(shared_hf.home, session.id)
        raise RestoreFailed(f"as if CRIU had: {found}")

    monkeypatch.setattr(Restoring, "_restore_tree", fail)
    with pytest.raises(RestoreFailed, match=r"new\.example\.invalid"):
        session.rewind(taken)

    assert session_policy.domains(shared_hf.home, session.id) == ("new.example.invalid",)
    assert "not have an address" in web(session, "http://new.example.invalid/")
    assert web(session, "http://old.example.invalid/").endswith("403 000")
    session.remove()


def test_the_gateway_has_only_necessary_rights(shared_hf: Holdfast, session: Session) -> None:
    """An ordinary user without capabilities; read-only; three folders of the home, one of them writable."""
    (container,) = gateways(shared_hf)
    told: dict[str, Any] = shared_hf.engine.client.api.inspect_container(container)
    status = Path(f"/proc/{told['State']['Pid']}/status").read_text()
    sets = [line.split()[1] for line in status.splitlines() if line.startswith("Cap")]
    place = gateway.known(shared_hf.home)

    assert sets == ["0" * 16] * 5
    assert "NoNewPrivs:\t1" in status
    assert "Uid:\t0" not in status
    assert told["HostConfig"]["ReadonlyRootfs"]
    mounts = {mount["Destination"]: mount["RW"] for mount in told["Mounts"]}
    assert mounts == {"/holdfast/authority": False, "/holdfast/sessions": False, "/holdfast/refused": True}
    assert place is not None
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
    local = [each.split(":")[0] for each in listening if int(each.split(":")[1], 16) == place.port]
    assert local == [ip_address(place.address).packed[::-1].hex().upper()]


@pytest.mark.thorough
def test_the_gateway_goes_with_the_last_session_that_needs_it(hf: Holdfast, cli: Any) -> None:
    """And mistakes in the options are reported before anything is made."""
    assert cli("new", "--name", "one", "--network", "domains", "--domain", "api.test").code == 0
    assert len(gateways(hf)) == 1
    policies = hf.home.root / "gateway" / "sessions"
    (policies / "192.0.2.7.json").write_text('{"session": "of another version"}')
    assert cli("rm", "one").code == 0
    assert gateways(hf) == []
    assert list(policies.iterdir()) == []

    refused: list[tuple[dict[str, Any], str]] = [
        ({"domains": ["api.test"]}, "add --network domains"),
        ({"network": "domains", "domains": ["10.1.2.3"]}, "is an address"),
        ({"network": "domains", "domains": ["*"]}, "not a valid host name"),
        ({"secrets": ["TOKEN=12345678"]}, "does not name the hosts"),
        ({"secrets": ["TOKEN@api.test=12345678"], "env": ["TOKEN=x"]}, "cannot be set twice"),
        ({"secrets": ["TOKEN@api.test=12345678"] * 2}, "cannot be set twice"),
        ({"secrets": ["TOKEN@api.test=12345678"], "network": "none"}, "without a network"),
    ]
    for options, why in refused:
        with pytest.raises(InvalidArgument, match=why):
            hf.new("never", **options)
    done = cli("new", "--name", "never", "--secret", "TOKEN@api.test=env:NOT_THERE")
    assert (done.code, "NOT_THERE is not set" in done.err, "NAME@HOST" in done.err) == (1, True, True)
    assert hf.sessions() == []
    assert list((hf.home.root / "gateway" / "secrets").glob("*")) == []


@pytest.mark.thorough
def test_values_stay_as_long_as_a_session_or_snapshot_has_them(hf: Holdfast, cli: Any) -> None:
    """Then they go with the session, or by `gc`; a session that lacks its value is reported, and runs."""
    kept = hf.home.root / "gateway" / "secrets"
    given = ["--secret", "TOKEN@api.test=env:A", "--secret", "OTHER@api.test=@-"]
    assert cli("new", "--name", "one", *given, stdin="other-value-2\n", A="a-value-of-it").code == 0
    (first, _) = sorted(kept.iterdir(), key=lambda path: "a-value-of-it" not in path.read_text())
    snapshot = hf.session("one").snapshot(kind="filesystem")

    hf.session("one").remove()
    assert len(list(kept.iterdir())) == 2
    first.unlink()
    done = cli("restore", snapshot.id, "--name", "again")
    assert (done.code, "secret TOKEN: its value is not in this home" in done.err) == (0, True)
    assert said(hf.session("again"), "echo $TOKEN") == first.name
    hf.session("again").remove()
    snapshot.remove()
    (left,) = kept.iterdir()
    os.utime(left, (0, 0))
    assert [one.kind for one in hf.keeping.collect_garbage()] == ["secret"]
    assert list(kept.iterdir()) == []

"""Sandboxes as wholes by E2B's wire: their lives and ends, copies, keys, and refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Cli
from tests.integration.control_wire import PATIENCE, ControlWire, control_wire
from tests.integration.file_wire import FileWire
from tests.integration.process_wire import ProcessWire, b64
from tests.integration.served import Served, serving

from holdfast.base import locks, polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts


@pytest.mark.thorough
def test_a_restarted_server_ends_sessions_of_its_predecessor(
    shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home
) -> None:
    cli = make_cli(shared_home)
    with serving(cli, shared_home) as first, control_wire(first) as wire:
        brief, kept = wire.new(timeout=60), wire.new(timeout=60, autoPause=True)
        wire.made.clear()
    # Their time passes while no server runs.
    for each in (brief, kept):
        facts = SandboxFacts.of(shared_hf.session(each["sandboxID"]).row)
        assert facts is not None
        over = facts.model_copy(update={"ends_at": time.time() - 1})
        shared_hf.store.keep_details(each["sandboxID"], sandbox=over.model_dump())
    with serving(cli, shared_home) as second, control_wire(second) as wire:
        wire.becomes(brief["sandboxID"], "gone")
        wire.becomes(kept["sandboxID"], "paused")
        # Tokens are those that the first server gave.
        wire.call("POST", f"/sandboxes/{kept['sandboxID']}/connect", {"timeout": 60}, 201)
        assert wire.reaches(kept) == 204
        wire.call("DELETE", f"/sandboxes/{kept['sandboxID']}", status=204)
    assert shared_hf.store.snapshots(kept["sandboxID"]) == []  # no client can name that of the pause


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture
def wire(server: Served) -> Iterator[ControlWire]:
    with control_wire(server) as found:
        yield found


def _seconds_left(info: dict[str, Any]) -> float:
    return datetime.fromisoformat(info["endAt"]).timestamp() - time.time()


def _lived_when_its_container_started(info: dict[str, Any], hf: Holdfast, timeout: float) -> bool:
    """Return whether the time of a sandbox began before its container, and so before it could be used."""
    container = str(hf.session(info["sandboxID"]).row.container_id)
    words = ["docker", "inspect", "--format", "{{.State.StartedAt}}", container]
    started = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    begun = datetime.fromisoformat(info["endAt"]).timestamp() - timeout
    return begun < datetime.fromisoformat(started).timestamp()


def test_a_life(wire: ControlWire, shared_hf: Holdfast) -> None:
    """Made, looked at, paused, resumed, killed; each twice, which is reported as clients expect it."""
    made = wire.new(metadata={"a": "b"}, envVars={"COLOUR": "green"})
    path = f"/sandboxes/{made['sandboxID']}"
    assert made["domain"].startswith("localhost:")
    info = wire.call("GET", path)
    assert (info["state"], info["metadata"], info["templateID"]) == ("running", {"a": "b"}, "base")
    assert 500 < _seconds_left(info) <= 600
    assert not _lived_when_its_container_started(info, shared_hf, 600)
    assert shared_hf.session(made["sandboxID"]).exec("echo $COLOUR").text == "green\n"
    assert wire.call("POST", f"/v2{path}/connect", {"timeout": 60})["sandboxID"] == made["sandboxID"]
    assert _seconds_left(wire.call("GET", path)) > 500
    wire.call("POST", f"{path}/timeout", {"timeout": 60}, 204)
    assert _seconds_left(wire.call("GET", path)) <= 60
    wire.call("POST", f"{path}/refreshes", {"duration": 300}, 204)
    assert _seconds_left(wire.call("GET", path)) > 200
    wire.call("POST", f"{path}/pause", {}, 204)
    assert "paused already" in wire.call("POST", f"{path}/pause", None, 409)
    info = wire.call("GET", path)
    assert (info["state"], info["pauseMode"], info["endAt"][:4]) == ("paused", "full", "9999")
    assert wire.reaches(made) == 502
    assert wire.call("GET", f"{path}/metrics?start={int(time.time()) + 1}") == []
    assert "does not run" in wire.call("POST", f"{path}/timeout", {"timeout": 60}, 404)
    assert wire.call("POST", f"{path}/connect", {"timeout": 600, "memory": False}, 501)
    assert (
        wire.call("POST", f"{path}/connect", {"timeout": 600}, 201)["envdAccessToken"]
        == made["envdAccessToken"]
    )
    assert wire.reaches(made) == 204
    wire.call("DELETE", path, status=204)
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/metrics")):
        assert "cannot find the sandbox" in wire.call(method, path + rest, status=404)
    assert wire.call("POST", f"{path}/connect", {}, 404)
    assert wire.reaches(made) == 502


def test_requests_act_as_an_account_of_the_sandbox(wire: ControlWire, shared_hf: Holdfast) -> None:
    """`user`, in whose home commands, code and relative paths begin, whose files are its own, with sudo."""
    made = wire.new()
    sandbox, server = made["sandboxID"], wire.server
    processes, files = ProcessWire(server, sandbox), FileWire(server, sandbox)

    def said(text: str, user: str = "", **more: Any) -> str:
        headers = {"authorization": f"Basic {b64(user.encode() + b':')}"} if user else {}
        return processes.run(text, headers=headers, words=more).written["stdout"].decode().strip()

    assert said("id -un; pwd; echo $HOME $USER; sudo -n id -un").split() == [
        *("user", "/home/user", "/home/user", "user", "root")
    ]
    assert said("id -un; pwd", "root", cwd="~").split() == ["root", "/root"]
    assert said("pwd", cwd="/srv") == "/srv"
    assert shared_hf.session(sandbox).cell("import os; print(os.getcwd())").stdout == "/home/user\n"
    files.put("new/deep/file", b"1")
    assert files.ask("Stat", path="/home/user/new/deep/file")["entry"]["owner"] == "user"
    assert files.ask("MakeDir", path="/srv/made/below")["entry"]["group"] == "user"
    assert said("stat -c %U /home/user/new /home/user/new/deep /srv /srv/made").split() == [
        *("user", "user", "root", "user")
    ]
    assert said("touch new/deep/other /srv/made/own; echo ok; touch /etc/x || echo denied").split() == [
        *("ok", "denied")
    ]
    site = "import os, site; print(os.access(site.getsitepackages()[0], os.W_OK))"
    assert said(f"python -c '{site}'") == "True"  # so `pip install` is for code as well

    # A pause without memory keeps the files alone: what runs afterwards is new.
    path, count = f"/sandboxes/{sandbox}", "ps -A -o comm= | grep -cx sleep"
    assert said(f"setsid sleep 1000 >/dev/null 2>&1 & sleep 0.1; {count}") == "1"
    wire.call("POST", f"{path}/pause", {"memory": False}, 204)
    assert wire.call("GET", path)["pauseMode"] == "filesystem"
    wire.call("POST", f"{path}/connect", {"timeout": 600, "memory": False}, 201)
    assert said(f"cat new/deep/file; echo; {count}").split() == ["1", "0"]
    assert said("id -un; pwd", "root", cwd="~").split() == ["root", "/root"]
    (copy,) = wire.call("POST", f"/sandboxes/{sandbox}/fork", {}, 201)
    wire.made.append(copy["sandbox"]["sandboxID"])
    there = ProcessWire(server, wire.made[-1])
    assert there.run("id -un; pwd").written["stdout"] == b"user\n/home/user\n"
    for each in (processes.client, there.client, files):
        each.close()


def test_an_account_is_made_in_whatever_a_snapshot_has(wire: ControlWire, shared_hf: Holdfast) -> None:
    """No tables, and a link in the place of the home: the target of the link stays the session's root's."""
    session = shared_hf.new()
    try:
        session.exec("rm -rf /etc/passwd /etc/group /etc/shadow /home/user; ln -s /etc /home/user")
        taken = session.snapshot()
    finally:
        session.remove()
    try:
        made = wire.new(templateID=taken.id)["sandboxID"]
        processes = ProcessWire(wire.server, made)
        found = processes.run("id -u; id -un; touch /etc/x || stat -c %u /etc")
        processes.client.close()
        assert found.written["stdout"].split() == [b"1000", b"user", b"0"]
    finally:
        wire.call("DELETE", f"/sandboxes/{made}", status=204)
        taken.remove()


def test_a_session_that_no_client_made_is_reached_and_never_ended(wire: ControlWire, shared: Session) -> None:
    found = wire.call("POST", f"/sandboxes/{shared.id}/connect", {"timeout": 0})
    assert wire.reaches(found) == 204
    assert wire.call("GET", f"/sandboxes/{shared.id}")["endAt"].startswith("9999")
    for place in ("timeout", "refreshes"):
        body = {"timeout": 0, "duration": 0}
        assert "no client of this wire made it" in wire.call(
            "POST", f"/sandboxes/{shared.id}/{place}", body, 400
        )
    brief = wire.new(timeout=0)
    wire.becomes(brief["sandboxID"], "gone")  # ends were looked for
    assert shared.refresh().state == "running"
    listed = wire.call("GET", "/v2/sandboxes") + wire.call("GET", "/sandboxes")
    assert shared.id not in {each["sandboxID"] for each in listed}  # who kills all that is listed spares it


def test_a_session_that_is_busy_at_its_end_is_ended_afterwards(wire: ControlWire, shared_home: Home) -> None:
    made = wire.new(timeout=600)
    sandbox = made["sandboxID"]
    with locks.exclusive(shared_home.locks, sandbox, "hold it"):
        wire.call("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 0}, 204)
        wire.becomes(sandbox, "gone")  # nobody can give it another end
        assert wire.call("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 600}, 404)
        assert wire.reaches(made) in (204, 502)
    with Holdfast(shared_home) as hf:
        assert polling.until(lambda: hf.store.find_session(sandbox) is None, PATIENCE)


def test_suspending_a_sandbox_by_other_doors_stops_its_time(wire: ControlWire, shared_hf: Holdfast) -> None:
    made = wire.new(timeout=600)
    session = shared_hf.session(made["sandboxID"]).suspend()
    wire.becomes(wire.new(timeout=0)["sandboxID"], "gone")
    assert shared_hf.session(session.id).lifetime().ends_at is None
    assert wire.state(session.id) == "paused"


@pytest.mark.thorough
def test_copies_have_their_own_tokens_and_ends(wire: ControlWire, shared_hf: Holdfast) -> None:
    made = wire.new(timeout=600, metadata={"of": "copies"}, autoPause=True)
    path = f"/sandboxes/{made['sandboxID']}"
    copies = wire.call("POST", f"{path}/fork", {"count": 2}, 201)  # they live as long as it
    forks = [each["sandbox"] for each in copies]
    wire.made += [each["sandboxID"] for each in forks]
    assert len({made["sandboxID"], *(each["sandboxID"] for each in forks)}) == 3
    for each in forks:
        info = wire.call("GET", f"/sandboxes/{each['sandboxID']}")
        assert 300 < _seconds_left(info) <= 600
        assert (info["metadata"], info["lifecycle"]["onTimeout"]) == ({"of": "copies"}, "pause")
        assert wire.reaches(each) == 204
        assert wire.reaches(each, made["envdAccessToken"]) == 401
        assert wire.reaches(made, each["envdAccessToken"]) == 401
    (brief,) = wire.call("POST", f"{path}/fork", {"count": 1, "timeout": 60}, 201)
    wire.made.append(brief["sandbox"]["sandboxID"])
    info = wire.call("GET", f"/sandboxes/{brief['sandbox']['sandboxID']}")
    assert not _lived_when_its_container_started(info, shared_hf, 60)
    # Those that somebody makes otherwise have no end at all.
    (other,) = shared_hf.session(made["sandboxID"]).fork()
    wire.made.append(other.id)
    assert SandboxFacts.of(other.row) is None
    assert wire.call("GET", f"/sandboxes/{other.id}")["endAt"].startswith("9999")


@pytest.mark.thorough
def test_snapshots_are_templates_by_id_and_name(wire: ControlWire, shared_hf: Holdfast) -> None:
    made = wire.new()
    path = f"/sandboxes/{made['sandboxID']}/snapshots"
    session = shared_hf.session(made["sandboxID"])
    session.exec("cd /srv; export WHO=first; sleep 1000 &")
    first = wire.call("POST", path, {"name": "point"}, 201)
    session.exec("export WHO=second")
    second = wire.call("POST", path, {"name": "point"}, 201)
    files = wire.call("POST", path, {"memory": False}, 201)
    assert (first["names"], second["names"], files["names"]) == (["point"], ["point"], [])
    assert first["snapshotID"] != second["snapshotID"]
    for template, said in (
        ("point", "second"),
        ("point:default", "second"),
        (second["snapshotID"], "second"),
    ):
        copy = shared_hf.session(wire.new(templateID=template)["sandboxID"])
        assert copy.exec("echo $WHO; pwd; jobs -r | wc -l").text == f"{said}\n/srv\n1\n"
    assert (
        shared_hf.session(wire.new(templateID=files["snapshotID"])["sandboxID"]).exec("echo $WHO").text
        == "\n"
    )
    listed = wire.answer("GET", "/snapshots", params={"sandboxID": made["sandboxID"], "limit": 1})
    rest = wire.call("GET", "/snapshots", params={"nextToken": listed.headers["x-next-token"]})
    assert [each["snapshotID"] for each in listed.json() + rest] == [
        files["snapshotID"],
        second["snapshotID"],
    ]
    assert wire.call("GET", "/snapshots", params={"name": "point"}) == [second]
    wire.call("DELETE", "/templates/point:default", status=204)
    wire.call("DELETE", f"/templates/{files['snapshotID']}", status=204)
    for template in ("point", files["snapshotID"], "no/such:name", "base"):
        assert "cannot find the template" in wire.call("DELETE", f"/templates/{template}", status=404)
    assert "cannot find the template" in wire.call("POST", "/sandboxes", {"templateID": "point"}, 404)


def test_one_key_makes_one_sandbox(wire: ControlWire) -> None:
    """However often and by how many it is sent; in another request it is refused."""
    key = {"idempotency-key": "the key"}
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: wire.new(headers=key)["sandboxID"], range(4)))
    assert len(set(found)) == 1
    assert wire.new(headers=key)["sandboxID"] == found[0]
    body = {"templateID": "base", "timeout": 599}
    assert "a different request had the same key" in wire.call(
        "POST", "/v2/sandboxes", body, 409, headers=key
    )
    wire.call("DELETE", f"/sandboxes/{found[0]}", status=204)
    assert wire.new(headers=key)["sandboxID"] != found[0]


def test_a_list_has_pages_and_filters(wire: ControlWire) -> None:
    made = [wire.new(metadata={"list": "yes", "number": str(n)})["sandboxID"] for n in range(3)]
    query: dict[str, Any] = {"metadata": "list=yes", "limit": 2, "order": "asc"}
    first = wire.answer("GET", "/v2/sandboxes", params=query)
    rest = wire.answer("GET", "/v2/sandboxes", params={**query, "nextToken": first.headers["x-next-token"]})
    assert [each["sandboxID"] for each in first.json() + rest.json()] == made
    assert "x-next-token" not in rest.headers
    newest = wire.call("GET", "/v2/sandboxes", params={"metadata": "list=yes"})
    assert [each["sandboxID"] for each in newest] == made[::-1]
    assert wire.call("GET", "/v2/sandboxes", params={"metadata": "list=yes", "state": "paused"}) == []
    assert wire.call("GET", "/sandboxes", params={"metadata": "number=1"})[0]["sandboxID"] == made[1]
    for odd in ({"limit": 0}, {"limit": "x"}, {"order": "up"}, {"state": "odd"}, {"nextToken": "%"}):
        assert wire.call("GET", "/v2/sandboxes", status=400, params=odd)


NEW = {"templateID": "base"}
REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/v2/sandboxes", {**NEW, "mcp": {"x": {}}}, 501, "cannot start MCP servers"),
    (
        "POST",
        "/v2/sandboxes",
        {**NEW, "iam": {"tokens": {"a": {}}}},
        501,
        "cannot give a sandbox an identity",
    ),
    ("POST", "/v2/sandboxes", {**NEW, "volumeMounts": [{"name": "v", "path": "/v"}]}, 501, "cannot mount"),
    ("POST", "/v2/sandboxes", {**NEW, "autoResume": {"enabled": True}}, 400, "autoPause"),
    ("POST", "/v2/sandboxes", {**NEW, "network": {"denyOut": ["a.test"]}}, 400, "neither an address nor"),
    ("POST", "/v2/sandboxes", {**NEW, "envVars": {"no=name": "x"}}, 400, "name of a variable"),
    ("POST", "/v2/sandboxes", {**NEW, "timeout": -1}, 400, "timeout"),
    ("POST", "/v2/sandboxes", {**NEW, "timeout": 10**12}, 400, "timeout"),
    ("POST", "/v2/sandboxes", {**NEW, "metadata": {"a": 3}}, 400, "metadata"),
    ("POST", "/v2/sandboxes", {**NEW, "metadata": ["a"]}, 400, "metadata"),
    ("POST", "/v2/sandboxes", {}, 400, "templateID"),
    ("POST", "/v2/sandboxes", [NEW], 400, "cannot read the request"),
    ("POST", "/v2/sandboxes", {"templateID": "../../etc"}, 404, "cannot find the template"),
    ("POST", "/v3/templates", {}, 501, "a template is a snapshot here"),
    ("GET", "/templates", None, 501, "a template is a snapshot here"),
    ("GET", "/volumes", None, 501, "cannot keep volumes"),
    ("POST", "/secrets", {}, 501, "cannot store secrets"),
    ("GET", "/teams", None, 501, "teams or nodes"),
    ("GET", "/v2/sandboxes/aaaaaaaaaaaa/logs", None, 501, "the log of a sandbox"),
    ("PATCH", "/sandboxes/aaaaaaaaaaaa", {}, 501, "do not offer this path"),
    ("GET", "/sandboxes/%00%ff", None, 404, "cannot find the sandbox"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "why"), REFUSED)
def test_refusals(wire: ControlWire, method: str, path: str, body: Any, status: int, why: str) -> None:
    assert why in wire.call(method, path, body, status)
    assert wire.call("GET", "/v2/sandboxes") == []  # nothing was made


def test_without_the_token_nothing_is_reported(wire: ControlWire, shared: Session) -> None:
    for key in ("", "e2b_", "e2b_00", wire.server.token[:-1]):
        for method, path in (
            ("GET", f"/sandboxes/{shared.id}"),
            ("POST", "/v2/sandboxes"),
            ("DELETE", "/templates/x"),
        ):
            answer = wire.client.request(method, path, headers={"x-api-key": key})
            assert (answer.status_code, answer.json()["code"]) == (401, 401)


def test_the_network_is_changed_as_far_as_a_session_can(wire: ControlWire, shared_hf: Holdfast) -> None:
    closed = wire.new(allow_internet_access=False)["sandboxID"]
    assert wire.call("GET", f"/sandboxes/{closed}")["allowInternetAccess"] is False
    wire.call("PUT", f"/sandboxes/{closed}/network", {"allow_internet_access": False}, 204)
    assert "from none to internet" in wire.call("PUT", f"/sandboxes/{closed}/network", {}, 400)
    assert shared_hf.session(closed).exec("ls /sys/class/net").text == "lo\n"
    # Clients of the first path always say that it may be reached, and open no closed snapshot by that.
    taken = wire.call("POST", f"/sandboxes/{closed}/snapshots", {}, 201)["snapshotID"]
    try:
        said = {"templateID": taken, "allow_internet_access": True}
        for path, network in (("/sandboxes", "none"), ("/v2/sandboxes", "internet")):
            made = wire.new(path, **said)["sandboxID"]
            assert shared_hf.session(made).network().network == network
    finally:
        wire.call("DELETE", f"/templates/{taken}", status=204)


SENDS = """
import socket
def sends(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            return bool(one.sendto(b"x", (address, 9)))
        except PermissionError:
            return False
print(*filter(sends, ("1.1.1.1", "8.8.8.8", "9.9.9.9", "10.0.0.1")))
"""


def test_denied_addresses_spare_allowed_ones(wire: ControlWire, shared_hf: Holdfast) -> None:
    """At its creation, by changes that replace all rules, and in copies; nothing opens what is private."""
    everything = {"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1", "8.8.8.8/32"]}
    made = wire.new(network=everything)["sandboxID"]
    path = f"/sandboxes/{made}"

    def reached(sandbox: str = made) -> list[str]:
        told = shared_hf.session(sandbox).cell(SENDS, timeout=PATIENCE)
        assert told.status == "ok", told.error
        return told.stdout.split()

    assert reached() == ["1.1.1.1", "8.8.8.8"]
    info = wire.call("GET", path)
    assert info["network"] == {
        "denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1", "8.8.8.8"], "allowPublicTraffic": False
    }  # fmt: skip
    assert info["allowInternetAccess"] is False
    (copy,) = wire.call("POST", f"{path}/fork", {"count": 1}, 201)
    assert reached(copy["sandbox"]["sandboxID"]) == ["1.1.1.1", "8.8.8.8"]
    for said, places in (
        ({}, ["1.1.1.1", "8.8.8.8", "9.9.9.9"]),
        ({"denyOut": ["8.8.8.8"]}, ["1.1.1.1", "9.9.9.9"]),
        ({"denyOut": ["8.0.0.0/7"], "allowOut": ["9.9.9.9"]}, ["1.1.1.1", "9.9.9.9"]),
        ({"allow_internet_access": False}, []),
        ({"denyOut": ["::/0"], "allowOut": ["0.0.0.0/0"]}, ["1.1.1.1", "8.8.8.8", "9.9.9.9"]),
    ):
        wire.call("PUT", f"{path}/network", said, 204)
        assert reached() == places, said
    assert wire.call("GET", path)["network"]["allowOut"] == ["0.0.0.0/0"]
    assert "only a gateway" in wire.call(
        "PUT", f"{path}/network", {"denyOut": ["8.8.8.8"], "allowOut": ["dns.google"]}, 501
    )
    assert "not on the internet" in wire.call("PUT", f"{path}/network", {"allowOut": ["10.0.0.1"]}, 501)
    # A snapshot's rules are its copies', unless a client says others; exceptions with a port stay.
    session = shared_hf.session(made)
    session.change_network(allow=["10.0.0.1:9"], disallow=["0.0.0.0/0"])
    taken = wire.call("POST", f"{path}/snapshots", {}, 201)["snapshotID"]
    try:
        again: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["10.0.0.1"]),
            ({"network": {"denyOut": ["9.9.9.9"]}}, ["1.1.1.1", "8.8.8.8", "10.0.0.1"]),
        ]
        for more, places in again:
            copied = wire.new(templateID=taken, **more)["sandboxID"]
            assert reached(copied) == places
            assert shared_hf.session(copied).network().allow == ("10.0.0.1:9",)
    finally:
        wire.call("DELETE", f"/templates/{taken}", status=204)


def _all_stopped(pid: int) -> bool:
    """Return whether the processes that the first one of a container has started are stopped."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    stats = [Path(f"/proc/{each}/stat").read_text() for each in children]
    return all(text.rpartition(") ")[2].startswith("T") for text in stats)


def test_a_hostile_sandbox_is_ended_all_the_same(wire: ControlWire, shared_hf: Holdfast) -> None:
    """Its supervisor is stopped: nothing of it answers, and nothing else waits for that."""
    made = wire.new()
    path = f"/sandboxes/{made['sandboxID']}"
    session = shared_hf.session(made["sandboxID"])
    answers: list[int] = []
    state = shared_hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    os.kill(state.pid, signal.SIGSTOP)  # else it lets the supervisor continue
    session.detach(
        "sleep 0.5; for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill -STOP ${p#/proc/}; done"
    )
    assert polling.until(lambda: _all_stopped(state.pid), PATIENCE)
    asking = threading.Thread(
        target=lambda: answers.append(wire.answer("GET", f"{path}/metrics").status_code)
    )
    asking.start()
    assert wire.state(made["sandboxID"]) == "running"
    assert isinstance(wire.call("GET", "/v2/sandboxes"), list)
    wire.call("DELETE", path, status=204)
    asking.join(60)
    assert answers
    assert answers[0] in (200, 404, 409, 502, 503)

"""The state and history of sessions over a URL: the values that the library has in process."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.control_wire import control_wire
from tests.integration.served import Over, Served

from holdfast import AsyncHoldfast, Holdfast, RemoteHoldfast, RemoteSession, Session
from holdfast.base import polling
from holdfast.errors import InvalidArgument, PortClosed, SessionNotFound, SnapshotNotFound


@pytest.fixture
def session(remote: RemoteHoldfast) -> RemoteSession:
    return remote.session("shared")


@pytest.fixture
def over(server: Served, tmp_path: Path) -> Over:
    return Over(server, tmp_path / "other")


def test_the_pulse(session: RemoteSession, shared: Session) -> None:
    shared.exec("cd /workspace; echo held > held; sleep infinity < held & sleeper=$!")
    pid = int(shared.exec("echo $sleeper").text)
    found = session.pulse(screens=True, files=True, since="1h")
    sleeper = found.process(pid)
    assert sleeper
    assert sleeper.origin
    assert sleeper.origin.command.startswith("cd /workspace")
    assert (found.id, found.name, found.lineage) == (shared.id, "shared", shared.pulse().lineage)
    assert [each.pid for each in found.opened("/workspace/held")] == [pid]
    assert "sleeper" in (found.terminals[0].screen or "")
    assert found.disk
    assert found.limits
    looked = session.pulse(parts=["processes", "files"], pid=pid, file="held")
    assert looked.detail
    assert looked.detail.cwd == "/workspace"
    assert looked.file
    assert [each.pid for each in looked.file.opened] == [pid]
    assert looked.sockets == ()
    assert session.pulse(disk=True).disk
    with pytest.raises(InvalidArgument):
        session.pulse(file="\0")
    shared.exec("kill $sleeper; wait $sleeper 2>/dev/null; rm held")


def test_the_use_of_a_session_over_time(
    session: RemoteSession, shared: Session, server: Served, shared_cli: Cli
) -> None:
    """A server samples it: the processor that it keeps busy, its memory and its disk, for every caller."""
    begun = datetime.now(UTC)
    job = shared.detach("while :; do :; done")
    assert polling.until(lambda: len(shared.metrics(begun)) >= 3, 90)
    job.signal("KILL")
    here = shared.metrics()
    kept = {each.at: each for each in session.metrics()}
    assert all(kept[each.at] == each for each in here if each.at in kept)
    assert max(each.processor_percent for each in here if each.at > begun) > 5
    last = here[-1]
    assert 0 < last.memory_used <= last.memory_total
    assert 0 < last.disk_used <= last.disk_total
    assert session.metrics(datetime.now(UTC) + timedelta(hours=1)) == []
    shown = shared_cli("metrics", shared.name, "--since", "5m")
    assert (shown.code, shown.out.split()[:2]) == (0, ["TIME", "PROCESSOR"])
    assert shared_cli("metrics", shared.name, "--since", "5").code == 1
    with control_wire(server) as wire:
        told = wire.call("GET", f"/sandboxes/{shared.id}/metrics?start={int(begun.timestamp())}")
        assert [each["timestamp"] for each in told] == sorted(each["timestamp"] for each in told)
        assert told[-1]["memUsed"] > 0
        found = wire.call("GET", f"/sandboxes/metrics?sandbox_ids={shared.id},0123456789ab")["sandboxes"]
        assert list(found) == [shared.id]
        assert found[shared.id]["cpuCount"] >= 1


def test_ports(session: RemoteSession, shared: Session, shared_cli: Cli) -> None:
    """A server is waited for in process, over a URL and by the command line; none is an error."""
    for handle in (shared, session):
        with pytest.raises(PortClosed, match="no program has accepted connections there for 0 s"):
            handle.wait_port(8123, patience=0)
    job = shared.detach("sleep 1; exec python3 -u -m http.server 8123")
    waited = session.wait_port(8123)
    assert (waited.port, waited.answers) == (8123, True)
    assert shared.wait_port(8123).answers
    done = shared_cli("wait", shared.name, "--port", "8123")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("port 8123: tcp at ")
    for words, said in (
        (["8124", "--patience", "0"], "cannot use port 8124"),
        (["0"], "ports range from 1"),
        (["8123", "c0ffee"], "cannot wait for both"),
    ):
        refused = shared_cli("wait", shared.name, "--port", *words)
        assert refused.code == 1
        assert said in refused.err
    here, there = shared.port(8123), session.port(8123)
    assert there.answers
    assert there.listeners[0].http_status == here.listeners[0].http_status == 200
    assert there.listeners[0].process
    assert "http.server" in there.listeners[0].process.command
    assert session.port(8124).listeners == ()
    job.signal("KILL")
    job.wait()


def test_the_journal(session: RemoteSession, shared: Session, remote: RemoteHoldfast) -> None:
    begun = datetime.now(UTC)
    last = shared.journal()[-1].seq
    session.exec("echo one", reason="to see")
    session.cell("1 + 1")
    here, there = shared.journal(), session.journal()
    assert [each.as_dict() for each in there][: len(here)] == [each.as_dict() for each in here]
    later = shared.journal(last)  # the session may add something at any time
    assert len(later) >= 4
    assert session.journal(last)[: len(later)] == later
    begins = ["command_started"]
    assert session.journal(kinds=begins, limit=1) == shared.journal(kinds=begins)[-1:]
    assert session.journal(kinds=["cell_started"])[-1].details["code"] == "1 + 1"
    assert session.journal(kinds=[]) == shared.journal(kinds=[]) == []
    assert session.journal(grep="echo one", actor="agent")[-1].details["command"] == "echo one"
    recent = session.journal(since=begun)
    assert "echo one" in [each.details.get("command") for each in recent]
    assert recent == [each for each in session.journal() if each.at >= begun.timestamp()][: len(recent)]
    assert session.journal(since=begun + timedelta(hours=1)) == []
    with remote.new("brief", remove=True) as brief:
        brief.exec("echo briefly")
    assert brief.refresh().state == "removed"
    assert brief.journal(grep="briefly")
    assert remote.session("brief", removed=True).id == brief.id
    with pytest.raises(SessionNotFound):
        remote.session("brief")


def test_drift_and_diff(
    session: RemoteSession, shared: Session, remote: RemoteHoldfast, shared_hf: Holdfast
) -> None:
    assert session.drift().since.label == "the beginning"
    before = session.snapshot("before")
    # A name that is no UTF-8 is one like any other.
    session.exec("cd /workspace; printf new > $'odd\\xff'; MODE=test; sleep infinity & sleeper=$!")
    here, there = shared.drift("before"), session.drift("before")
    assert session.drift().since.snapshot_id == before.id
    assert (there.text(), there.shell) == (here.text(), here.shell)
    assert there.as_dict()["files"] == here.as_dict()["files"]
    assert there.since.snapshot_id == before.id
    assert "/workspace/odd\udcff" in {each.path for each in there.files}
    assert there.processes
    assert there.authors[there.files[0].by[0]].actor == "agent"
    after = session.snapshot("after")
    found, expected = (each.diff("before", "after") for each in (remote, shared_hf))
    assert (found.text(), found.as_dict()) == (expected.text(), expected.as_dict())
    assert (found.before, found.after, found.empty) == ("before", "after", False)
    assert remote.diff("before", "before", everything=True).empty
    with pytest.raises(SnapshotNotFound):
        remote.diff("before", "never")
    with pytest.raises(InvalidArgument):
        session.drift("neverland")
    session.exec("kill $sleeper; unset MODE sleeper; rm $'odd\\xff'")
    for each in (after, before):
        each.remove()


def test_survivors_and_reachable_addresses(
    session: RemoteSession, shared: Session, remote: RemoteHoldfast
) -> None:
    here, there = shared.check(), session.check()
    assert {each.kind for each in there.resources} == {each.kind for each in here.resources}
    assert (there.blocks, there.whole) == ((), True)
    assert session.network().as_dict() == shared.network().as_dict()
    assert session.allow("192.0.2.7:99").network().allow == ("192.0.2.7:99",)
    assert session.disallow("192.0.2.7:99").network().allow == ()
    with pytest.raises(InvalidArgument):
        session.allow_domains("example.org")
    assert session.verification is None
    session.snapshot("verified")
    with remote.snapshot("verified").restore("verified-copy") as copy:
        assert copy.verification
        assert copy.verification.exact
        assert copy.verification.compared["processes"] > 1
    remote.remove_session("verified-copy")
    remote.remove_snapshot("verified")


def test_async(server: Served, shared: Session) -> None:
    async def main() -> None:
        async with AsyncHoldfast(server.url, token=server.token) as controller:
            session = await controller.session("shared")
            pulse, journal = await asyncio.gather(session.pulse(), session.journal(limit=1))
            assert pulse.process(1)
            assert len(journal) == 1
            assert (await session.drift("1h")).text()
            assert (await session.network()).network == "internet"

    asyncio.run(main())


@pytest.mark.thorough
def test_the_command_line(over: Over, session: RemoteSession) -> None:
    session.exec("cd /workspace; echo x > here")
    assert "shell main" in over("pulse", "shared")
    assert json.loads(over("pulse", "shared", "--json"))["name"] == "shared"
    assert "echo x > here" in over("journal", "shared", "-n", "2")
    assert "/workspace/here" in over("drift", "shared", "--since", "10m")
    assert "reaches" in over("network", "shared")
    assert "nothing is in the way" in over("snapshot", "shared", "--check")
    over("snapshot", "shared", "one")
    session.exec("rm here")
    over("snapshot", "shared", "--label", "two")
    assert "- /workspace/here" in over("diff", "one", "two")
    over("new", "ended")
    over("rm", "ended")
    assert over("journal", "ended")
    over("rmi", "one", "two")

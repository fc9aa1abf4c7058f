"""Sessions that move to a second machine: the parts that continue there, and their place when a move
fails."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.machines import login
from tests.machines.login import HOST
from tests.machines.moves import REMOTE, There, here, is_whole, prepared, wait_until
from tests.machines.registry import Registry
from tests.machines.relay import Relay

from holdfast.base import polling
from holdfast.errors import MoveFailed, OutcomeUnknown, SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.moving import move_session
from holdfast.runtime.operations.step import Step, watched
from holdfast.runtime.sessions import preview_grants
from holdfast.snapshots.bundle.keys import Keys

pytestmark = pytest.mark.timeout(300)


def test_a_session_continues_on_another_machine(hf: Holdfast, there: There, cli: Any) -> None:
    """Shell, programs, kernel, options, policy and journal; nothing of it stays here."""
    held = {"read_only": True, "writable": ["/srv"]}
    labels = {"team": "store"}
    session = prepared(hf, memory="600m", network="none", env={"GIVEN": "yes"}, labels=labels, **held)
    once = "echo ran >> /srv/times; wc -l < /srv/times"
    assert session.exec(once, key="once").text == "1\n"
    session.policy(keep=3)
    session.task.set(goal="Port the store")
    session.task.plan("Change\n- Keep :: test $COLOR = green\n- Write :: test -s /srv/file")
    assert session.task.done("1.1").done
    record = session.task.record()
    session.cell("x = object(); here = id(x)")
    said = cli("move", "work", HOST, "--remote-command", REMOTE, "--json")
    assert said.code == 0, said.err
    assert said.json["name"] == "work"
    assert said.json["bytes"] > said.json["rest"] > 0
    assert hf.sessions() == []
    assert hf.snapshots() == []
    assert there.states() == {"work": "running"}
    is_whole(there.says)
    assert there.says("echo $GIVEN") == "yes"
    assert there.says("touch /srv/more && touch /etc/x 2>/dev/null || echo held") == "held"
    assert there.cli("cell", "work", "print(id(x) == here)") == "True"
    assert "export COLOR=green" in there.cli("journal", "work")
    with there.machine.holdfast() as holdfast:
        moved = holdfast.session("work")
        limits = holdfast.engine.client.api.inspect_container(str(moved.row.container_id))["HostConfig"]
        assert (limits["Memory"], limits["NetworkMode"]) == (600 << 20, "none")
        assert (moved.id, moved.policy().keep) == (said.json["id"], 3)
        assert moved.task.record() == record
        assert (moved.id, moved.row.details.labels) == (session.id, labels)
    assert there.cli("exec", "--key", "once", "work", once) == "1"
    assert there.cli("task", "done", "work", "1.2").startswith("1.2 done, verified by #")
    assert list((there.machine.home.root / "downloads").glob("*")) == []
    events = cli("journal", "work", "--json")
    assert '"moved"' in events.out, events.out
    gone = cli("exec", "work", "true")
    assert f"cannot find session 'work' here: it has moved to {HOST}" in gone.err
    assert session.id in gone.err


@pytest.fixture
def back(hf: Holdfast, there: There, tmp_path: Path) -> Iterator[str]:
    """Return a script in the place of ssh in a move from the second machine to this one, which trusts it."""
    with there.machine.holdfast() as holdfast:
        Keys(hf.home).trust(Keys(holdfast.home).sending()[0].public, "there")
    leaving = ["nsenter", f"--target={os.getpid()}", "--net", "--mount", "--", "env", "-u", "DOCKER_HOST"]
    entering = tmp_path / "back"
    receiving = shlex.join([*leaving, f"HOLDFAST_HOME={hf.home.root}"])
    entering.write_text(f"#!/bin/sh\nexec {receiving} {REMOTE} receive\n")
    entering.chmod(0o755)
    yield str(entering)
    Keys(hf.home).remove("there")


def test_a_session_is_the_same_one_wherever_it_runs(
    hf: Holdfast, there: There, cli: Any, back: str, tmp_path: Path
) -> None:
    """It goes and comes back with its id, and a second one with that id is noticed at each contact.

    A session restored from a snapshot of it is a copy, unless it is recovered under its id: then two have
    it.
    """
    session = prepared(hf)
    granted = preview_grants.grant(hf.store, session.id, 3000, seconds=3600, public=False, now=time.time())
    kept = session.snapshot("before")
    steps: list[Step | None] = []
    with watched(steps.append):
        assert session.move(HOST, remote_command=REMOTE).session_id == session.id
    sent = [each for each in steps if each is not None and each.text == "moving work, MiB"]
    assert sent[0].total
    amounts = {each.done or 0 for each in sent if each.total == sent[0].total}
    assert max(amounts) == sent[0].total
    assert len(amounts) > 2
    there.cli("snapshot", "work", "--label", "later")
    there.cli("export", "later", str(tmp_path / "later.tar"))
    there.machine.cli("move", "work", "here", HOLDFAST_SSH=back)
    assert [(each.name, each.id) for each in hf.sessions()] == [("work", session.id)]
    assert there.states() == {}
    is_whole(here(hf.session(session.id)))
    assert preview_grants.of(hf.session(session.id).row.details, 3000) == granted
    hf.import_(tmp_path / "later.tar")

    def kinds() -> list[str]:
        return [entry.kind for entry in hf.session("work").journal()]

    assert [kinds().count(kind) for kind in ("arrived", "twin")] == [1, 0]

    there.cli("restore", "later", "--name", "copy")
    there.cli("restore", "later", "--keep-id")
    ids = {each["name"]: each["id"] for each in json.loads(there.cli("ls", "--json"))}
    assert (ids["work"], ids["copy"] == session.id) == (session.id, False)
    with pytest.raises(SessionExists, match=f"session work \\({session.id}\\) is here"):
        kept.restore(keep_id=True)
    refused = there.machine.cli("move", "work", "here", HOLDFAST_SSH=back)
    assert f"session work ({session.id}) is there already (running): two machines have it" in refused.stderr
    assert there.states() == {"work": "running", "copy": "running"}
    there.cli("snapshot", "work", "--label", "twin")
    there.cli("export", "twin", str(tmp_path / "twin.tar"))
    said = cli("import", str(tmp_path / "twin.tar"))
    assert said.code == 0, said.err
    assert f"session work ({session.id}) runs on two machines" in said.err
    assert kinds().count("twin") == 1

    hf.session("work").remove()
    is_whole(here(kept.restore(keep_id=True)))
    assert [each.id for each in hf.sessions()] == [session.id]


@pytest.mark.thorough
def test_a_session_moves_over_a_real_ssh(
    hf: Holdfast, there: There, cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a login, a key, a login shell that prints something, and a server that forgets it then."""
    prepared(hf)
    monkeypatch.setenv("HOLDFAST_SSH", shlex.join(login.by_ssh(there.machine, tmp_path)))
    said = cli("move", "work", HOST, "--remote-command", f"echo Welcome; exec {REMOTE}")
    assert said.code == 0, said.err + (tmp_path / "sshd.log").read_text()
    assert said.out == f"work runs at {HOST}\n"
    is_whole(there.says)
    said = cli("move", "work", HOST)
    assert said.code != 0


@pytest.mark.thorough
def test_a_session_moves_through_a_registry(
    hf: Holdfast, there: There, registry: Registry, door: Callable[[Registry], Relay]
) -> None:
    session = prepared(hf)
    door(registry)
    moved = session.move(HOST, remote_command=REMOTE, through=f"{registry.address}/team/work:moving")
    assert moved.rest > 0
    assert there.states() == {"work": "running"}
    assert hf.sessions() == []
    is_whole(there.says)


@pytest.fixture
def when_suspended(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Return a function that has something done between the two transfers of a move."""

    def set_up(happens: Callable[[], None]) -> None:
        suspend = snapshot_service.suspend

        def suspended(*arguments: Any, **options: Any) -> Any:
            happens()
            return suspend(*arguments, **options)

        monkeypatch.setattr(snapshot_service, "suspend", suspended)

    return set_up


@pytest.mark.thorough
def test_the_snapshot_that_was_sent_first_can_be_removed(
    hf: Holdfast, there: There, when_suspended: Callable[[Callable[[], None]], None]
) -> None:
    """It was held open, so only later changes are sent all the same."""
    session = prepared(hf)
    session.cell("import os; held = os.urandom(8 << 20)")  # the kernel has started, and changes little
    when_suspended(lambda: hf.snapshots()[0].remove())
    moved = session.move(HOST, remote_command=REMOTE)
    assert moved.rest < 8 << 20 < moved.bytes
    assert (hf.sessions(), hf.snapshots(), there.states()) == ([], [], {"work": "running"})
    is_whole(there.says)


@pytest.mark.thorough
def test_damage_to_kept_parts_is_found_on_the_other_machine(
    hf: Holdfast, there: There, when_suspended: Callable[[Callable[[], None]], None]
) -> None:
    """Before anything is started; the session continues here, and another move brings it over."""
    session = prepared(hf)
    damaged: list[Path] = []

    def damage() -> None:
        if damaged:
            return
        # The largest: that of the session's first process is small, and no part of it travels twice.
        pages = (there.machine.home.root / "snapshots").glob("*/images/pages-*.img")
        kept = max(pages, key=lambda path: path.stat().st_size)
        with kept.open("r+b") as file:
            for at in range(0, kept.stat().st_size, 1 << 16):
                file.seek(at)
                file.write(b"damage")
        damaged.append(kept)

    when_suspended(damage)
    with pytest.raises(MoveFailed, match="does not match its digest") as failed:
        session.move(HOST, remote_command=REMOTE)
    assert damaged
    assert "it continues here" in failed.value.hint
    assert there.states() == {}
    is_whole(here(hf.session("work")))
    hf.session("work").move(HOST, remote_command=REMOTE)
    assert (hf.sessions(), there.states()) == ([], {"work": "running"})
    is_whole(there.says)


@pytest.mark.thorough
def test_an_immovable_session_stays_and_runs(hf: Holdfast, there: There, cli: Any, tmp_path: Path) -> None:
    """Each refusal is one line with advice, comes before anything is paused, and changes nothing."""
    session = prepared(hf)
    life = session.row.container_id

    def refused(*arguments: str, **environment: str) -> str:
        said = cli("--json", "move", "work", *arguments, **environment)
        assert said.code != 0, said.out
        assert session.row.container_id == life
        assert (hf.session("work").state, hf.snapshots()) == ("running", [])
        assert there.states().keys() <= {"work"}
        is_whole(here(session))
        error = json.loads(said.err.splitlines()[-1])["error"]  # behind what ssh says
        return f"{error['message']} | {error['hint']}"

    assert "is not a machine" in refused("--", "-oProxyCommand=x")
    assert "is not a machine" in refused("a b")
    assert "port" in refused("host:22")
    assert "there is no command" in refused(HOST, "--remote-command", "/no/such/holdfast")
    assert "instead of a greeting" in refused(HOST, "--remote-command", "echo hello; true")
    assert "no-such-program" in refused(HOST, HOLDFAST_SSH="/no-such-program")
    assert "ended with 3" in refused(HOST, HOLDFAST_SSH="sh -c 'exit 3'")
    (tmp_path / "unreachable").touch()
    assert "cannot reach" in refused(HOST)
    there.returns()
    assert there.machine.cli("new", "work").returncode == 0
    assert "the name work is taken there" in refused(HOST, "--remote-command", REMOTE)
    assert there.machine.cli("rm", "work").returncode == 0
    key = Keys(hf.home).sending()[0].public
    assert there.machine.cli("key", "rm", key).returncode == 0
    assert f"holdfast key trust {key}" in refused(HOST, "--remote-command", REMOTE)
    assert there.machine.cli("key", "trust", key).returncode == 0


def test_local_resources_keep_a_session_here(hf: Holdfast, there: There, tmp_path: Path) -> None:
    session = hf.new("work", mounts=[f"{tmp_path}:/data:ro"])
    with pytest.raises(ValueError, match="folders of this machine"):
        session.move(HOST, remote_command=REMOTE)
    assert session.exec("echo runs").text.strip() == "runs"
    assert there.states() == {}


@pytest.mark.thorough
@pytest.mark.parametrize(("do", "when", "nth"), [("put", "middle", 3), ("start", "before", 1)])
def test_a_connection_that_fails_leaves_it_here(
    hf: Holdfast, there: There, do: str, when: str, nth: int
) -> None:
    """And running; another move brings it over."""
    session = prepared(hf)
    there.fails(do, when, nth)
    with pytest.raises(MoveFailed) as failed:
        session.move(HOST, remote_command=REMOTE)
    assert "it continues here" in failed.value.hint
    assert not (there.folder / "fault").exists()
    assert [each.state for each in hf.sessions()] == ["running"]
    assert there.states() == {}
    if when != "killed":
        assert polling.until(lambda: there.cli("snapshots", "--json") == "[]", 30, 0.5)
    is_whole(here(hf.session("work")))
    hf.session("work").move(HOST, remote_command=REMOTE)
    assert (hf.sessions(), there.states()) == ([], {"work": "running"})
    is_whole(there.says)


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["answered"])
def test_a_reply_that_is_lost_is_asked_for_again(hf: Holdfast, there: There, when: str) -> None:
    """The session runs there, and only there."""
    session = prepared(hf)
    there.fails("start", when)
    moved = session.move(HOST, remote_command=REMOTE)
    assert not (there.folder / "fault").exists()
    assert (hf.sessions(), there.states()) == ([], {"work": "running"})
    assert moved.session_id in there.cli("ls", "--json")
    is_whole(there.says)


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before"])
def test_without_an_answer_it_runs_nowhere_until_another_move_settles_it(
    hf: Holdfast, there: There, cli: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    session = prepared(hf)
    monkeypatch.setattr(move_session, "ASKING", 1.0)
    there.fails("start", when, lost=True)
    with pytest.raises(OutcomeUnknown, match="cannot tell whether work runs at there"):
        session.move(HOST, remote_command=REMOTE)
    assert [each.state for each in hf.sessions()] == ["suspended"]
    (held,) = (each for each in hf.snapshots() if each.id == hf.session("work").parent_snapshot_id)
    for verb in (["resume", "work"], ["rewind", "work", held.id], ["move", "work", "elsewhere"]):
        said = cli(*verb)
        assert said.code != 0, verb
        assert "it possibly runs at there" in said.err, said.err
    with Holdfast(hf.home) as again:  # which looks for what was cut short
        assert [each.state for each in again.sessions()] == ["suspended"]
    there.returns()
    assert there.states() == ({} if when == "before" else {"work": "running"})
    said = cli("move", "work", HOST, "--remote-command", REMOTE)
    assert said.code == 0, said.err
    assert (hf.sessions(), hf.snapshots(), there.states()) == ([], [], {"work": "running"})
    is_whole(there.says)


@pytest.mark.thorough
@pytest.mark.parametrize(("do", "nth"), [("import", 2)])
def test_a_source_that_is_killed_is_settled_by_the_next_command(
    hf: Holdfast, there: There, cli: Any, do: str, nth: int
) -> None:
    """Before the other machine has permission to start it, it continues here; after that a move asks."""
    prepared(hf)
    there.fails(do, "held", nth)
    moving = cli.start("move", "work", HOST, "--remote-command", REMOTE)
    wait_until((there.folder / "held").exists, moving)
    moving.kill()
    moving.wait()
    with Holdfast(hf.home) as again:
        (session,) = again.sessions()
        if do == "start":
            assert session.state == "suspended"
            with pytest.raises(OutcomeUnknown):
                session.resume()
            session.move(HOST, remote_command=REMOTE)
            assert (again.sessions(), there.states()) == ([], {"work": "running"})
            is_whole(there.says)
        else:
            assert session.state == "running"
            is_whole(here(session))
            # As after `suspend` and `resume`: what it was suspended in stays.
            assert [each.id for each in again.snapshots()] == (
                [session.parent_snapshot_id] if (do, nth) == ("import", 2) else []
            )
            assert there.states() == {}


@pytest.mark.thorough
@pytest.mark.parametrize("nth", [2])
def test_an_interrupt_leaves_it_here(hf: Holdfast, there: There, cli: Any, nth: int) -> None:
    prepared(hf)
    there.fails("import", "held", nth)
    moving = cli.start("move", "work", HOST, "--remote-command", REMOTE, stderr=subprocess.PIPE)
    wait_until((there.folder / "held").exists, moving)
    os.kill(moving.pid, signal.SIGINT)
    _, said = moving.communicate(timeout=120)
    assert moving.returncode == 130, said
    assert [each.state for each in hf.sessions()] == ["running"]
    is_whole(here(hf.session("work")))
    assert len(hf.snapshots()) == nth - 1
    assert there.states() == {}

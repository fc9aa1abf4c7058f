"""Rewinding in place, against a real engine."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from ipaddress import ip_network
from pathlib import Path
from random import randrange
from typing import Any

import pytest

from holdfast.engine import networks
from holdfast.errors import RestoreFailed, SessionRewound, SnapshotDamaged
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

DYING = Path(__file__).parents[1] / "inside" / "dying_rewind.py"


def _address(hf: Holdfast, session: Session) -> Any:
    state = hf.engine.inspect(hf.context.session_row(session.id).container_id or "")
    assert state is not None
    return state.addresses


def _settle(hf: Holdfast, session: Session) -> Any:
    """Give it an address that no other container gets, and return it: the engine begins with the
    lowest ones.
    """
    (pool,) = hf.engine.client.api.inspect_network(networks.ensure(hf.engine))["IPAM"]["Config"]
    address = ip_network(pool["Subnet"]).broadcast_address - 1 - randrange(1000)
    container = session.row.container_id or ""
    networks.leave(hf.engine, container)
    networks.join(hf.engine, container, [str(address)])
    return _address(hf, session)


def test_a_session_is_rewound_in_place(hf: Holdfast) -> None:
    """Shell, kernel, files and jobs are the snapshot's; id, name and address stay; the present is kept."""
    work = hf.new("work")
    address = _settle(hf, work)
    work.exec("cd /srv; step=1; echo one > file; sleep 100000 &")
    work.cell("step = 1")
    first = work.snapshot("first")
    work.exec("cd /tmp; step=2; echo two > /srv/file; kill %1")
    work.cell("step = 2")

    back = work.rewind("first")

    assert (back.session.id, back.session.name, back.session.state) == (work.id, "work", "running")
    assert _address(hf, work) == address
    assert back.deviations == ()
    assert back.session.row.generation == 1
    assert work.exec('echo "$PWD $step $(cat file) $(jobs -r | grep -c 100000)"').text == "/srv 1 one 1\n"
    assert work.cell("step").text == "1"
    assert back.kept is not None
    assert back.kept.parent_id == first.id
    assert (back.left_behind, back.lost) == (2, 0)
    entries = work.journal()
    assert [e.kind for e in entries if e.host] == ["created", "snapshot", "rewound"]
    commands = [e.details["command"] for e in entries if e.kind == "command_started"]
    assert len(commands) == 2
    assert commands[0].startswith("cd /srv")
    left = [e for e in work.journal(all_timelines=True) if e.kind == "command_started" and not e.current]
    assert [e.details["command"].split(";")[0] for e in left] == ["cd /tmp"]
    assert {e.session for e in left} == {"work"}
    assert len(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")) == 1

    again = work.rewind(back.kept, discard=True)
    assert again.kept is None
    # The end of the job may be reported before or after.
    assert "/tmp 2 two\n" in work.exec('echo "$PWD $step $(cat /srv/file)"').text
    assert work.snapshot("third").parent_id == back.kept.id


def test_a_failed_rewind_leaves_the_session_unchanged(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the snapshot is damaged or the new container does not come up, the old one continues."""
    from holdfast.runtime.restore.restore_session import Restoring

    work = hf.new("work")
    address = _settle(hf, work)
    work.exec("step=1; python3 -m http.server --bind 0.0.0.0 8000 >/dev/null 2>&1 &")
    first = work.snapshot("first")
    work.exec("step=2")
    broken = work.snapshot("broken")
    (hf.home.snapshots / broken.id / "manifest.json").write_text("{}")
    with pytest.raises(SnapshotDamaged):
        work.rewind(broken, discard=True)

    def fail(*_: Any) -> None:
        raise RestoreFailed("cannot restore: this is a test")

    monkeypatch.setattr(Restoring, "_restore_tree", fail)
    with pytest.raises(RestoreFailed):
        work.rewind(first, discard=True)

    assert _address(hf, work) == address
    asked = f"echo $step; curl -so /dev/null -w %{{http_code}} http://{address[0]}:8000"
    assert work.exec(asked).text == "2\n200"
    assert len(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")) == 1
    broken.remove()


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["suspended"])
def test_a_session_that_is_not_running_is_rewound(hf: Holdfast, how: str) -> None:
    """A suspended or dead session returns to the snapshot under its name and address."""
    work = hf.new("work")
    address = _settle(hf, work)
    work.exec("step=1")
    work.snapshot("first")
    work.exec("step=2")
    if how == "suspended":
        work.suspend()
    else:
        hf.engine.kill_remove(work.row.container_id or "")

    found = hf.session("work").rewind("@-2" if how == "suspended" else "@-1")

    assert found.session.exec("echo $step").text == "1\n"
    assert _address(hf, work) == address
    assert found.kept is None
    if how == "suspended":
        found.session.rewind(hf.snapshots()[-1], discard=True)
        assert found.session.exec("echo $step").text == "2\n"


def test_unfinished_runs_are_left_and_reported(hf: Holdfast) -> None:
    """A command that is awaited when the session is rewound fails with a message, and does not run again."""
    work = hf.new("work")
    work.snapshot("first")
    failed: list[BaseException] = []
    started = threading.Event()

    def run() -> None:
        try:
            Session(hf.context, work.row).exec(
                "touch /tmp/begun; echo go; sleep 100000", on_output=lambda _data: started.set()
            )
        except SessionRewound as error:
            failed.append(error)

    waiting = threading.Thread(target=run)
    waiting.start()
    assert started.wait(60)
    work.rewind("first", discard=True)
    waiting.join(60)

    assert [type(error) for error in failed] == [SessionRewound]
    assert work.exec("test ! -e /tmp/begun && jobs && ps -C sleep -o args=").text == ""


@pytest.mark.thorough
def test_generations_continue(shared_hf: Holdfast, shared: Session) -> None:
    """Captured and rewound again and again, a session is unchanged; more of it in the long tests."""
    for number in range(3):
        shared.exec(f"generation={number}; echo {number} >> /srv/generations")
        taken = shared.snapshot()
        shared.exec("generation=lost; rm /srv/generations")
        back = shared.rewind(taken, discard=True)
        assert back.session.row.generation == number + 1
        assert shared.exec("echo $generation; wc -l < /srv/generations").text == f"{number}\n{number + 1}\n"


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["restored", "switched"])
def test_a_killed_rewind_is_finished_or_undone(hf: Holdfast, cli: Any, step: str) -> None:
    """The next process finds the session unchanged, or rewound; nothing is left in between."""
    work = hf.new("work")
    address = _settle(hf, work)
    work.exec("step=1")
    work.snapshot("first")
    work.exec("step=2")
    died = subprocess.run([sys.executable, str(DYING), step], env=cli.environment, check=False)
    assert died.returncode == -signal.SIGKILL

    done = cli("exec", "work", "echo $step")

    assert (done.code, done.out) == (0, "2\n" if step == "restored" else "1\n"), done.err
    assert _address(hf, work) == address
    assert len(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")) == 1
    assert [path.name for path in hf.home.run.iterdir()] == [work.id]
    assert cli("exec", "work", "echo again").out == "again\n"

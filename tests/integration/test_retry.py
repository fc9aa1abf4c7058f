"""Many runs from one snapshot: flaky, deterministic, waiting and hanging commands, kept runs, bisection."""

from __future__ import annotations

import subprocess
import threading
from typing import Any

import pytest
from tests.integration import both_doors

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, RunsEnded, SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.guest_rpc.patience import Patience

# Fails in runs of an even number: the copy's name ends with it. Its output differs in every run.
EVEN = (
    'echo "$$ began at $(date +%T)"; n=$(hostname); n=${n##*-}; echo "in $MODE"; '
    'if [ $((n % 2)) = 0 ]; then echo "value 2 for $n at 0x$RANDOM"; (exit 3); else echo "value 1"; fi'
)


@pytest.fixture(scope="module")
def moment(shared_hf: Holdfast, shared: Session) -> Snapshot:
    """A shell with a variable, in a directory of its own."""
    assert shared.exec("mkdir -p /srv/project; cd /srv/project; export MODE=test").ok
    return shared.snapshot("moment")


def names(hf: Holdfast) -> list[str]:
    return sorted(session.name for session in hf.sessions())


def test_a_flaky_command_is_recognized_and_one_of_each_kind_is_kept(
    shared_hf: Holdfast, shared_cli: Any, moment: Snapshot
) -> None:
    """By its end; the first differing line is shown; exit code 5; identical copies are removed."""
    done = shared_cli("retry", "moment", "-n", "4", "--jobs", "2", "--name", "try", "--json", EVEN)
    assert done.code == 5, done.err
    told = done.json
    assert told["verdict"] == "flaky: 2 pass, 2 fail (2 kinds)"
    assert [one["status"] for one in told["runs"]] == ["exit 0", "exit 3", "exit 0", "exit 3"]
    assert told["differences"][0]["line"] == 3
    assert "value 1" in told["differences"][0]["texts"]
    kept = {one["number"]: one["kept"] for one in told["runs"]}
    assert kept[1] == "try-1"
    assert names(shared_hf) == ["shared", "try-1", "try-2", "try-4"]
    # A kept run continues where it was.
    assert shared_hf.session("try-2").exec("echo $MODE; pwd").text == "test\n/srv/project\n"
    with pytest.raises(SessionExists):
        moment.retry("true", 2, name="try")
    for name in ("try-1", "try-2", "try-4"):
        shared_hf.session(name).remove()


def test_a_deterministic_command_leaves_nothing(
    shared_hf: Holdfast, shared_cli: Any, moment: Snapshot
) -> None:
    """Also one that fails; exit code 0; the text runs in the shell's directory."""
    done = shared_cli("retry", "moment", "-n", "2", "--", "sh", "-c", "pwd; ls /nowhere")
    assert (done.code, done.out) == (0, "deterministic: 2 of 2 exit 2\n")
    assert "2/2: run" in done.err
    assert names(shared_hf) == ["shared"]


def test_asking_and_hanging_runs_are_outcomes(shared_hf: Holdfast, moment: Snapshot) -> None:
    """Neither is waited for; kept ones are found as they were left."""
    asking = "read -s -p 'Password: ' word"
    spread = moment.retry(asking, 1, timeout=120, keep="all", name="asks")
    assert [run.status for run in spread.runs] == ["waits for password"]
    asks = shared_hf.session("asks-1")
    assert asks.answer("x\n").ok
    asks.remove()
    spread = moment.retry("sleep 1000", 1, timeout=0.5, keep="all", name="hangs")
    assert [run.status for run in spread.runs] == ["timeout"]
    hangs = shared_hf.session("hangs-1")
    assert hangs.shell().command_id is not None
    hangs.remove()


def test_other_commands_run_beside_the_captured_one(shared_hf: Holdfast, shared: Session) -> None:
    """As a job in the shell's directory, with its exports; for a session, a snapshot is taken first."""
    shared.exec("cd /srv; export AT=debugger")
    asked = shared.exec("read -p '(pdb) ' answer")
    assert asked.waiting
    stuck = shared.snapshot("stuck")
    spread = stuck.retry(
        ["sh", "-c", "pwd; echo $AT; exit 4"], 1, keep="all", keep_as="snapshots", name="side"
    )
    (run,) = spread.runs
    assert (run.apart, run.status, run.output) == (True, "exit 4", ("/srv", "debugger"))
    assert run.kept == "side-1"
    assert names(shared_hf) == ["shared"]
    assert shared_hf.snapshot("side-1").kind == "live"
    shared_hf.snapshot("side-1").remove()
    assert shared.answer("c\n").ok
    shared.exec("cd /srv/project")


@pytest.mark.thorough
def test_the_first_of_a_line_of_snapshots_that_fails_is_found(
    shared_hf: Holdfast, shared_cli: Any, shared: Session, moment: Snapshot
) -> None:
    """With the commands run before it; each is tried at most once."""
    for number in range(1, 4):
        shared.exec(f"echo {number} > count")
        shared.snapshot(f"step-{number}")
    command = ["sh", "-c", "[ $(cat /srv/project/count 2>/dev/null || echo 0) -lt 2 ]"]
    done = shared_cli("bisect", moment.name, "step-3", "--json", "--", *command)
    assert done.code == 0, done.err
    assert (done.json["good"], done.json["bad"]) == ("step-1", "step-2")
    assert done.json["between"]["samples"] == ["echo 2 > count"]
    assert len(done.json["tried"]) <= 4
    refused = shared_cli("bisect", "step-3", moment.name, "--json", "--", *command)
    assert "does not come after step-3" in refused.error["message"]
    with pytest.raises(InvalidArgument):
        moment.retry("", 1)


def test_copies_of_a_killed_run_are_removed_by_the_next_controller(
    shared_hf: Holdfast, shared_cli: Any, shared: Session, moment: Snapshot
) -> None:
    """At any stage; the captured session is untouched."""
    command = ["retry", moment.name, "-n", "2", "--jobs", "1", "--keep", "all", "--name", "copy"]
    # The first run ends, so that its copy is held; the second never does.
    waits = "n=$(hostname); [ ${n##*-} = 1 ] || sleep 1000"
    process = shared_cli.start(*command, waits, stderr=subprocess.PIPE)
    with process:
        assert b"1/2: run 1 exit 0" in process.stderr.readline()
        process.kill()
    with Holdfast(shared_hf.home) as other:
        assert [row.name for row in other.sessions()] == ["shared"]
    assert shared.exec("echo on").text == "on\n"


@pytest.mark.parametrize("door", both_doors.LONG)
def test_runs_that_are_ended_leave_nothing(
    shared_hf: Holdfast, shared_home: Home, moment: Snapshot, door: str
) -> None:
    """Also the copies that are still being made at that time are removed, and not waited for."""
    before, patience = names(shared_hf), Patience()

    def end() -> None:
        polling.until(lambda: len(names(shared_hf)) > len(before), 60)
        patience.end()

    ending = threading.Thread(target=end)
    ending.start()
    with both_doors.opened(door, shared_home) as controller, pytest.raises(RunsEnded):
        controller.snapshot(moment.id).retry("sleep 600", 3, name="endless", patience=patience)
    ending.join()
    assert names(shared_hf) == before

"""Background work in real sessions: it survives, it is found again, and its death is reported with
its cause.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration import both_doors

from holdfast import Event, GuestError, Holdfast, InvalidArgument, JobNotFound, Session
from holdfast.runtime.guest_rpc.patience import Patience


def until(session: Session, kind: str, after: int = 0) -> Event:
    """Return the next event of a kind."""
    return next(session.events(after, follow=True, kinds=[kind]))


def test_a_detached_command_lives_in_all_copies(hf: Holdfast, cli: Any) -> None:
    """The same id works after a snapshot, a restore and in forks, and each copy has its own end."""
    work = hf.new("work")
    work.exec("cd /srv; export WORD=kept")
    started = cli(
        "exec",
        "--detach",
        "--name",
        "ask",
        "work",
        'read -s -p "Password: " x; echo "$PWD $WORD $x"; exit $x',
    )
    ref = started.out.strip()
    assert started.code == 0
    waits = until(work, "waiting")
    assert (waits.data["job"], waits.data["state"]["prompt"]) == (ref, "Password: ")
    assert "waits: Password:" in cli("jobs", "work").out
    told = cli("wait", "work", ref)
    assert (told.code, told.out) == (75, "Password: ")
    assert f"holdfast send work --job {ref}" in told.err

    job = work.exec("sleep 1000 & echo $!")
    pid = int(job.text.split()[-1])
    before = work.snapshot("before")
    copies = [work, *before.fork(2, "copy")]
    for number, copy in enumerate(copies, start=3):
        assert copy.job("ask").info().running
        assert cli("send", copy.name, "--job", "ask", "-e", str(number)).code == 0
        done = cli("wait", copy.name, ref, "--wait")
        assert (done.code, done.out) == (number, f"Password: /srv kept {number}\n")
        info = cli("job", copy.name, ref, "--json").json
        assert (info["state"], info["exit_code"], info["observed"]["state"]) == ("exited", number, "exited")
        assert cli("output", copy.name, ref, "--from", "-3").out == f"{number}\n"
        ends = [event.data["exit_code"] for event in copy.events(kinds=["job_ended"])]
        assert ends == [number]
        copy.exec(f"kill {pid}")
        died = until(copy, "process_exited").data
        assert (died["pid"], died["signal"]) == (pid, signal.SIGTERM)
        assert died["origin"]["id"] == job.command_id


def test_the_client_of_a_detached_command_can_die(shared: Session, shared_cli: Any) -> None:
    """It does not depend on its followers."""
    job = shared.detach("echo begun; read x; echo done")
    follower = shared_cli.start("output", "shared", job.id, "--follow", stdout=subprocess.PIPE)
    with follower:
        assert follower.stdout.readline() == b"begun\n"
        follower.kill()
    assert job.info().running
    job.send("\n")
    done = shared_cli("wait", "shared", job.id[:6], "--wait", "--json").json
    assert (done["exit_code"], done["output"].split()) == (0, ["begun", "done"])


def test_waiting_for_a_job_by_its_name_reports_its_id(shared: Session, shared_cli: Any) -> None:
    """As `jobs` lists it, also for the beginning of its id."""
    job = shared.detach("echo done", name="named")
    for reference in ("named", job.id[:6], job.id):
        assert shared_cli("wait", "shared", reference, "--json").json["command_id"] == job.id


@pytest.mark.parametrize("work", both_doors.BLOCKING, indirect=True)  # its callback uses the job
def test_the_terminal_of_a_job_has_a_size_a_kind_and_a_user(work: Session) -> None:
    """Its output can be had as the terminal has it, with the ends of lines of one."""
    script = 'trap "stty size" WINCH; stty size; echo $TERM; id -un; while true; do sleep 0.05; done'
    job = work.detach(script, rows=30, cols=90, user="nobody", env={"TERM": "vt100"})
    seen: list[bytes] = []
    before = b"30 90\r\nvt100\r\nnobody\r\n"
    patience = Patience(20)

    def follow(data: bytes) -> None:
        seen.append(data)
        if b"".join(seen) == before:
            job.resize(50, 132)
        elif b"50 132" in b"".join(seen):
            patience.end()

    assert job.wait(on_bytes=follow, raw=True, wait=True, patience=patience).running
    assert b"".join(seen) == before + b"50 132\r\n"
    assert (job.info().rows, job.info().cols) == (50, 132)
    assert job.output() == b"".join(seen).replace(b"\r\n", b"\n")
    job.signal("KILL")
    job.wait()
    with pytest.raises(GuestError, match="it has ended"):
        job.resize(24, 80)
    with pytest.raises(InvalidArgument, match="rows"):
        work.detach("true", rows=0)


def test_killing_a_detached_command_is_reported(shared: Session, shared_cli: Any) -> None:
    """The report names the killer; once it has ended there is nothing to send a signal to."""
    job = shared.detach("sleep 1000 & sleep 1000", name="sleeper")
    assert shared_cli("--as", "agent:b", "kill", "shared", "sleeper").code == 0
    assert job.wait().exit_code == 128 + signal.SIGTERM
    info = job.info()
    assert (info.signal, info.killed_by, info.running) == (signal.SIGTERM, "agent:b", False)
    failed = shared_cli("kill", "shared", "sleeper", "--json")
    assert (failed.code, failed.error["code"]) == (1, "guest_error")
    with pytest.raises(JobNotFound, match="cannot find job nothing: it does not exist"):
        shared.job("nothing")


def test_a_server_that_another_command_kills_is_reported(shared: Session, shared_cli: Any) -> None:
    """With its port, its command, and the command that ran when it died."""
    after = max((event.seq for event in shared.events()), default=0)
    serving = shared.exec(
        "python3 -m http.server 8000 >/dev/null 2>&1 & until curl -s localhost:8000 >/dev/null; do :; done"
    )
    shared.pulse()  # it reads all processes, and finds the ones left running
    killing = shared_cli.start(
        "exec", "shared", "pkill -9 -f [h]ttp.server; until [ -e /tmp/seen ]; do sleep 0.01; done"
    )
    event = until(shared, "process_exited", after)
    shared.cell("open('/tmp/seen', 'w').close()")
    assert killing.wait(120) == 0
    assert (event.data["signal"], event.data["cause"], event.data["ports"]) == (9, "signal", [8000])
    assert event.data["origin"]["id"] == serving.command_id
    assert any("pkill" in each["command"] for each in event.data["during"])
    shown = shared_cli("events", "shared", "--since", str(after), "--kind", "process_exited").out
    assert "python3 -m http.server 8000 (pid " in shown
    assert ", port 8000) was ended by SIGKILL; command " in shown


def test_a_process_killed_for_memory_is_named(hf: Holdfast) -> None:
    """A background process and a kernel, each with the cause, also in the next result."""
    work = hf.new("small", memory="256m")
    hog = "x = []\nwhile True: x.append(bytearray(8 << 20))"
    work.exec(f"(until [ -e /tmp/go ]; do sleep 0.01; done; exec python3 -c '{hog}') &")
    work.pulse()  # it reads all processes, and finds the ones left running
    news = list(work.exec("touch /tmp/go").news)
    event = until(work, "process_exited")
    assert (event.data["signal"], event.data["cause"]) == (9, "oom")
    news += work.exec("true").news
    assert [each.data["cause"] for each in news if each.kind != "oom"] == ["oom"]
    with pytest.raises(GuestError):
        work.cell(hog)
    died = until(work, "kernel_died")
    assert (died.data["kernel"], died.data["cause"]) == ("main", "oom")


def test_events_are_followed_across_a_capture_to_the_end(hf: Holdfast, cli: Any) -> None:
    """The last one reports the session's end."""
    work = hf.new("work")
    with cli.start("events", "work", "--follow", "--json", stdout=subprocess.PIPE) as follower:
        _follow(hf, work, iter(follower.stdout.readline, b""))
    assert follower.returncode == 0


def _follow(hf: Holdfast, work: Session, lines: Iterator[bytes]) -> None:
    assert json.loads(next(lines))["event"] == "started"
    work.snapshot()
    assert json.loads(next(lines))["event"] == "resumed"
    work.detach("exit 3").wait()
    kinds = [json.loads(next(lines))["kind"] for _ in range(2)]
    assert kinds == ["job_started", "job_ended"]
    container = hf.context.session_row(work.id).container_id
    assert container is not None
    subprocess.run(["docker", "kill", container], check=True, capture_output=True)
    last = [json.loads(line) for line in lines][-1]
    assert (last["kind"], last["cause"], last["exit_code"]) == ("session_ended", "exited", 137)

"""Commands outside the shell, in a real supervisor."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused, Result


def start(guest: Guest, command: str, **args: Any) -> dict[str, Any]:
    return guest.ask("job_start", command.encode(), **{"id": "t", **args})[0].head


def wait(guest: Guest, id_: str = "t", **args: Any) -> Result:
    return Result(guest.ask("job_wait", id=id_, **args))


def told(guest: Guest, kind: str) -> list[dict[str, Any]]:
    return [json.loads(frame.payload) for frame in guest.ask("journal", kinds=[kind])[:-1]]


def test_a_job_has_a_terminal_an_output_and_an_end(guest: Guest) -> None:
    """Any caller can read them, again and again."""
    begun = start(guest, "[ -t 0 ] && [ -t 1 ] && echo out; (exit 7)", name="first", actor="agent:a")
    assert (begun["id"], begun["name"], begun["actor"]) == ("t", "first", "agent:a")
    for _ in range(2):
        done = wait(guest)
        assert (done.output, done.exit_code, done.signal) == (b"out\r\n", 7, None)
    assert wait(guest, from_offset=2).output == b"t\r\n"
    job = guest.ask("job_list", id="t")[0].head["jobs"][0]
    assert (job["state"], job["exit_code"], job["pid"]) == ("exited", 7, begun["pid"])
    assert [each["id"] for each in told(guest, "job_started")] == ["t"]
    ended = told(guest, "job_ended")[0]
    assert (ended["exit_code"], ended["cause"], ended["actor"]) == (7, "exited", "agent:a")


def test_a_job_runs_beside_the_shell(guest: Guest) -> None:
    """Neither waits for the other, and the job does not end with the shell."""
    start(guest, "read line; echo got $line")
    assert guest.exec("echo free").output == b"free\r\n"
    guest.exec("exit 0")
    guest.ask("job_send", b"word\n", id="t")
    assert wait(guest).output.endswith(b"got word\r\n")


def test_a_job_begins_where_the_shell_is(guest: Guest) -> None:
    """It has the shell's directory and exported variables, plus the caller's variables."""
    guest.exec("mkdir sub; cd sub; export SHOWN='a b' OTHER=1; hidden=1")
    start(
        guest,
        'echo "${PWD##*/}|$SHOWN|$OTHER|$ADDED|$hidden|$HOLDFAST_JOB|$HOLDFAST_SHELL|"',
        env={"ADDED": "x", "OTHER": "2"},
    )
    assert wait(guest).output == b"sub|a b|2|x||t||\r\n"
    start(guest, "pwd", id="u", cwd="/")
    assert wait(guest, "u").output == b"/\r\n"


def test_a_job_that_asks_for_a_password_says_so(guest: Guest) -> None:
    """Its state and the journal say so; when it is answered it continues."""
    start(guest, "read -s -p 'Password: ' word; echo; echo got $word; read -p 'Sure? ' sure")
    with guest.call("journal", kinds=["waiting"], follow=True) as journal:
        entry = json.loads(journal.until("entry").payload)
        observed = guest.ask("job_list", id="t")[0].head["jobs"][0]["observed"]
        for state in (entry["state"], observed):
            assert (state["state"], state["detail"], state["prompt"]) == ("waiting", "password", "Password: ")
        assert entry["job"] == "t"
        guest.ask("job_send", b"secret\n", id="t")
        while entry["state"]["detail"] == "password":  # it may not have read the answer yet
            entry = json.loads(journal.until("entry").payload)
        assert (entry["state"]["detail"], entry["state"]["prompt"]) == ("line", "Sure? ")
    guest.ask("job_send", b"y\n", id="t")
    assert b"got secret" in wait(guest).output
    observed = guest.ask("job_list", id="t")[0].head["jobs"][0]["observed"]
    assert (observed["state"], observed["exit_code"]) == ("exited", 0)


def test_a_follower_of_a_job_learns_that_it_waits(guest: Guest) -> None:
    """After its earlier output, and once, as with a command of the shell."""
    start(guest, "echo first; read -p 'Name: ' name; echo $name")
    with guest.call("wait", id="t") as follower:
        frames = []
        for frame in follower.frames():
            frames.append(frame)
            if frame.event == "waiting":
                break
        assert b"".join(frame.payload for frame in frames) == b"first\r\nName: "
        assert frames[-1].head["state"]["prompt"] == "Name: "
        guest.ask("job_send", b"ann\n", id="t")
        assert follower.until("finished").head["exit_code"] == 0


def test_the_same_id_starts_one_job(guest: Guest) -> None:
    """A client that lost its connection asks again."""
    first = start(guest, "echo once >> count; read x")
    assert start(guest, "echo once >> count; read x")["pid"] == first["pid"]
    guest.ask("job_send", b"\n", id="t")
    wait(guest)
    assert guest.exec("cat count").output == b"once\r\n"


def test_a_signal_ends_all_in_the_terminal(guest: Guest) -> None:
    """The sender is known, and the exit code is a shell's."""
    start(guest, "sleep 1000 & echo $!; set -m; sleep 1000 & echo $!; wait")
    with guest.call("job_wait", id="t") as follower:
        seen = follower.until_output(b"\n")
        while seen.count(b"\n") < 2:
            seen += follower.until_output(b"\n")
        guest.ask("job_signal", id="t", signal="TERM", actor="person:ann")
        finished = follower.until("finished").head
    assert (finished["exit_code"], finished["signal"]) == (128 + signal.SIGTERM, signal.SIGTERM)
    ended = told(guest, "job_ended")[0]
    assert (ended["cause"], ended["killed_by"]) == ("signal", "person:ann")
    for pid in seen.split():
        assert guest.exec(f"while kill -0 {pid.decode()} 2>/dev/null; do sleep 0.01; done").exit_code == 0
    with pytest.raises(Refused, match="it has ended"):
        guest.ask("job_signal", id="t", signal="TERM")


def test_an_interrupt_is_that_of_the_terminal(guest: Guest) -> None:
    """As Ctrl-C: a program can catch it."""
    start(guest, "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done")
    with guest.call("job_wait", id="t") as follower:
        follower.until_output(b"ready")
        guest.ask("job_signal", id="t", signal="INT")
        follower.until_output(b"caught")
        assert follower.until("finished").head["exit_code"] == 5


def test_a_follower_ends_with_the_job(guest: Guest) -> None:
    """Following yields what comes, then the end."""
    start(guest, "echo one; read x; echo two")
    with guest.call("job_read", id="t", offset=0, follow=True) as reader:
        reader.until_output(b"one")
        guest.ask("job_send", b"\n", id="t")
        assert b"two" in reader.until_output(b"two")
        assert reader.until("eof").head["offset"] > 0
    tail = guest.ask("job_read", id="t", offset=-5)
    assert tail[0].payload == b"two\r\n"


def test_a_job_survives_a_pause(guest: Guest) -> None:
    """Its follower asks again, and misses nothing."""
    start(guest, "echo one; read x; echo two")
    guest.pause_and_wake()
    with guest.call("job_wait", id="t") as follower:
        follower.until_output(b"one")
        guest.ask("job_send", b"\n", id="t")
        follower.until_output(b"two")
        assert follower.until("finished").head["exit_code"] == 0


def test_processes_left_by_a_job_belong_to_it(guest: Guest) -> None:
    """Their ends are reported like those of a command's server."""
    wait_for = "until [ -e {} ]; do sleep 0.01; done"
    daemon, rest = wait_for.format("go"), wait_for.format("now")
    start(guest, f"setsid sh -c '{daemon}; exit 3' & {rest}; echo $!")
    guest.exec("touch now")
    pid = int(wait(guest).output.split()[-1])
    guest.pause_and_wake()
    with guest.call("journal", kinds=["process_exited"], follow=True) as journal:
        guest.exec("touch go")
        entry = json.loads(journal.until("entry").payload)
    assert (entry["pid"], entry["exit_code"], entry["origin"]["kind"], entry["origin"]["id"]) == (
        pid,
        3,
        "job",
        "t",
    )


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("true", {"cwd": "/nowhere"}, "cannot start job: there is no directory /nowhere"),
        (" ", {}, "cannot start job: its command is empty"),
        ("a\0b", {}, "cannot start job: its command contains a NUL byte"),
        ("true", {"env": {"A=": "b"}}, "cannot start job: its environment must map names to texts"),
        ("true", {"name": "a\nb"}, "cannot start job: its name must be a line of at most 64"),
    ],
)
def test_jobs_that_cannot_be_started(guest: Guest, command: str, args: dict[str, Any], message: str) -> None:
    """They are refused with the reason, and leave nothing."""
    with pytest.raises(Refused, match=message):
        start(guest, command, **args)
    assert guest.ask("job_list")[0].head["jobs"] == []
    with pytest.raises(Refused, match="cannot find job t: it does not exist"):
        wait(guest)


def test_jobs_are_limited(guest: Guest) -> None:
    """A limited number runs in parallel; of the ended ones the oldest are forgotten."""
    for number in range(32):
        start(guest, "read x", id=f"t{number}")
    with pytest.raises(Refused, match="32 are running already"):
        start(guest, "true", id="one too many")
    guest.ask("job_signal", id="t0", signal="KILL")
    wait(guest, "t0")
    start(guest, "true", id="one more")
    assert wait(guest, "one more").exit_code == 0


def test_a_job_is_named_after_its_present_program(guest: Guest) -> None:
    """bash becomes the last program of its text; while it is bash itself, its arguments add nothing."""
    source = "python3 -c 'input(\"who? \")'"
    start(guest, source)
    with guest.call("job_wait", id="t") as job:
        state = job.until("waiting").head["state"]
    assert (state["command"], state["prompt"]) == ('python3 -c input("who? ")', "who? ")
    assert told(guest, "waiting")[0]["state"]["command"] == state["command"]
    start(guest, "read x; echo $x", id="u")
    with guest.call("job_wait", id="u") as job:
        assert job.until("waiting").head["state"]["command"] == "bash"


def test_a_shell_is_named_after_its_present_program(guest: Guest) -> None:
    """After `exec` it is that program, whatever its pid was before."""
    with guest.begin("read x") as command:
        assert command.until("waiting").head["state"]["command"] == "bash"
        guest.ask("send", b"x\n")
    with guest.begin("exec python3 -c 'input(\"who? \")'") as command:
        assert command.until("waiting").head["state"]["command"] == 'python3 -c input("who? ")'
        guest.ask("send", b"x\n")
        command.until("finished")


SIZES = 'trap "stty size" WINCH; stty size; until [ -e done ]; do sleep 0.02; done'


def test_the_terminal_of_a_job_has_the_wanted_size_and_takes_another(guest: Guest) -> None:
    """A program there gets the signal; its description and its followers have the size of now."""
    begun = start(guest, SIZES, rows=30, cols=90)
    assert (begun["rows"], begun["cols"]) == (30, 90)
    with guest.call("job_wait", id="t") as following:
        said = following.until("started").head
        assert (said["rows"], said["cols"]) == (30, 90)
        assert following.until("output").payload == b"30 90\r\n"
        guest.ask("job_resize", id="t", rows=50, cols=132)
        assert following.until("output").payload == b"50 132\r\n"
    found = guest.ask("job_list", id="t")[0].head["jobs"][0]
    assert (found["rows"], found["cols"]) == (50, 132)
    guest.exec("touch done")
    wait(guest)
    with pytest.raises(Refused) as caught:
        guest.ask("job_resize", id="t", rows=1, cols=1)
    assert caught.value.code == "over"


@pytest.mark.parametrize("size", [{"rows": 0}, {"cols": 5000}, {"rows": "9"}, {"rows": True}])
def test_a_size_that_no_terminal_has_is_refused(guest: Guest, size: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        start(guest, "true", **size)
    assert caught.value.code == "invalid"
    start(guest, "sleep 1000")
    with pytest.raises(Refused) as caught:
        guest.ask("job_resize", id="t", **size)
    assert caught.value.code == "invalid"


def test_a_job_can_have_another_terminal_type(guest: Guest) -> None:
    """The shell's own TERM is not passed on; the caller's is."""
    guest.exec("export TERM=dumb")
    start(guest, "echo $TERM")
    assert wait(guest).output == b"xterm-256color\r\n"
    start(guest, "echo $TERM", id="u", env={"TERM": "vt100"})
    assert wait(guest, "u").output == b"vt100\r\n"


def test_a_separate_job_starts_while_a_person_holds_the_shell(guest: Guest) -> None:
    guest.ask("lease", shell="main", action="take", actor="person:ada")
    with pytest.raises(Refused) as caught:
        start(guest, "true", actor="agent:a")
    assert caught.value.code == "held"
    start(guest, "echo here", actor="agent:a", apart=True)
    assert wait(guest).output == b"here\r\n"


def test_an_unknown_user_is_refused(guest: Guest) -> None:
    with pytest.raises(Refused) as caught:
        start(guest, "true", user="nobody-here")
    assert caught.value.code == "invalid"

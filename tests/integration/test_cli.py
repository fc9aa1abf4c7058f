"""The command line in processes of its own, on the real engine."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.integration.conftest import Done

from holdfast import Holdfast, Session
from holdfast.base.home import Home
from holdfast.runtime.cli import command_line

ERROR = re.compile(r"^holdfast: cannot [^\n]+\n(  hint: [^\n]+\n)?$")


# exec.


def test_exec_is_transparent(shared_cli: Any) -> None:
    """Output and exit code are the command's."""
    done = shared_cli("exec", "shared", "echo out; (exit 7)")

    assert (done.code, done.out, done.err) == (7, "out\n", "")


def test_exec_takes_a_text_or_words(shared_cli: Any) -> None:
    """A text is for bash to read; words after -- arrive unchanged, whatever is in them."""
    assert shared_cli("exec", "shared", "echo $((1+1)) 'a  b'").out == "2 a  b\n"
    assert shared_cli("exec", "shared", "--", "printf", "%s|", "$HOME", "a  b", "-n").out == "$HOME|a  b|-n|"
    assert shared_cli("exec", "shared", "--", "echo 1").code == 127


def test_exec_reads_a_script_from_standard_input(shared_cli: Any) -> None:
    """`-` stands for standard input."""
    assert shared_cli("exec", "shared", "-", stdin="for i in 1 2; do\n  echo $i\ndone\n").out == "1\n2\n"


def test_the_example_of_a_hook_works(shared_cli: Any, shared: Session) -> None:
    """The hook of docs/identity.md is there, and runs."""
    page = (Path(__file__).parents[2] / "docs" / "identity.md").read_text()
    example = next(text for text in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) if "hooks.d" in text)
    command = shlex.join(shared_cli.command())
    subprocess.run(
        ["bash", "-c", f'holdfast() {{ {command} "$@"; }}\n{example.replace(" work ", " shared ")}'],
        env=shared_cli.environment,
        check=True,
    )
    hook = "~/.config/holdfast/hooks.d/10-queue"
    told = "HOLDFAST_EVENT=restored HOLDFAST_NAME=copy"
    said = shared.exec(f"{told} {hook} && cat /srv/queue-name; rm {hook} /srv/queue-name")
    assert said.text == "jobs-copy\n"


def test_exec_for_programs(shared_cli: Any, shared: Session) -> None:
    """--json prints one object whose id and name can be used again, and bytes that are not text."""
    done = shared_cli("--json", "exec", "shared", "printf 'a\\377'; false")

    assert done.code == 1
    assert (done.json["id"], done.json["name"]) == (shared.id, "shared")
    assert (done.json["exit_code"], done.json["output"], done.json["output_base64"]) == (1, "a�", "Yf8=")


def test_exec_after_a_timeout(shared_cli: Any) -> None:
    """124 is the exit code after a timeout, and a line says why."""
    done = shared_cli("exec", "shared", "sleep 600", "--timeout", "0.3")

    assert done.code == 124
    assert "interrupted after 0.3 s" in done.err
    assert shared_cli("exec", "shared", "echo on").out == "on\n"


def _unheeded() -> None:
    """Ignore signals, like a job that a script puts in the background, or a service."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})


@pytest.mark.parametrize("starter", [None, _unheeded], ids=["", "that was started without an ear for it"])
def test_ctrl_c_interrupts_the_command(shared_cli: Any, starter: Callable[[], None] | None) -> None:
    """Ctrl-C ends the command in the session, and the client with 130 and one line."""
    process = shared_cli.start(
        *("exec", "shared", "sh -c 'echo go; exec sleep 600'"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=starter,
    )
    assert process.stdout.readline() == b"go\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert (process.returncode, err.decode()) == (130, "holdfast: interrupted\n")
    assert shared_cli("exec", "shared", "echo on").out == "on\n"


_AWAIT = "mkfifo /srv/gate; echo go; read -r answer </srv/gate; rm /srv/gate; echo got $answer"
_OPEN = ("exec", "--detach", "shared", "echo it >/srv/gate")


def test_a_hangup_ends_the_client_alone(shared_cli: Any) -> None:
    """As when it is killed, the command continues."""
    with shared_cli.start("exec", "shared", _AWAIT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGHUP)
        assert (process.stdout.read(), process.wait(60)) == (b"", 128 + signal.SIGHUP)
    assert shared_cli(*_OPEN).code == 0
    shared_cli("wait", "shared")  # may be over already
    assert shared_cli("exec", "shared", "echo again $answer").out == "again it\n"


def test_with_nohup_the_client_outlives_its_terminal(shared_cli: Any) -> None:
    """A client started to ignore hangups ignores them."""
    command = ["nohup", *shared_cli.command("exec", "shared", _AWAIT)]
    with subprocess.Popen(
        command, env=shared_cli.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGHUP)
        assert shared_cli(*_OPEN).code == 0
        assert (process.stdout.read(), process.wait(60)) == (b"got it\n", 0)


def test_a_pipe_that_closes_ends_the_command(shared_cli: Any) -> None:
    """When the reader has closed, the writer ends without a complaint."""
    process = shared_cli.start("exec", "shared", "yes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()

    assert process.wait(60) != 0
    assert err == b""
    assert shared_cli("exec", "shared", "echo on").out.endswith("on\n")


# The terminal.


def test_typing_and_the_screen(shared_cli: Any) -> None:
    """The shell runs what is typed, and `screen` shows it."""
    assert shared_cli("send", "shared", "echo typed-$((40+2))", "--enter").code == 0
    with_retry = [shared_cli("screen", "shared").out for _ in range(1)]
    while "\ntyped-42" not in with_retry[-1]:
        with_retry.append(shared_cli("screen", "shared").out)
        assert len(with_retry) < 100
    shown = shared_cli("screen", "shared", "--json").json

    assert shown["rows"] > 0
    assert shown["name"] == "shared"


def test_a_person_attaches_and_leaves(shared_cli: Any) -> None:
    """Two terminals show the same shell, a key detaches, and the terminal is as it was before."""
    first = _attach(shared_cli)
    second = _attach(shared_cli)
    first.sendline("echo from-$((1+1))")
    first.expect_exact("from-2")
    second.expect_exact("from-2")
    second.setwinsize(33, 101)
    second.sendline("stty size")
    second.expect_exact("32 101")  # the last row has the status line
    for terminal in (first, second):
        assert not terminal.getecho()
        terminal.send("\x1d")
        terminal.expect(r"detached from session shared")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 0


def test_attach_restores_the_terminal_when_the_session_dies(hf: Holdfast, cli: Any) -> None:
    """The end of the container ends attach with one line, in a terminal that echoes again."""
    session = hf.new("dies")
    terminal = pexpect.spawn(
        "bash",
        ["-c", f"{sys.executable} -m holdfast attach dies; echo code=$?; stty -a"],
        env=cli.environment,
    )
    terminal.expect(r"root@dies")
    hf.engine.client.api.kill(str(session.row.container_id))
    terminal.expect(r"cannot use session dies: its container ended")
    terminal.expect(r"code=1")
    terminal.expect(r" icanon ")
    terminal.expect(r" echo ")
    terminal.close()


def test_attach_needs_a_terminal(shared_cli: Any) -> None:
    """Without a terminal attach says what to use instead."""
    done = shared_cli("attach", "shared")

    assert done.code == 1
    assert "not a terminal" in done.err


# The kernel.


def test_cell_prints_like_a_repl(shared_cli: Any) -> None:
    """Output, the value of the last expression, and a traceback with exit code 1; input() reads a line."""
    assert shared_cli("cell", "shared", "print('a')\n6*7").out == "a\n42\n"
    failed = shared_cli("cell", "shared", "1/0")
    assert failed.code == 1
    assert "ZeroDivisionError" in failed.err
    assert "\x1b" not in failed.err
    assert shared_cli("cell", "shared", "input('? ')", stdin="Ada\n").out == "? 'Ada'\n"
    assert shared_cli("cell", "shared", "input()").code == 1
    assert shared_cli("cell", "shared", "-", stdin="x = 5\nx").out == "5\n"


def test_cell_for_programs(shared_cli: Any) -> None:
    """--json yields value, streams and error."""
    done = shared_cli("cell", "shared", "print('a'); {'x': 1}", "--json")
    failed = shared_cli("cell", "shared", "1/0", "--json")

    assert (done.json["result"], done.json["stdout"], done.json["status"]) == ("{'x': 1}", "a\n", "ok")
    assert (failed.code, failed.json["error"]["ename"]) == (1, "ZeroDivisionError")


def test_a_hostile_cell_cannot_reach_the_terminal(shared_cli: Any) -> None:
    """Escape sequences of a cell are not passed on."""
    done = shared_cli("cell", "shared", r"print('\x1b]52;c;eHg=\x07\x1b[2Jshown')")

    assert done.out == "shown\n"


def test_the_kernel_is_restarted(shared_cli: Any) -> None:
    """A restart removes the variables."""
    shared_cli("cell", "shared", "here = 1")
    assert shared_cli("kernel", "restart", "shared").code == 0

    assert shared_cli("cell", "shared", "'here' in globals()").out == "False\n"
    assert shared_cli("kernel", "interrupt", "shared", "--json").json["name"] == "shared"


# Sessions.


def test_new_ls_rm(hf: Holdfast, cli: Any) -> None:
    """A session is made, listed and removed; every verb answers people and programs."""
    made = cli("new", "--name", "work", "--json").json
    assert cli("ls", "--json").json == [made | {"state": "running"}]
    assert "work" in cli("ls").out
    assert cli("new").out.strip() in {session.name for session in hf.sessions()}
    assert set(cli("ls", "-q").out.split()) == {session.name for session in hf.sessions()}
    others = [session.name for session in hf.sessions() if session.name != "work"]
    assert cli("rm", made["id"][:8], *others, "--json").json[0] == {"id": made["id"], "name": "work"}
    assert cli("ls", "--json").json == []


def test_a_session_begins_with_a_copy_of_a_folder(hf: Holdfast, cli: Any, tmp_path: Path) -> None:
    """In its directory, without the credentials of Git; a folder that cannot be copied leaves no session."""
    (project := tmp_path / "project").mkdir()
    (project / "main.py").write_text("print('copied')")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[http]\n\textraheader = AUTHORIZATION: basic c2VjcmV0\n")
    assert cli("new", "app", "--copy", str(project)).out == "app\n"
    assert cli("exec", "app", "python3 main.py").out == "copied\n"
    assert "c2VjcmV0" not in cli("exec", "app", "cat .git/config").out
    said = cli("new", "none", "--copy", str(project / "main.py"))
    assert (said.code, said.err.splitlines()[0]) == (
        1,
        f"holdfast: cannot copy {project / 'main.py'}: it is not a folder",
    )
    assert [session.name for session in hf.sessions()] == ["app"]


def test_bad_input_is_one_line_and_changes_nothing(
    shared_cli: Any, shared: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any mistake is one line with an exit code, and JSON for programs."""
    monkeypatch.setenv("HOLDFAST_HOME", shared_cli.environment["HOLDFAST_HOME"])

    def called(*arguments: str) -> Done:
        """Call it in this process: starting one takes longer than the call."""
        return Done(command_line.call(list(arguments)), *capsys.readouterr())

    for arguments in (
        ("exec", "nope", "true"),
        ("exec", "shared", ""),
        ("exec", "shared", "true", "--timeout", "-1"),
        ("cell", "nope", "1"),
        ("send", "shared"),
        ("send", "shared", "--key", "Entr"),
        ("screen", "nope\x1b[2J"),
        ("new", "--name", "shared"),
        ("new", "--name", "a b"),
        ("new", "--memory", "much"),
        ("new", "--mount", "/nonexistent/here:/data"),
        ("new", "--image", "127.0.0.1:1/no/such:image"),
        ("new", "--network", "host"),
        ("new", "--user", "root; reboot"),
        ("snapshot", "nope"),
        ("snapshot", "shared", "--kind", "partial"),
        ("snapshot", "shared", "one", "--label", "two"),
        ("restore", "nope"),
        ("fork", "nope"),
        ("suspend", "nope"),
        ("resume", "nope"),
        ("rm", "nope"),
        ("rmi", "nope"),
        ("artifact", "get", "nope\x1b[2J"),
        ("artifact", "rm", "nope"),
        ("task", "artifacts", "nope"),
        ("task", "artifacts", "shared", "--orphans"),
        ("task", "artifact", "shared", "name", "/etc/passwd"),
        ("kernel", "restart", "nope"),
    ):
        people, programs = called(*arguments), called("--json", *arguments)

        assert (people.code, people.out) == (1, ""), arguments
        assert ERROR.match(people.err), (arguments, people.err)
        assert (programs.code, programs.out) == (1, ""), arguments
        assert set(programs.error) == {"code", "message", "hint"}
    assert "it is a session: `holdfast fork shared`" in called("restore", "shared").err
    assert [row.name for row in shared._context.store.sessions()] == ["shared"]
    assert shared.exec("echo on").text == "on\n"


def test_the_version_is_reported(cli: Any) -> None:
    """`--version` works without a verb."""
    import holdfast

    assert cli("--version").out == f"{holdfast.__version__}\n"


def test_wrong_usage_is_code_2(cli: Any) -> None:
    """An unknown verb or option is a usage error."""
    for arguments in (("nope",), ("exec",), ("ls", "--nope"), ("new", "--cpus", "x")):
        assert cli(*arguments).code == 2
        done = cli("--json", *arguments)
        assert (done.code, done.error["code"]) == (2, "usage")


def test_without_an_engine(cli: Any, shared_cli: Any) -> None:
    """An engine that is down is one line; a running session can still be used."""
    down = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    done = cli("new", **down)

    assert done.code == 1
    assert ERROR.match(done.err)
    assert cli("new", "--json", **down).error["code"] == "engine_unavailable"
    assert shared_cli("exec", "shared", "echo on", **down).out == "on\n"


def test_an_unwritable_or_full_home_is_one_line(tmp_path: Path, cli: Any) -> None:
    """A state directory that cannot be used is named."""
    (tmp_path / "file").write_text("")
    done = cli("ls", HOLDFAST_HOME=str(tmp_path / "file" / "home"))

    assert done.code == 1
    assert ERROR.match(done.err)


def test_a_damaged_database_is_one_line(home: Home, cli: Any) -> None:
    """A file that is not a database is named, and left as it is."""
    home.database.write_bytes(b"garbage" * 1000)
    done = cli("ls", "--json")

    assert (done.code, done.error["code"]) == (1, "store_error")
    assert home.database.read_bytes() == b"garbage" * 1000


def test_ctrl_c_while_a_session_is_made(hf: Holdfast, cli: Any) -> None:
    """Whenever Ctrl-C comes, the exit code is 130 and nothing is left, or the session is complete."""
    for delay in (0.25, 0.45, 0.65):
        process = cli.start("new", "--name", "half", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(delay)  # arbitrary; whatever it hits must hold
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0:
            hf.remove_session("half")
        else:
            assert process.returncode in (130, -signal.SIGINT), err
            assert hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session") == {}
            assert hf.sessions() == []


def test_doctor_lists_the_confinement_of_sessions(cli: Any) -> None:
    """Each line of the posture with its reason, including the engine's own report."""
    asked = cli("doctor", "--security", "--json")
    found = {each["name"]: each for each in json.loads(asked.out)}

    assert all(each["state"] and each["why"] for each in found.values())
    assert {each["level"] for each in found.values()} <= {"ok", "limit", "better", "weak"}
    assert (asked.code == 1) == any(each["level"] == "weak" for each in found.values())
    assert found["seccomp"]["level"] == "ok"
    assert found["home"]["level"] == "ok"
    assert "CRIU 4." in found["images"]["state"]
    assert "runc" in found["runtime"]["state"]


def test_doctor_lists_its_checks(cli: Any) -> None:
    """Every check has a name, a verdict and a finding."""
    found = json.loads(cli("doctor", "--json").out)

    assert {"engine", "kernel", "state directory", "session image"} <= {check["name"] for check in found}
    assert all(check["ok"] or check["hint"] or check["detail"] for check in found)


def test_names_are_completed(shared_cli: Any) -> None:
    """The shell completes the names of sessions."""
    done = shared_cli(_HOLDFAST_COMPLETE="complete_bash", COMP_WORDS="holdfast exec sh", COMP_CWORD="2")

    assert done.out.split() == ["shared"]


def test_images_are_listed(cli: Any) -> None:
    """The current image of sessions is among those listed."""
    assert cli("image", "build", "session").out.startswith("holdfast/session:")
    assert any(image["current"] for image in cli("image", "ls", "--json").json)


def _attach(cli: Any) -> Any:
    terminal = pexpect.spawn(
        sys.executable, ["-m", "holdfast", "attach", "shared"], env=cli.environment, dimensions=(30, 100)
    )
    terminal.expect(r"root@shared")
    return terminal

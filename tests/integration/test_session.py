"""Sessions on the real engine, through the Python interface."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests import peak_memory

from holdfast import (
    EngineUnavailable,
    Holdfast,
    InvalidArgument,
    KernelDied,
    Session,
    SessionBusy,
    SessionDead,
    SessionExists,
    SessionNotFound,
)
from holdfast.base.home import Home

# The shell.


def test_changes_of_a_command_stay(work: Session) -> None:
    """Directory, variables, functions and jobs belong to one shell."""
    work.exec('cd /tmp; export COLOUR=green; shout() { echo "$1!"; }; sleep 600 & true')

    assert work.exec("pwd; echo $COLOUR; shout hi").text == "/tmp\ngreen\nhi!\n"
    assert "sleep 600" in work.exec("jobs").text
    work.exec("kill %1; cd; unset COLOUR")


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("(exit 7)", 7), ("kill -9 $BASHPID", 137), ("nosuch", 127)]
)
def test_the_exit_code_is_the_commands(work: Session, command: str, code: int) -> None:
    """A command that fails is a result."""
    result = work.exec(f"bash -c '{command}'")

    assert result.exit_code == code
    assert result.ok == (code == 0)


def test_output_arrives_as_it_is_written(work: Session) -> None:
    """Output comes in pieces while the command runs; together they equal the whole."""
    pieces: list[bytes] = []
    result = work.exec("for i in 1 2 3; do echo $i; done", on_bytes=pieces.append)

    assert b"".join(pieces) == result.output == b"1\n2\n3\n"


def test_bytes_come_through_as_they_are(work: Session) -> None:
    """Every byte arrives, also pairs of CR and LF."""
    result = work.exec("python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) + b\"\\r\\n\")'")

    assert result.output == bytes(range(256)) + b"\r\n"


def test_scripts_of_several_lines(work: Session) -> None:
    """Here-documents, functions and loops are read as bash reads them."""
    script = (
        "cat <<'END' | while read -r line; do\n  a 'b'\n\"c\nEND\n  echo \"<$line>\"\ndone\necho $((1+1))\n"
    )

    assert work.exec(script).text == "<a 'b'>\n<\"c>\n2\n"


def test_a_large_command_and_a_large_output(work: Session) -> None:
    """A megabyte goes in, and tens of megabytes come out, of which a streaming caller keeps the end."""
    assert work.exec(f"x='{'y' * 1_000_000}'; echo ${{#x}}").text == "1000000\n"
    counted = 0

    def count(data: bytes) -> None:
        nonlocal counted
        counted += len(data)

    result = work.exec("head -c 30000000 /dev/zero | tr '\\0' x", on_bytes=count)

    assert counted + result.lost == 30_000_000
    assert len(result.output) <= 1 << 20


def test_a_timeout_interrupts_and_keeps_the_shell(work: Session) -> None:
    """After the time the command is interrupted; its output is there, and the shell continues."""
    result = work.exec("echo before; sleep 600", timeout=0.5)

    assert result.timed_out
    assert result.text.startswith("before\n")
    assert work.exec("echo after").text == "after\n"


def test_a_busy_shell_says_so(work: Session) -> None:
    """While a command runs, a second one is refused immediately; it can be interrupted from outside."""
    started = threading.Event()
    results: list[Any] = []

    def run() -> None:
        results.append(work.exec("sh -c 'echo go; exec sleep 600'", on_output=lambda _: started.set()))

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    with pytest.raises(SessionBusy):
        work.exec("true")
    work.interrupt()
    thread.join(60)

    assert results[0].exit_code == 130


def test_text_and_keys_reach_the_running_program(work: Session) -> None:
    """Typing answers a program that reads, and the screen shows the dialogue."""
    asked = threading.Event()
    results: list[Any] = []

    def run() -> None:
        results.append(
            work.exec("read -p 'name? ' name; echo hello $name", wait=True, on_output=lambda _: asked.set())
        )

    thread = threading.Thread(target=run)
    thread.start()
    assert asked.wait(60)
    work.send("Ada")
    work.terminal.send_keys("Enter")
    thread.join(60)

    assert "hello Ada" in results[0].text
    assert "hello Ada" in work.terminal.screen().text


def test_an_unknown_key_is_refused(work: Session) -> None:
    """A name no key has is an error, and nothing is sent."""
    with pytest.raises(InvalidArgument):
        work.terminal.send_keys("Entr")


# The kernel.


def test_cells_share_one_kernel(work: Session) -> None:
    """Variables stay between cells; output, value and exception are distinguished."""
    work.cell("import sys; x = 20")
    result = work.cell("print('out'); print('err', file=sys.stderr); x + 1")

    assert (result.stdout, result.stderr, result.text, result.status) == ("out\n", "err\n", "21", "ok")
    failed = work.cell("1/0")
    assert failed.status == "error"
    assert failed.error is not None
    assert failed.error.ename == "ZeroDivisionError"


def test_a_cell_is_answered(work: Session) -> None:
    """input() gets the line it asks for."""
    asked: list[tuple[str, bool]] = []

    def answer(prompt: str, password: bool) -> str:
        asked.append((prompt, password))
        return "Ada"

    assert work.cell("input('name? ')", on_input=answer).text == "'Ada'"
    assert asked == [("name? ", False)]


def test_a_cell_without_on_input_waits_for_an_answer(work: Session) -> None:
    """With no one to answer, input() returns with its question, and continues when it is answered."""
    waiting = work.cell("print('hm'); input('name? ')")

    answered = work.kernel.answer(waiting, "Ada")

    assert waiting.status == "waiting"
    assert waiting.waiting is not None
    assert (waiting.waiting.detail, waiting.waiting.prompt) == ("line", "name? ")
    assert answered.text == "'Ada'"
    assert waiting.stdout + answered.stdout == "hm\n"  # a kernel's sockets have no order among them
    assert work.cell("1+1").text == "2"


def test_a_cell_is_interrupted_by_time_and_from_outside(work: Session) -> None:
    """A timeout and an interrupt end the cell and keep the kernel's variables."""
    work.cell("kept = 5")
    timed = work.cell("import time; time.sleep(600)", timeout=0.5)
    started = threading.Event()
    results: list[Any] = []

    def run() -> None:
        code = "print('go', flush=True)\nimport time; time.sleep(600)"
        results.append(work.cell(code, on_event=lambda _: started.set()))

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    work.kernel.interrupt()
    thread.join(60)

    assert timed.status == "timeout"
    assert results[0].status in ("interrupted", "error")
    assert work.cell("kept").text == "5"


def test_a_kernel_that_dies_is_reported_and_restarts(work: Session, shared_home: Home) -> None:
    """The end of the kernel's process ends the cell immediately, with its cause; the next cell has a new
    kernel.

    The caller has heard of it, so it is news to other actors alone.
    """
    with pytest.raises(KernelDied, match=r"kernel main \(pid [0-9]+\) ended with 3; its variables are gone"):
        work.cell("import os; os._exit(3)")

    assert [each.kind for each in work.exec("true").news] == []
    with Holdfast(shared_home, actor="agent:other") as other:
        assert "kernel_died" in [each.kind for each in other.session(work.id).exec("true").news]
    assert work.cell("'kept' in globals()").text == "False"


# The life of a session.


def test_options_reach_the_session(hf: Holdfast, tmp_path: Path) -> None:
    """Limits, environment, mount, user, folder and the missing network are as requested."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("from outside")
    session = hf.new(
        "odd",
        memory="512m",
        network="none",
        env={"GREETING": "hi there"},
        mounts=[f"{tmp_path / 'data'}:/data:ro"],
        workdir="/srv",
        pids=200,
    )

    assert session.exec("echo $GREETING; cat /data/file; pwd").text == "hi there\nfrom outside/srv\n"
    assert session.exec("touch /data/x").exit_code == 1
    assert session.exec("ls /sys/class/net").text.split() == ["lo"]
    limit = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
    assert session.exec(limit).text.strip() == str(512 << 20)


def test_a_user_of_its_own(hf: Holdfast) -> None:
    """Shell and kernel run as the chosen user."""
    session = hf.new("user", user="nobody")

    assert session.exec("id -un").text == "nobody\n"
    assert session.cell("import getpass; getpass.getuser()").text == "'nobody'"


def test_sessions_cannot_reach_each_other(hf: Holdfast) -> None:
    """A server of one session is not reached from a second one, though both reach the outside."""
    one, other = hf.new("one"), hf.new("other")
    address = one.exec("hostname -I").text.split()[0]
    serving = "bash -c '</dev/tcp/127.0.0.1/8000' 2>/dev/null"
    one.exec(f"python3 -m http.server 8000 >/dev/null 2>&1 & until {serving}; do :; done")

    reached = other.exec(f"timeout 3 bash -c '</dev/tcp/{address}/8000'")
    assert reached.exit_code != 0


def test_another_process_finds_the_session(hf: Holdfast, home: Home) -> None:
    """A controller that did not make a session uses it, and the session outlives its maker."""
    code = f"""
from holdfast import Holdfast
hf = Holdfast({str(home.root)!r})
hf.new("made-elsewhere").exec("mark=1234")
"""
    subprocess.run([sys.executable, "-c", code], check=True)

    found = hf.session("made-elsewhere")
    assert found.exec("echo $mark").text == "1234\n"
    assert [session.id for session in hf.sessions()] == [found.id]
    assert hf.session(found.id[:6]).name == "made-elsewhere"


def test_a_command_outlives_its_client(hf: Holdfast, home: Home) -> None:
    """A client killed while it waits leaves its command running in the shell."""
    session = hf.new("orphan")
    code = f"""
import os, signal
from holdfast import Holdfast
session = Holdfast({str(home.root)!r}).session("orphan")
die = lambda _: os.kill(os.getpid(), signal.SIGKILL)
session.exec("mkfifo /tmp/f; echo began; read x < /tmp/f; echo $x > /tmp/done", on_output=die)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL

    session.cell("open('/tmp/f', 'w').write('late\\n')")
    session.cell("import pathlib, time\nwhile not pathlib.Path('/tmp/done').exists(): time.sleep(0.01)")
    assert session.exec("cat /tmp/done", busy_wait=60).text == "late\n"


def test_a_name_in_use_is_refused_before_anything_is_made(hf: Holdfast) -> None:
    """The second session of a name is refused, and the first one is not touched."""
    hf.new("work").exec("x=1")
    with pytest.raises(SessionExists):
        hf.new("work")

    assert hf.session("work").exec("echo $x").text == "1\n"
    assert len(hf.sessions()) == 1


def test_a_container_removed_by_hand(hf: Holdfast) -> None:
    """The session is dead, says so in one line, and can be removed; its name is free then."""
    session = hf.new("gone")
    hf.engine.kill_remove(session.row.container_id or "")

    with pytest.raises(SessionDead, match=r"^cannot use session gone: its container was removed$"):
        session.exec("true")
    assert [found.state for found in hf.sessions()] == ["dead"]
    with pytest.raises(SessionDead):
        hf.session("gone").cell("1")
    hf.remove_session("gone")
    with pytest.raises(SessionNotFound):
        hf.session("gone")


def test_a_container_that_dies_under_a_command(hf: Holdfast) -> None:
    """The end of the container ends the waiting command, with the reason."""
    session = hf.new("dying")
    started = threading.Event()
    raised: list[Exception] = []

    def run() -> None:
        try:
            session.exec("sh -c 'echo go; exec sleep 600'", on_output=lambda _: started.set())
        except SessionDead as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    hf.engine.client.api.kill(str(session.row.container_id))
    thread.join(60)

    assert "exit code 137" in str(raised[0])


def test_without_an_engine_a_running_session_is_still_used(
    shared: Session, shared_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in a running session does not need an engine; verbs that need one report its absence."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with Holdfast(shared_home) as controller:
        assert controller.session("shared").exec("echo yes").text == "yes\n"
        for call in (controller.new, controller.sessions, controller.session("shared").remove):
            with pytest.raises(EngineUnavailable):
                call()
    assert shared.exec("echo still").text == "still\n"


def test_an_interrupted_start_leaves_nothing(hf: Holdfast, home: Home) -> None:
    """Ctrl-C while a session is made, at any of many points, leaves no row, container or folder."""
    code = f"""
import sys
from holdfast import Holdfast
hf = Holdfast({str(home.root)!r})
print("ready", flush=True)
hf.new("half")
"""
    for delay in (0.0, 0.1, 0.2, 0.3, 0.4, 0.6):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)  # arbitrary; whatever it hits must hold
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
        for session in Holdfast(home).sessions():
            assert session.exec("true").ok  # it was made just before
            session.remove()


def test_a_killed_start_is_undone_by_the_next_controller(hf: Holdfast, home: Home) -> None:
    """kill -9 while a session is made: the next controller removes what there is of it."""
    code = f"""
import os, signal
from holdfast.runtime.lifecycle import provision
from holdfast import Holdfast
provision.await_guest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Holdfast({str(home.root)!r}).new("half")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert hf.engine.containers(holdfast_home=home.digest, holdfast_role="session")

    assert Holdfast(home).sessions() == []
    assert hf.engine.containers(holdfast_home=home.digest, holdfast_role="session") == {}


def test_one_of_two_concurrent_sessions_gets_the_name(hf: Holdfast, home: Home) -> None:
    """Two processes make sessions of one name concurrently: one succeeds, one is refused."""
    code = f"from holdfast import Holdfast; Holdfast({str(home.root)!r}).new('work')"
    racers = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]
    errors = [racer.communicate(timeout=120)[1] for racer in racers]

    assert sorted(racer.returncode for racer in racers) == [0, 1]
    assert b"SessionExists" in b"".join(errors)
    assert len(hf.engine.containers(holdfast_home=home.digest, holdfast_role="session")) == 1


def test_an_image_without_a_supervisor_is_refused(hf: Holdfast) -> None:
    """An image not made for sessions is an error that says how to make one; nothing is left."""
    from holdfast import ImageError

    with pytest.raises(ImageError):
        hf.new("x", image="holdfast/none:such")
    assert hf.sessions() == []


def test_the_store_keeps_the_engines_facts(hf: Holdfast) -> None:
    """Labels of the container lead back to the session and the home."""
    session = hf.new("labelled")
    made = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")
    ((container, labels),) = made.items()

    assert container == session.row.container_id
    assert labels["holdfast.session"] == session.id
    assert json.loads((hf.home.run_dir(session.id) / "session.json").read_text())["name"] == "labelled"
    assert list(hf.home.staging.iterdir()) == []


@pytest.mark.thorough
def test_a_large_result_takes_little_memory(shared: Session, shared_cli: Any, tmp_path: Path) -> None:
    """`exec --json` of 300 MB, which JSON makes six times as long: the last 16 MiB, in under 100 MB."""
    command = shared_cli.command("exec", "--json", "shared", "head -c 300000000 /dev/zero")
    code, kilobytes = peak_memory.run(command, shared_cli.environment, tmp_path / "out")
    found = json.loads((tmp_path / "out").read_bytes())

    assert code == 0
    assert found["output"] == "\0" * (16 << 20)
    assert found["dropped"] == 300_000_000 - (16 << 20)
    assert kilobytes < 100_000

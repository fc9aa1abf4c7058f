"""A session whose container another program has stopped holds up no caller: each verb ends, and says why."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.integration.conftest import Cli, Done

from holdfast import Holdfast, Session, SessionPaused
from holdfast.base.home import Home
from holdfast.engine import engine_connection, quick_list
from holdfast.errors import EngineUnavailable, GuestError, SessionUnhealthy
from holdfast.runtime.cli import verb_table
from holdfast.runtime.guest_rpc import reconnect
from holdfast.runtime.sessions import health
from holdfast.snapshots.checkpointer.ground import cgroups
from holdfast.snapshots.checkpointer.ground.freezer import Freezer

BOUND = 120.0
"""Seconds in which each command line must end on a busy machine; on an idle one it takes three."""
SAID = ("was paused, not by Holdfast", "is paused")

# What each verb is called with; S is the paused session. Those that need it say that it is paused.
NEEDS_IT = """
exec S true
exec S --patience 1 true
exec S --timeout 1 true
exec S --detach true
wait S
wait S --patience 1
cell S 1
cell S --timeout 1 1
jobs S
job S work
output S work
kill S work
run S -- true
run S --timeout 1 -- true
cp S:/etc/passwd copied
cp README S:/tmp/README
events S
events S --follow
send S x
send S x --enter --wait --patience 1
send S --job work x
screen S
attach S
attach S --view
pulse S
pulse S --watch
pulse S --port 80
ports S
ssh-proxy work.holdfast
lease S
lease S take
shells S
shells S open third
shells S close other
kernels S
kernels S open other
watch S /tmp --for 1s
drift S --since before
snapshot S
snapshot S --check
snapshot S --kind filesystem
template S --name frozen
serve-captures S
suspend S
checkpoint S
fork S
rewind S before
move S elsewhere.invalid --remote-command false
retry S -n 2 true
replay S
replay S --cast out.cast
task done S 1.1
task artifact S passwords /etc/passwd
task artifacts S --orphans
kernel interrupt S
kernel restart S
"""
# These are answered by the home.
NEED_IT_NOT = """
metrics S
ls
ls --json
journal S
board
report
handoff S
policy S
lifetime S
lifetime S --idle 30m
preview S 80 --revoke
ssh-config
autosnap --help
network S
network S --allow 192.0.2.1:80
snapshots
snapshots --tree
restore before --name copy
fork before --name another
diff before before
pin before
unpin before
quota
gc --dry-run
verify before
export before out.bundle
task show S
task set S --goal g
task note S n
artifact ls
"""
# Of these, none concerns a session that is there.
WITHOUT_SESSION = """
doctor image pool ci new thaw fits bisect resume rmi import receive push pull key mcp serve redo
open access audit share notices login logout team cluster node
"""
OF_THE_RECORD = (
    "plan attempt step claim release answer alternative decide reread drop block unblock import resume"
)
"""Verbs of `task` that read and write the home's record, as `note` does, or the texts of other verbs."""
LAST = "rm S"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _names() -> Iterator[str]:
    """Yield the names of all verbs, with the subcommands of groups."""
    yield from (verb for verb in verb_table.VERBS if verb_table.below(verb))
    yield from verb_table.paths()


def test_every_verb_of_the_command_line_is_tried() -> None:
    """A verb that is added is tried here too, or is one that no session has to do with."""
    tried = _lines(NEEDS_IT + NEED_IT_NOT + LAST)
    without = WITHOUT_SESSION.split()
    left = [
        name
        for name in _names()
        if not any(f"{line} ".startswith(f"{name} ") for line in tried)
        and name.split()[0] not in without
        and name not in [f"task {verb}" for verb in OF_THE_RECORD.split()]
        and name not in ("artifact get", "artifact rm")  # of the home, as `artifact ls` is
    ]
    assert left == []
    assert set(without) < set(verb_table.VERBS)


def _words(line: str) -> list[str]:
    return ["work" + word[1:] if word == "S" or word.startswith("S:") else word for word in shlex.split(line)]


def _run(cli: Cli, folder: Path, line: str) -> Done:
    """Run a command line; `attach` gets the terminal that it wants."""
    words = cli.command(*_words(line))
    master, terminal = os.openpty()
    try:
        with cli.start(
            *_words(line),
            cwd=folder,
            stdin=terminal if line.startswith("attach") else subprocess.DEVNULL,
            stdout=terminal if line.startswith("attach") else subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            out, err = running.communicate(timeout=BOUND)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{words} does not end")
    finally:
        os.close(master)
        os.close(terminal)
    return Done(running.returncode, (out or b"").decode("utf-8", "replace"), err.decode("utf-8", "replace"))


@contextmanager
def _paused(hf: Holdfast, session: Session) -> Iterator[None]:
    hf.engine.pause(str(session.row.container_id))
    try:
        yield
    finally:
        hf.engine.unpause(str(session.row.container_id))


@pytest.mark.thorough
def test_no_verb_waits_for_a_paused_session(hf: Holdfast, home: Home, cli: Cli, tmp_path: Path) -> None:
    """All verbs end while it is paused: they say so, or do not need it. Afterwards it continues."""
    session = hf.new(name="work")
    session.detach("cat", name="work")
    session.shells.open("other")
    session.snapshot("before")
    session.task.set(goal="g", verify="true")
    session.task.plan("one\n- step\n")
    (tmp_path / "README").write_text("x")
    with _paused(hf, session):
        assert session.refresh().state == "paused"
        with ThreadPoolExecutor(6) as pool:
            attempts = {
                line: pool.submit(_run, cli, tmp_path, line) for line in _lines(NEEDS_IT + NEED_IT_NOT)
            }
        done = {line: attempt.result() for line, attempt in attempts.items()}
        wrong = [
            (line, done[line])
            for line in _lines(NEEDS_IT)
            if done[line].code == 0 or not any(text in done[line].err + done[line].out for text in SAID)
        ]
        assert wrong == []
        assert [(line, done[line]) for line in _lines(NEED_IT_NOT) if done[line].code != 0] == []
        assert done["ls"].out.splitlines()[1].split()[2] == "paused"
        state = hf.engine.inspect(str(session.row.container_id))
        assert state is not None
        assert state.paused, "a verb let it run"
    assert session.refresh().state == "running"
    assert cli("run", "work", "--", "echo", "here").out == "here\n"
    hf.engine.pause(str(session.row.container_id))
    assert _run(cli, tmp_path, LAST).code == 0


def test_a_control_group_that_was_frozen_by_hand_is_named(
    hf: Holdfast, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine still calls it running; the command in the hint lets it continue, and `rm` needs none."""
    session = hf.new(name="work")
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    monkeypatch.setattr(cgroups, "HOST_CGROUPS", Path("/sys/fs/cgroup"))
    freezer = Freezer(state.pid)
    for verb in ("exec", "snapshot", "rm"):
        freezer.freeze()
        try:
            assert cli("ls").out.splitlines()[1].split()[2] == "frozen"
            assert session.refresh().state == "frozen"
            assert verb != "rm" or cli("pulse", "work").out.startswith("work is frozen")
            done = cli(verb, "work", *(["true"] if verb == "exec" else []))
            if verb == "rm":
                assert done.code == 0, done.err
                return
            assert done.code == 1
            assert "its control group was frozen, not by Holdfast" in done.err
            subprocess.run(["sh", "-c", done.err.split("`")[1]], check=True)
        finally:
            with suppress(FileNotFoundError):  # the session was removed
                freezer.thaw()
        assert session.refresh().state == "running"
        assert session.exec("echo here", busy_wait=60).text == "here\n"


@contextmanager
def _pausing(hf: Holdfast, session: Session) -> Iterator[Callable[[str], object]]:
    """Yield a function that pauses the session when it is called first; it continues after the block."""
    begun = threading.Event()

    def pause(_: str) -> None:
        if not begun.is_set():
            begun.set()
            hf.engine.pause(str(session.row.container_id))

    try:
        yield pause
    finally:
        assert begun.is_set()
        hf.engine.unpause(str(session.row.container_id))


def test_a_command_whose_session_is_stopped_is_not_waited_for(
    hf: Holdfast, cli: Cli, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paused in the middle of it, or with a stopped supervisor: the error names the cause."""
    monkeypatch.setattr(reconnect, "FIRST_LOOK", 0.2)
    monkeypatch.setattr(health, "GLANCE", 0.2)
    monkeypatch.setattr(health, "UNREACHABLE", 1.0)
    session = hf.new(name="work")
    with pytest.raises(SessionPaused, match="was paused, not by Holdfast"), _pausing(hf, session) as pause:
        session.exec("echo begun; sleep 600", on_output=pause)
    session.interrupt(patience=60)
    supervisor = session.exec("echo $PPID", timeout=60).text.split()[-1]
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    (keeper,) = Path(f"/proc/{state.pid}/task/{state.pid}/children").read_text().split()
    for above in (
        state.pid,
        int(keeper),
    ):  # else the keeper lets the supervisor continue, and the other one the keeper
        os.kill(above, signal.SIGSTOP)
    with pytest.raises(SessionUnhealthy, match="its supervisor does not answer"):
        session.exec(f"kill -STOP {supervisor}; sleep 600")
    with pytest.raises((SessionUnhealthy, GuestError)):
        session.cell("1")
    with served_silence(tmp_path) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine}")
        monkeypatch.setattr(engine_connection, "ANSWER_SECONDS", 0.2)
        with Holdfast(home) as other, pytest.raises(SessionUnhealthy, match="engine does not answer"):
            other.session("work").exec("true")
        monkeypatch.delenv("DOCKER_HOST")
    wake = ["kill", "-CONT", supervisor]
    assert hf.engine.run_inside(str(session.row.container_id), wake, {}, "wake it") == (0, b"")
    for above in (int(keeper), state.pid):
        os.kill(above, signal.SIGCONT)
    session.interrupt(patience=60)
    assert session.exec("echo again", timeout=60).text == "again\n"


def test_an_engine_that_does_not_answer_holds_up_nothing_that_runs(
    hf: Holdfast, home: Home, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands do not ask it; commands that need it report that it does not answer."""
    hf.new(name="work")
    monkeypatch.setattr(engine_connection, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(quick_list, "PATIENCE", 0.2)
    with served_silence(tmp_path) as engine:
        assert cli("exec", "work", "echo here", DOCKER_HOST=f"unix://{engine}").out == "here\n"
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine}")
        with Holdfast(home) as other, pytest.raises(EngineUnavailable, match="engine does not answer"):
            other.sessions()
        monkeypatch.delenv("DOCKER_HOST")


@contextmanager
def served_silence(folder: Path) -> Iterator[Path]:
    """Yield the path of a socket that takes connections, and never says anything."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "silent.sock"))
        listener.listen(64)
        yield folder / "silent.sock"

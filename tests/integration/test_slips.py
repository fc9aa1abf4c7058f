"""Input of people and agents that ends more than they meant: the session stays, or comes back.

Programs are ended by name and by number all day. Such input costs a session at most its processes.
"""

from __future__ import annotations

import io
import shlex
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Cli

from holdfast import Holdfast, OutcomeUnknown, Session, SessionDead
from holdfast.engine import networks
from holdfast.errors import CaptureFailed, HoldfastError, KernelDied
from holdfast.runtime.sessions import shared_folder

PATIENCE = 60.0
BY_NAME = (
    "pkill python",
    "pkill python3; pkill python",
    "pkill -f python",
    "pkill -x python3",
    "pkill -9 python",
)
FORGED = """
import ctypes, os, struct
number = {"x86_64": 129}.get(os.uname().machine, 138)
info = lambda one: struct.pack("iii", one, 0, -1).ljust(128, bytes(1))
print([ctypes.CDLL(None).syscall(number, 1, one, info(one)) for one in (15, 2, 1, 10)])
"""
"""Signals to the first process that name no sender, as those from outside do: rt_sigqueueinfo(2)."""
TO_ALL = ("kill -15 -1", "kill -HUP -1", "kill -INT -1", "kill -QUIT -1", "kill -USR1 -1", "kill -64 -1")


def _events(session: Session, kind: str) -> list[dict[str, Any]]:
    return [dict(event.data) for event in session.events(kinds=[kind])]


def _container(hf: Holdfast, session: Session) -> Any:
    return hf.engine.client.containers.get(str(session.row.container_id))


def test_ending_programs_by_name_or_number_leaves_the_session(hf: Holdfast) -> None:
    """Its shell and files stay, through each form. Programs are hit, and the kernel, which comes back."""
    session = hf.new("slips")
    session.exec("KEEP=1; echo work > result; is() { until [ $(cat /proc/$!/comm) = $1 ]; do :; done; }")
    supervisor = session.exec("pgrep -x holdfast").text
    session.cell("x = 1")

    for form in BY_NAME:
        hit = session.exec(f"python3 -c 'import time; time.sleep(1000)' & is python3; {form}; wait $!")
        assert hit.exit_code in (128 + 15, 128 + 9), (form, hit.text)
    for form in TO_ALL:
        hit = session.exec(f"sleep 1000 & is sleep; {form}; wait $!")
        assert hit.exit_code is not None, form
        assert hit.exit_code > 128, (form, hit.text)
    session.exec("kill 1; kill -INT 1; kill -HUP 1; kill -USR1 1; kill -9 1; kill -STOP -1; kill -CONT -1")
    assert session.exec(f"/usr/bin/python3 -c {shlex.quote(FORGED)}").text == "[0, 0, 0, 0]\n"

    assert session.exec("echo $KEEP; cat result; pgrep -x holdfast").text == f"1\nwork\n{supervisor}"
    assert session.cell("6 * 7").text == "42"
    assert _events(session, "restarted") == []
    copy = session.snapshot("after").restore("copy")
    copy.exec("pkill -f python; kill 1; kill -15 -1; kill -9 1")
    assert copy.exec("echo $KEEP; pgrep -x holdfast").text == f"1\n{supervisor}"


def test_a_killed_supervisor_is_followed_by_another(hf: Holdfast) -> None:
    """Files and journal stay; it is reported once, with the running commands; nothing runs twice; copies
    are as good."""
    session = hf.new("killed")
    session.exec("KEEP=1; echo work > result")
    with pytest.raises(OutcomeUnknown, match="supervisor was killed"):
        session.exec("echo again >> /workspace/times; kill -9 -1")

    first = session.exec("echo .$KEEP; cat result times")
    assert first.text == ".\nwork\nagain\n"
    (told,) = [event for event in first.news if event.kind == "restarted"]
    assert told.data["signal"] == 9
    assert "its supervisor was ended by SIGKILL" in told.text
    assert session.exec("true").news == ()
    assert session.cell("6 * 7").text == "42"
    assert len(_events(session, "restarted")) == 1
    began = next(entry for entry in session.journal() if entry.kind == "command_started")
    assert str(began.details["command"]).startswith("KEEP=1")

    session.exec("KEEP=2")
    copy = session.snapshot("after").restore("copy")
    assert copy.exec("sleep 1000", patience=0.01).running
    _container(hf, copy).exec_run(["pkill", "-9", "keeper"])  # which may be ended with all the rest
    deadline = time.monotonic() + PATIENCE
    while len(found := _events(copy, "restarted")) < 2:
        assert time.monotonic() < deadline
    event = found[-1]
    assert [run["command"] for run in event["during"]] == ["sleep 1000"]
    assert copy.exec("echo .$KEEP; pgrep -x sleep; cat result").text == ".\nwork\n"
    assert copy.snapshot("again").restore("third").exec("cat result").text == "work\n"
    assert session.exec("echo $KEEP").text == "2\n"


@pytest.mark.thorough
def test_a_supervisor_that_knows_no_past_is_not_started_again(hf: Holdfast, tmp_path: Path) -> None:
    """As older images have it: it would run a command once more whose caller has lost the connection."""
    session = hf.new("older")
    guest = "/opt/holdfast/guest/holdfast/runtime/guest/records"
    session.exec(f"mv {guest}/past_runs.py /root/")
    with pytest.raises(SessionDead, match=r"ended \(exit code 137\)"):  # of the killed one, not of another
        session.exec("echo ran >> /workspace/times; pkill -9 -x holdfast; sleep 1000")
    session.files.download("times", tmp_path / "times")
    assert (tmp_path / "times").read_text() == "ran\n"


@pytest.mark.thorough
def test_a_session_without_a_free_process_says_so(hf: Holdfast) -> None:
    """Its shell runs what needs none, everything else is refused in words, and it can be captured."""
    session = hf.new("full", pids=70)
    session.exec("KEEP=1")
    found = session.exec("for i in {1..90}; do sleep 1000 & done")
    assert "no process is free (there are 70 of at most 70" in found.message

    assert session.exec("echo $KEEP").text == "1\n"
    with pytest.raises(HoldfastError, match="cannot run true: no process is free"):
        session.run(["true"])
    with pytest.raises(HoldfastError, match="cannot start job: no process is free"):
        session.detach("true")
    assert session.snapshot("files", kind="filesystem").kind == "filesystem"
    assert [each.state for each in hf.sessions()] == ["running"]
    copy = session.snapshot("full").restore("copy")
    for each in (session, copy):
        assert each.exec("kill %1 %2 %3 %4 %5 %6; wait %1 %2 %3 %4 %5 %6; echo $KEEP").text.endswith("1\n")
        assert each.exec("ls").ok
    assert _events(session, "restarted") == []


def test_a_fork_bomb_is_named_and_ended_by_its_hint(hf: Holdfast, cli: Cli, tmp_path: Path) -> None:
    """The supervisor answers all the time: files are copied, pulse and capture are taken, work is kept."""
    session = hf.new("bombed", pids=70)
    session.exec("KEEP=1; echo work > result")
    begun = session.exec("bomb() { bomb | bomb & }; bomb 2>/dev/null")
    deadline = time.monotonic() + PATIENCE
    while not (found := _events(session, "no_free_process")):
        assert time.monotonic() < deadline
    assert found[0]["limit"] == 70
    assert found[0]["members"] > 8

    session.files.download("result", tmp_path / "result")
    assert (tmp_path / "result").read_text() == "work\n"
    limits = session.pulse().limits
    assert limits is not None
    assert limits.pids.limit == 70
    assert (limits.pids.refused or 0) > 0
    assert session.snapshot("files", kind="filesystem").kind == "filesystem"
    told = cli("exec", "bombed", "echo $KEEP; cat result")
    assert "1" in told.out.splitlines()
    heard = [event.text for event in begun.news] + [told.err]  # it is told with the next result
    assert any(f"`kill -KILL -- -{found[0]['group']}` in the shell ends them" in text for text in heard)

    while True:  # by what the latest report names: a bomb can be of several groups
        session.exec(str(_events(session, "no_free_process")[-1]["remedy"]))
        if session.exec("ls").ok:
            break
        assert time.monotonic() < deadline
    assert session.exec("echo $KEEP; cat result").text == "1\nwork\n"
    assert session.run(["true"]).exit_code == 0
    assert _events(session, "restarted") == []
    assert len(_events(session, "no_free_process")) <= 2


def test_beside_programs_that_use_up_the_memory_the_session_answers(hf: Holdfast, tmp_path: Path) -> None:
    """They are started again and again; the kernel ends them, and neither the supervisor nor the shell."""
    session = hf.new("hungry", memory="256m")
    session.exec("KEEP=1; echo work > result")
    with pytest.raises(KernelDied, match=r"was killed: out of memory.*its variables are gone") as died:
        session.cell("x = [b'x' * (1 << 20) * n for n in range(99)]")
    assert "--memory" in str(died.value.hint)
    session.exec(
        "hog() { while :; do python3 -c 'x = [b\"x\" * (1 << 20) * n for n in range(99)]'; done; }; "
        "for each in 1 2 3 4; do hog & done 2>/dev/null"
    )
    deadline = time.monotonic() + PATIENCE
    while len(_events(session, "oom")) < 2:
        assert time.monotonic() < deadline

    session.files.download("result", tmp_path / "result")
    assert (tmp_path / "result").read_text() == "work\n"
    limits = session.pulse().limits
    assert limits is not None
    assert (limits.memory.oom_kills or 0) > 1
    assert session.snapshot("files", kind="filesystem").kind == "filesystem"
    session.exec("kill -KILL %1 %2 %3 %4; wait")
    assert session.exec("echo $KEEP; cat result").text == "1\nwork\n"
    assert session.run(["true"]).exit_code == 0
    assert _events(session, "restarted") == []


def test_a_dead_session_keeps_its_files(hf: Holdfast, tmp_path: Path) -> None:
    """They can be copied out and captured, and the session started again on them; also a copy's."""
    session = hf.new("dead")
    session.exec(
        "KEEP=1; mkdir -p a/b; echo deep > a/b/f; ln a/b/f a/hard; ln -s b/f a/soft; ln -s /etc/passwd a/out"
    )
    _container(hf, session).kill()

    with pytest.raises(SessionDead, match=r"its container ended \(exit code 137\)") as refused:
        session.exec("true")
    assert "`holdfast resume dead` starts it again on its files" in refused.value.hint
    with pytest.raises(SessionDead):
        session.snapshot("live")

    made = session.files.download("a", tmp_path / "a")
    assert (made.files, made.folders, made.links) == (2, 1, 1)
    assert list(made.left_out) == ["out"]
    assert {path.name: path.read_text() for path in (tmp_path / "a").rglob("*") if path.is_file()} == {
        "f": "deep\n",
        "hard": "deep\n",
        "soft": "deep\n",
    }
    session.files.download("a/soft", tmp_path / "one")
    assert (tmp_path / "one").read_text() == "deep\n"
    stream = io.BytesIO()
    session.files.write_tar("/workspace/a", stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        assert {"b", "b/f", "hard", "soft", "out"} == set(tar.getnames())

    session.resume().exec("echo data > .wh.lake")
    _container(hf, session).kill()
    with pytest.raises(CaptureFailed, match=r"/workspace/\.wh\.lake") as lost:
        session.snapshot("files", kind="filesystem")
    assert "holdfast resume" in lost.value.hint
    session.resume().exec("rm .wh.lake")
    _container(hf, session).kill()
    kept = session.snapshot("files", kind="filesystem")
    assert kept.restore("kept").exec("cat a/hard").text == "deep\n"

    session.resume()
    first = session.exec("echo .$KEEP; cat a/b/f")
    assert first.text == ".\ndeep\n"
    assert "its container ended (exit code 137)" in first.news[0].text
    copy = session.snapshot("live").restore("copy")
    copy.exec("echo more >> a/b/f")
    _container(hf, copy).kill()
    copy.resume()
    assert copy.exec("cat a/b/f").text == "deep\nmore\n"
    assert copy.snapshot("live-again").restore("last").exec("cat a/soft").text == "deep\nmore\n"


def test_going_back_keeps_the_files_of_a_dead_session(hf: Holdfast) -> None:
    """Files written since its last snapshot are in a snapshot of their own."""
    session = hf.new("back")
    session.exec("echo first > result")
    session.snapshot("before")
    session.exec("echo second > result")
    _container(hf, session).kill()
    with pytest.raises(SessionDead) as refused:
        session.exec("true")
    assert "`holdfast rewind back before` goes back" in refused.value.hint

    kept = session.rewind("before").kept
    assert kept is not None
    assert session.exec("cat result").text == "first\n"
    assert hf.snapshot(kept.id).restore("then").exec("cat result").text == "second\n"


@pytest.mark.thorough
def test_a_session_that_went_back_is_started_again_on_its_files(hf: Holdfast) -> None:
    """Although its folder was renamed since, and its address is another session's by now."""
    session, other = hf.new("back"), hf.new("other")
    session.exec("echo first > result")
    session.snapshot("before")
    session.rewind("before", discard=True)
    container = _container(hf, session)
    former = Path(container.attrs["HostConfig"]["Mounts"][0]["Source"]).parents[1]
    assert former.name != session.id
    state = hf.engine.inspect(container.id)
    assert state is not None
    container.kill()
    former.symlink_to(session.id)  # as a resumption leaves it that was killed
    networks.leave(hf.engine, str(other.row.container_id))
    networks.join(hf.engine, str(other.row.container_id), state.addresses)

    session.resume()
    assert session.exec("cat result").text == "first\n"
    assert not former.is_symlink()
    former.symlink_to(session.id)
    shared_folder.remove(hf.engine, hf.home, former.name)
    assert not former.is_symlink()
    assert session.exec("cat result").text == "first\n"


def test_a_command_that_kills_its_shell_ends_with_the_signal(shared_cli: Any) -> None:
    """As shells report it."""
    assert shared_cli("exec", "shared", "kill -9 $$").code == 137
    assert shared_cli("exec", "shared", "exit 3").code == 3


def test_a_stopped_container_ends_in_order(hf: Holdfast) -> None:
    """`docker stop` is noticed: the session ends immediately and in order."""
    session = hf.new("stopped")
    session.exec("trap 'echo hung up > /workspace/said; exit' HUP")
    container = _container(hf, session)
    container.stop(timeout=600)
    assert container.wait()["StatusCode"] == 0
    session.resume()
    assert session.exec("true").news[0].text.count("exit code 0") == 1

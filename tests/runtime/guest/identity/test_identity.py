"""A supervisor that wakes as another session, and the ways in which that becomes known."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runtime.guest.harness import Guest

from holdfast.runtime.guest import holdfast_session
from holdfast.runtime.guest.identity import hooks
from holdfast.runtime.guest.identity.engine_files import EngineFiles
from holdfast.runtime.guest.identity.hooks import heard_answer
from holdfast.runtime.guest.identity.identity import Awakening, Identity, with_identity

COPY = {"session": "c0ffee", "name": "copy", "generation": 1, "container": "abc"}


def become(guest: Guest, event: str = "restored", **told: Any) -> None:
    """Do what a capture does, and wake as a copy; return when all hooks are over."""
    guest.wake(token=guest.prepare()["token"], event=event, snapshot="5a5a", **{**COPY, **told})
    guest.ask("hooks")


def outcomes(guest: Guest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(guest.ask("hooks")[0].payload)["outcomes"]
    return found


def changed(guest: Guest) -> list[dict[str, Any]]:
    """Journal entries about what changed in the shell."""
    entries = [json.loads(f.payload) for f in guest.ask("journal", kinds=["changed"]) if f.event == "entry"]
    return [entry for entry in entries if "variables" in entry]


def program(guest: Guest, name: str, text: str) -> None:
    folder = guest.folder / "hooks"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_files_and_shell_know_the_copy(guest: Guest) -> None:
    """After a restore files, running shell and new jobs name the copy; the shell's state is as it was."""
    kept = 'V=1; echo "$HOLDFAST_GENERATION-$HOLDFAST_NAME"; (exit 3)'
    assert guest.exec(kept).output.strip() == b"0-"
    become(guest)
    told = json.loads((guest.folder / "state/identity/identity.json").read_text())
    assert {**told, **COPY} == told
    assert (told["event"], told["snapshot"], told["hostname"]) == ("restored", "5a5a", socket.gethostname())
    assert told["parent"] == {"session": "", "name": "", "generation": 0}
    assert (guest.folder / "state/identity/generation").read_text() == "1\n"
    said = guest.exec('echo "$? $HOLDFAST_SESSION $HOLDFAST_NAME $HOLDFAST_GENERATION $V"')
    assert said.output.strip() == b"3 c0ffee copy 1 1"
    assert guest.exec("bash -c 'echo $HOLDFAST_NAME'").output.strip() == b"copy"
    assert guest.exec("history | grep -c HOLDFAST_").output.strip() == b"4"
    job = guest.ask("job_start", b"echo $HOLDFAST_NAME-$HOSTNAME", id="t1")
    assert job
    with guest.call("job_read", id="t1", follow=True) as reading:
        assert reading.until_output(f"copy-{socket.gethostname()}".encode())
    assert not [one for entry in changed(guest) for one in entry["variables"] if one.startswith("HOLDFAST")]


def test_the_users_own_values_stay(guest: Guest) -> None:
    """A host name of the user's own, and an unset, read-only or unexported variable, stay."""
    guest.exec("HOSTNAME=mine; unset HOLDFAST_NAME; readonly HOLDFAST_SESSION; export -n HOLDFAST_IDENTITY")
    become(guest)
    said = guest.exec('echo "$HOSTNAME-${HOLDFAST_NAME-gone}-$HOLDFAST_SESSION-$HOLDFAST_GENERATION"')
    assert said.output.strip() == b"mine-gone--1"
    assert guest.exec("true").exit_code == 0


def test_a_snapshot_leaves_the_parent_as_it_was(guest: Guest) -> None:
    """After a capture the parent's random numbers continue as if there had been none."""
    guest.exec("RANDOM=7; a=$RANDOM b=$RANDOM")
    expected = guest.exec("RANDOM=7; echo $RANDOM $RANDOM $RANDOM").output.split()
    guest.exec("RANDOM=7; a=$RANDOM")
    guest.wake(token=guest.prepare()["token"], event="resumed", snapshot="5a5a")
    assert guest.exec("echo $RANDOM $RANDOM").output.split() == expected[1:]


def test_a_seed_set_by_hand_is_kept(guest: Guest) -> None:
    """A user who has set the seed of $RANDOM gets its sequence, also in a copy and in its subshells."""
    draw = "echo $RANDOM $RANDOM $RANDOM; (RANDOM=8; echo $RANDOM)"
    guest.exec("RANDOM=7")
    expected = guest.exec(draw).output
    guest.exec("RANDOM=7")
    become(guest)
    assert guest.exec(draw).output == expected


def test_hooks_run_once(guest: Guest) -> None:
    """Each program gets the event, its present and former identity, once for each capture."""
    program(
        guest, "10-tell", 'echo "$HOLDFAST_EVENT $HOLDFAST_OLD_NAME>$HOLDFAST_NAME $HOLDFAST_SNAPSHOT" >> log'
    )
    program(guest, "ignored~", "echo backup >> log")
    guest.wake(token=guest.prepare()["token"], event="resumed", snapshot="s1")
    guest.ask("hooks")
    become(guest)
    become(guest, name="again", generation=2)
    log = (guest.home / "log").read_text().splitlines()
    assert log == ["resumed > s1", "restored >copy 5a5a", "restored copy>again 5a5a"]
    assert [one["trouble"] for one in outcomes(guest)] == [""]


def test_bad_hooks_are_reported_and_end(guest: Guest) -> None:
    """One that fails, one that cannot be run, one that writes without end: each is reported, the others
    run.
    """
    program(guest, "1-fails", "echo why; exit 3")
    program(guest, "2-writes", "yes | head -c 3000000; echo last")
    program(guest, "3-none", "")
    (guest.folder / "hooks" / "3-none").write_text("#!/no/such/program\n")
    program(guest, "4-forks", "sleep 1000 & echo $! > forked; echo forked")
    become(guest)
    found = {Path(one["hook"]).name: one for one in outcomes(guest)}
    assert (found["1-fails"]["trouble"], found["1-fails"]["output"]) == ("exit code 3", "why\n")
    assert found["2-writes"]["trouble"] == ""
    assert found["2-writes"]["output"].endswith("last\n")
    assert len(found["2-writes"]["output"]) <= 2000
    assert "cannot run" in found["3-none"]["trouble"]
    assert (found["4-forks"]["trouble"], found["4-forks"]["output"]) == ("", "forked\n")
    os.kill(int((guest.home / "forked").read_text()), signal.SIGKILL)


HANGING = """
import asyncio, os
from pathlib import Path
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.identity.hooks import HookProcess
from holdfast.runtime.guest.jobs.reaper import Reaper
async def main():
    reaper = Reaper()
    reaper.install(asyncio.get_running_loop())
    process = HookProcess(Path("hangs"), os.environ, UserAccount.of(None), reaper)
    print(await process.ended(0.5), process.exit_code, len(process.output()), open_files())
def open_files():
    return len(os.listdir("/proc/self/fd"))
print(open_files())
asyncio.run(main())
"""


def test_a_hook_that_hangs_is_killed(tmp_path: Path) -> None:
    """So are its children in its group; nothing of it stays open."""
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\ntrap '' TERM\nyes &\nyes\n")
    hangs.chmod(0o755)
    command = [sys.executable, "-c", HANGING.replace('"hangs"', repr(str(hangs)))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, *told = done.stdout.split()
    assert told[:-1] == ["killed", "after", "0", "s", str(128 + signal.SIGKILL), "2000"]
    assert int(told[-1]) <= int(before) + 3  # the loop's own


LISTENER = """
import sys; sys.path.insert(0, {folder!r})
import holdfast_session
def log(*words):
    with open("log", "a") as file:
        print(*words, file=file)
@holdfast_session.on_restore
def again(event):
    log(event.kind, event.name, event.old_name, event.generation)
@holdfast_session.on_resume
def resumed(event):
    log(event.kind)
    raise ValueError("no")
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_program_that_listens(guest: Guest) -> None:
    """Its functions are called before the restore is over; their errors are reported; its FIFO goes with
    it.
    """
    folder = Path(holdfast_session.__file__).parent
    (guest.folder / "listener.py").write_text(LISTENER.format(folder=str(folder)))
    log = guest.folder / "work" / "log"
    with guest.begin(f"cat | {sys.executable} {guest.folder}/listener.py", id="listens") as running:
        running.until_output(b"listening")
    become(guest)
    assert log.read_text() == "restored copy  1\n"
    assert [(one["hook"][:3], one["trouble"]) for one in outcomes(guest)] == [("pid", "")]
    guest.wake(token=guest.prepare()["token"], event="resumed", snapshot="5a5b")
    assert "ValueError: no" in outcomes(guest)[0]["trouble"]
    assert log.read_text().endswith("resumed\n")
    guest.ask("send", b"\x04")
    assert guest.ask("wait", id="listens")[-1].event == "finished"
    become(guest, generation=2)
    assert outcomes(guest) == []


def test_random_keeps_a_seed_set_by_hand(tmp_path: Path) -> None:
    """`random` is only reseeded if no seed was chosen; `everything` reseeds it in any case."""
    folder = Path(holdfast_session.__file__).parent
    code = f"""
import sys, random; sys.path.insert(0, {str(folder)!r})
import holdfast_session as hs
hs._watch_seeds()
def repeats():
    state = random.getstate(); first = random.random(); random.setstate.__wrapped__(state); hs.reseed()
    return first == random.random()
print(repeats())
random.seed(1); print(repeats())
random.seed(); print(repeats())
random.seed(a=2); print(repeats())
hs.reseed(everything=True); import ssl, uuid, tempfile
node = uuid.getnode(); hs.reseed(); print(node != uuid.getnode(), uuid.uuid1() != uuid.uuid1())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["False", "True", "False", "True", "True", "True"]


def test_answers_of_programs_are_checked() -> None:
    """Messages of programs in the session are believed only as far as they are well-formed."""
    expected = {"1.0": "pid 7"}
    assert heard_answer(b'{"number":"1.0","called":2,"wrong":"x"}', expected) == ("1.0", 2, "x")
    assert heard_answer(b'{"number":"1.0","called":-2,"wrong":7}', expected) == ("1.0", 0, "")
    for bad in (b"", b"[]", b"\xff", b'{"number":"2.0"}', b"[" * 5000):
        assert heard_answer(bad, expected) is None


def test_environments() -> None:
    """A job gets the present identity whatever a shell says, and the host name unless the shell has its
    own.
    """
    own = {"HOLDFAST_NAME": "copy", "HOSTNAME": "copy", "PATH": "x"}
    assert with_identity({"HOLDFAST_NAME": "old", "A": "1"}, own) == {
        "HOLDFAST_NAME": "copy",
        "HOSTNAME": "copy",
        "A": "1",
    }
    assert with_identity({"HOSTNAME": "mine"}, own)["HOSTNAME"] == "mine"
    told = hooks.facts_of(Awakening("restored", "s", Identity("a", "b")), Identity("c", "d", generation=3))
    env = hooks.environment({"A": "1"}, told)
    assert (env["HOLDFAST_EVENT"], env["HOLDFAST_OLD_NAME"], env["HOLDFAST_GENERATION"]) == (
        "restored",
        "b",
        "3",
    )
    assert Awakening.of({"snapshot": "s", "before": {"name": "b"}}).before.name == "b"
    assert Awakening.of({"session": "s"}).event == "started"


def test_lines_the_user_added_to_files_of_the_engine(tmp_path: Path) -> None:
    """A copy gets them after its own, once; the engine's lines for the parent are left out."""
    hosts, gone = tmp_path / "hosts", tmp_path / "gone"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.1 parent\n")
    files = EngineFiles([hosts, gone])
    with hosts.open("a") as file:
        file.write("10.1.1.1 mine\n")
    files.look()
    for address in ("10.0.0.2", "10.0.0.3"):  # a copy, and a copy of that
        hosts.write_text(f"127.0.0.1 localhost\n{address} copy\n")
        files.carry_over()
        assert hosts.read_text() == f"127.0.0.1 localhost\n{address} copy\n10.1.1.1 mine\n"
        files.look()
    files.carry_over()
    assert hosts.read_text().count("mine") == 1
    assert not gone.exists()

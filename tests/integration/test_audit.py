"""Altered process images, and a tree with more rights than a session: refused, killed, removed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.base import polling
from holdfast.errors import HoldfastError, RestoreFailed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.verification import kernel_check
from holdfast.snapshots import files, manifest, record, snapshot_policy, verification

pytestmark = pytest.mark.thorough

# Runs where CRIU's images can be read and written.
FORGE = """
import sys
from pathlib import Path
from holdfast.snapshots.checkpointer.criu import criu_images as entries
path = Path("/state/snapshots") / sys.argv[1] / "images" / f"core-{{sys.argv[2]}}.img"
magic, [core] = entries.read(path)
thread, creds = core.thread_core, core.thread_core.creds
{change}
entries.write(path, magic, [core])
"""
SYS_ADMIN = 1 << snapshot_policy.CAPABILITIES.index("SYS_ADMIN")
ALTERATIONS = {
    "more capabilities": f"creds.cap_eff[0] |= {SYS_ADMIN}; creds.cap_prm[0] |= {SYS_ADMIN}",
    "a larger bounding set": f"creds.cap_bnd[0] |= {SYS_ADMIN}",
    "ambient capabilities": f"creds.cap_amb[0] |= {SYS_ADMIN}; creds.cap_inh[0] |= {SYS_ADMIN}",
    "no seccomp": "thread.seccomp_mode = 0",
    "another user": "creds.uid = creds.euid = creds.suid = creds.fsuid = 0",
    "privileges to gain": "creds.ClearField('no_new_privs')",
    "no rights at all": "thread.ClearField('creds')",
}
KILLS, KILLS_APART = 4, 0.02
"""A restore of a few small processes takes CRIU about 60 ms."""
# Not root, may gain no privileges, and writes into a folder of the host for as long as it runs.
PROGRAM = """
import ctypes, os, time
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
os.setgid(1000); os.setuid(1000)
while True:
    with open("/out/ran", "a") as file: file.write("x")
    time.sleep(0.01)
"""


def forge(hf: Holdfast, snapshot: Snapshot, pid: int, change: str) -> None:
    """Alter the image of a process, and update the manifest with the digest of the altered image."""
    folder = hf.home.snapshots / snapshot.id
    [checkpointer] = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="checkpointer")
    done = hf.engine.client.containers.get(checkpointer).exec_run(
        ["/usr/bin/python3", "-c", FORGE.format(change=change), snapshot.id, str(pid)],
        environment={"PYTHONPATH": "/opt/holdfast/checkpointer"},
    )
    assert done.exit_code == 0, done.output
    path = folder / "images" / f"core-{pid}.img"
    kept = json.loads((folder / manifest.FILE).read_text())
    for entry in kept["files"]:
        if entry["name"] == f"images/core-{pid}.img":
            entry["bytes"], entry["blake3"] = path.stat().st_size, files.digest(path)
    (folder / manifest.FILE).write_text(json.dumps(kept))


def pid_of(session: Session) -> int:
    return int(session.exec("pgrep -f '^python3 /out/program'").text)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    (tmp_path / "out/program").write_text(PROGRAM)
    return tmp_path / "out"


@pytest.fixture
def running(hf: Holdfast, out: Path) -> Session:
    session = hf.new("parent", mounts=[f"{out}:/out"])
    session.exec("python3 /out/program >/dev/null 2>&1 &\nuntil [ -s /out/ran ]; do :; done")
    return session


def containers(hf: Holdfast) -> set[str]:
    return set(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session"))


def test_an_altered_image_is_refused_before_anything_starts(
    hf: Holdfast, running: Session, out: Path
) -> None:
    """Whichever right was altered; the message names the process; other snapshots stay usable."""
    good = running.snapshot("good")
    bad = running.snapshot("bad")
    pid = pid_of(running)
    core = hf.home.snapshots / bad.id / "images" / f"core-{pid}.img"
    before = core.read_bytes()
    running.remove()
    (out / "ran").write_text("")
    for name, change in ALTERATIONS.items():
        core.write_bytes(before)
        forge(hf, bad, pid, change)
        with pytest.raises(RestoreFailed, match=f"process {pid}") as caught:
            bad.restore("never")
        assert "nothing was run" in caught.value.hint or name == "no rights at all"
        assert containers(hf) == set(), name
    assert (out / "ran").read_text() == ""

    restored = good.restore("again")
    assert restored.verification is not None
    assert restored.verification.deviations == []
    assert restored.exec("echo here").text == "here\n"
    assert polling.until(lambda: (out / "ran").read_text(), 60)  # so would the others have


@pytest.mark.parametrize("lazy_from", [1 << 60, 0], ids=["at once", "on demand"])
def test_a_restored_tree_with_more_rights_never_runs(
    hf: Holdfast, running: Session, out: Path, monkeypatch: pytest.MonkeyPatch, lazy_from: int
) -> None:
    """Should an image pass, the restored tree is checked while it is frozen, and killed there."""
    bad = running.snapshot("bad")
    pid = pid_of(running)
    running.remove()
    (out / "ran").write_text("")
    forge(hf, bad, pid, ALTERATIONS["more capabilities"] + f"; creds.cap_bnd[0] |= {SYS_ADMIN}")
    monkeypatch.setattr(snapshot_policy, "judge", passing_once(snapshot_policy.judge))
    monkeypatch.setattr(verification, "images", lambda *_: [])
    monkeypatch.setattr("holdfast.runtime.restore.restore_session.LAZY_FROM", lazy_from)

    with pytest.raises(RestoreFailed, match=f"process {pid} .*SYS_ADMIN"):
        bad.restore("never")
    assert containers(hf) == set()
    assert (out / "ran").read_text() == ""


def passing_once(judge: Callable[..., object]) -> Callable[..., object]:
    """The first judgement, of the images, finds no violation."""
    calls: list[object] = []

    def judged(*arguments: object) -> object:
        calls.append(arguments)
        return [] if len(calls) == 1 else judge(*arguments)

    return judged


def worker(hf: Holdfast) -> int:
    """The checkpointer's process that restores: it is in the cgroups of the only session."""
    [container] = containers(hf)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = b"/opt/holdfast/checkpointer" in (folder / "cmdline").read_bytes()
            if ours and container in (folder / "cgroup").read_text():
                return int(folder.name)
    raise AssertionError("it is not there")


@pytest.mark.parametrize("who", ["host", "checkpointer"])
def test_a_caller_lost_during_the_freeze_leaves_nothing_running(
    hf: Holdfast, running: Session, out: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """A missing answer counts as a no: the restored processes are killed, not resumed."""
    taken = running.snapshot("taken")
    running.remove()
    (out / "ran").write_text("")

    class Gone(HoldfastError):
        pass

    def vanish(*_: object) -> list[object]:
        if who == "checkpointer":
            os.kill(worker(hf), signal.SIGKILL)
            return []
        raise Gone("cannot continue: the test ends here")

    monkeypatch.setattr(snapshot_policy, "judge_running", vanish)
    with pytest.raises(Gone if who == "host" else RestoreFailed):
        taken.restore("never")
    assert (out / "ran").read_text() == ""
    assert containers(hf) == set()


def test_a_login_uid_from_elsewhere_is_not_taken(hf: Holdfast, running: Session) -> None:
    """On this machine it can be a person's: a restored session has the login uid of a new session."""
    taken = running.snapshot("taken")
    own = running.exec("cat /proc/self/loginuid").text
    pid = pid_of(running)
    running.remove()
    forge(hf, taken, pid, "core.tc.loginuid = 1234")
    restored = taken.restore("again")

    assert restored.exec(f"cat /proc/{pid}/loginuid; echo; cat /proc/self/loginuid").text.split() == [
        own,
        own,
    ]


def criu_of(pid: int) -> int:
    """The CRIU that the checkpointer's process `pid` has started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"/usr/sbin/criu\0restore" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("it is not there")


def test_criu_killed_before_the_judgement_leaves_nothing_running(
    hf: Holdfast, running: Session, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a tracer ends, its tasks continue: those not judged yet end with it instead."""
    taken = running.snapshot("taken")
    running.remove()
    (out / "ran").write_text("")

    def kill(*_: object) -> list[object]:
        os.kill(criu_of(worker(hf)), signal.SIGKILL)
        # A released process writes within 10 ms; nothing else ends the container yet.
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline and not (out / "ran").read_text():
            time.sleep(0.01)
        return []

    monkeypatch.setattr(snapshot_policy, "judge_running", kill)
    with pytest.raises(RestoreFailed):
        taken.restore("never")
    assert (out / "ran").read_text() == ""
    assert containers(hf) == set()


def test_criu_killed_at_any_point_leaves_nothing_running(
    hf: Holdfast, running: Session, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first task to the last before the judge: whether it is killed early or late, none runs."""
    taken = running.snapshot("taken")
    running.remove()
    (out / "ran").write_text("")
    monkeypatch.setattr(
        snapshot_policy, "judge_running", lambda *_: [snapshot_policy.Violation(0, "", "is never judged")]
    )
    killed = 0
    for number in range(KILLS):
        ended = threading.Event()
        killer = threading.Thread(target=kill_criu, args=(hf, number * KILLS_APART, ended))
        killer.start()
        try:
            with pytest.raises(RestoreFailed) as caught:
                taken.restore("never")
        finally:
            ended.set()
            killer.join()
        killed += "never judged" not in str(caught.value)
        assert (out / "ran").read_text() == ""
        assert containers(hf) == set()
    assert killed > 0


def kill_criu(hf: Holdfast, after: float, ended: threading.Event) -> None:
    """Kill CRIU this many seconds after it has made its first task."""
    while not ended.is_set():
        with contextlib.suppress(AssertionError, OSError, ValueError):
            criu = criu_of(worker(hf))
            if Path(f"/proc/{criu}/task/{criu}/children").read_text():
                ended.wait(after)
                os.kill(criu, signal.SIGKILL)
                return


def test_the_restored_state_equals_the_captured_one(
    hf: Holdfast, running: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes, rights, descriptors, sockets, terminals, open files, names; said, stored, written down."""
    # A busy machine takes longer than anyone should wait for a restore.
    monkeypatch.setattr(kernel_check, "REPLY_SECONDS", 60.0)
    running.exec(
        "exec 8</etc/passwd; read -u 8; python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &"
    )
    running.exec("until curl -s 127.0.0.1:8000 >/dev/null; do :; done; stty -echoctl")
    running.cell("data = list(range(10)); text = 'kept'")
    taken = running.snapshot("taken")
    kept = record.read(hf.home.snapshots / taken.id)
    restored = taken.restore("again")

    assert kept is not None
    found = restored.verification
    assert found is not None
    assert [str(one) for one in found.deviations] == []
    assert found.compared["processes"] == len(kept.tree.processes)
    assert found.compared["files"] >= 1
    assert found.compared["terminals"] == 1
    assert found.compared["names"] == 2
    # What was just being written to the mounted folder, or read of the kernel's figures, is in no image.
    elsewhere = ("content of /out/", "content of /proc/")
    assert [one for one in found.skipped if not one.startswith(elsewhere)] == []
    entries = [entry for entry in restored.journal() if entry.kind == "verified"]
    assert len(entries) == 1


def test_a_deviation_is_reported(hf: Holdfast, running: Session) -> None:
    """For example a file that differs from the capture: a warning, and the restore continues."""
    running.exec("exec 8<>/srv/book; echo before >&8")
    taken = running.snapshot("taken")
    folder = hf.home.snapshots / taken.id
    kept = record.read(folder)
    assert kept is not None
    other = [
        one.model_copy(update={"digest": "0" * 32}) if one.path == "/srv/book" else one for one in kept.files
    ]
    record.write(folder, kept.model_copy(update={"files": other}))
    text = json.loads((folder / manifest.FILE).read_text())
    for entry in text["files"]:
        if entry["name"] == record.FILE:
            path = folder / record.FILE
            entry["bytes"], entry["blake3"] = path.stat().st_size, files.digest(path)
    (folder / manifest.FILE).write_text(json.dumps(text))

    said: list[str] = []
    hf.context = replace(hf.context, progress=said.append)
    restored = hf.snapshot("taken").restore("again")
    assert restored.verification is not None
    assert [one.about for one in restored.verification.deviations] == ["content"]
    assert any("/srv/book differs from the capture" in line for line in said)

"""A storm of slips while snapshots run: programs killed by name, disks, processes and memory filled, networks
and clients lost.

`HOLDFAST_TEST_SLIPS` is the number of rounds, `HOLDFAST_TEST_SLIPS_SEED` repeats one. A session is lost
only if the owner of the machine has ended it, and every difference must be reported afterwards.
"""

from __future__ import annotations

import collections
import os
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import packing
from tests.accidental_slips import MEMORY, NAME, ON_PURPOSE, PATIENCE, PROCESSES, Place, all_slips

from holdfast import Holdfast, HoldfastError, Session
from holdfast.base.home import Home
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.snapshots import service

ROUNDS = int(os.environ.get("HOLDFAST_TEST_SLIPS", "200"))
SEED = int(os.environ.get("HOLDFAST_TEST_SLIPS_SEED", "38"))
ROOM = "1500m"
CAPTURES = ("none", "live", "live", "filesystem", "fork", "suspension", "client")
AFTER = ("nothing", "nothing", "nothing", "suspension", "the copy continues", "rewind")
REPORTS = ("process_exited", "kernel_died", "shell_ended", "oom", "restarted", "job_ended")
SOON = 20.0
SLEEPER = "while :; do date +%s%N > /tmp/beat; sleep 0.05; done"
BEATS = """
before=$(cat /tmp/beat)
for n in {1..400}; do [ "$(cat /tmp/beat)" != "$before" ] && break; sleep 0.05; done
[ $n -lt 400 ]
"""


@dataclass
class Round:
    """A round: its actions, its losses, the reports of them, and the failures."""

    number: int
    slip: str
    capture: str
    after: str
    captured: str = ""
    lost: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.number} {self.slip} / {self.capture}: {self.captured} / {self.after}; lost {self.lost}, "
            f"reported {self.reported}, FAILURES {self.failures}"
        )


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Holdfast, Path]]:
    """A home on a small disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", disk], check=True)
    try:
        home = Home(disk / "home").create()
        monkeypatch.setenv("HOLDFAST_HOME", str(home.root))
        with Holdfast(home) as controller:
            yield controller, disk
            for session in controller.sessions():
                session.remove()
            for snapshot in reversed(controller.snapshots()):
                snapshot.remove()
            assert packing.settled(controller.home)
            service.stop(controller.engine, controller.home)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


class Storm:
    """The rounds of one seed."""

    def __init__(self, hf: Holdfast, disk: Path, seed: int) -> None:
        self._hf = hf
        self._disk = disk
        self._dice = random.Random(seed)
        self._slips = all_slips()
        self._job = ""
        self._kept = ""
        self._session = self._begin()

    def _begin(self) -> Session:
        session = self._hf.new(NAME, memory=MEMORY, pids=PROCESSES)
        self._session = session
        self._restore_state(0)
        return session

    def _restore_state(self, number: int) -> None:
        """Give shell, kernel, files and a job the state whose loss is looked for."""
        session = self._session
        session.exec(f"cd /workspace; KEEP=r{number}", timeout=PATIENCE, busy_wait=PATIENCE)
        session.cell(f"kept = {number}", timeout=PATIENCE, busy_wait=PATIENCE)
        self._kept = secrets.token_hex(1 << 14)
        session.files.write("/workspace/kept", self._kept)
        if not any(job.id == self._job and job.state == "running" for job in session.jobs()):
            self._job = session.detach(SLEEPER).id

    def round(self, number: int) -> Round:
        """Do one round and judge it."""
        dice = self._dice
        found = Round(number, dice.choice([*self._slips]), dice.choice(CAPTURES), dice.choice(AFTER))
        moment, lead = random.Random(dice.random()), dice.uniform(0, 0.6)
        self._restore_state(number)
        began = datetime.now(UTC)
        capturing = threading.Thread(target=self._capture, args=(found, lead, dice.uniform(0.1, 1.5)))
        capturing.start()
        try:
            self._slips[found.slip](Place(self._hf, self._session, self._disk), moment)
        finally:
            capturing.join(2 * PATIENCE)
        if capturing.is_alive():
            found.failures.append("the capture did not end")
        try:
            self._settle(found)
            self._judge(found, began)
            self._go_on(found)
        except HoldfastError as error:
            found.failures.append(f"{type(error).__name__}: {error} ({error.hint})")
            self._start_over()
        self._clear()
        return found

    def _capture(self, found: Round, lead: float, patience: float) -> None:
        """Capture the session in one of the ways; a refusal is one line."""
        time.sleep(lead)
        try:
            with Holdfast(self._hf.home) as own:
                session = own.session(NAME)
                if found.capture == "live":
                    session.snapshot("moment")
                elif found.capture == "filesystem":
                    session.snapshot("moment", kind="filesystem")
                elif found.capture == "fork":
                    session.fork(1, name="copy")
                elif found.capture == "suspension":
                    session.suspend()
                elif found.capture == "client":
                    self._killed_client(patience)
            found.captured = "done"
        except HoldfastError as error:
            found.captured = f"{type(error).__name__}: {error}"
            if "\n" in str(error) or not str(error).startswith("cannot "):
                found.failures.append(f"said badly: {error!r}")
        except Exception as error:  # noqa: BLE001 - it is a failure of the round
            found.failures.append(f"the capture raised {error!r}")

    def _killed_client(self, patience: float) -> None:
        started = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "snapshot", NAME],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with suppress(subprocess.TimeoutExpired):
            started.wait(patience)
        started.kill()
        started.wait()

    def _settle(self, found: Round) -> None:
        """Have the session run again: a suspended one is resumed, a dead one started on its files."""
        with Holdfast(self._hf.home) as next_one:  # which undoes what was cut short
            session = next_one.session(NAME)
            with suppress(HoldfastError):
                session.exec("true", timeout=PATIENCE, busy_wait=PATIENCE)
            state = session.refresh().state
            if state == "dead" and found.slip not in ON_PURPOSE:
                found.failures.append("the session was lost")
            if state != "running":
                session.resume()
        self._session = self._hf.session(NAME)

    def _judge(self, found: Round, began: datetime) -> None:
        found.lost = self._look(self._session, found)
        if found.lost:
            found.reported = self._reported(began)
            if not found.reported:
                found.failures.append(f"changed silently: {found.lost}")
        for name in ("copy", "lost"):
            for copy in (each for each in self._hf.sessions() if each.name == name):
                self._judge_copy(found, copy)
        moment = next((each for each in self._hf.snapshots() if each.label == "moment"), None)
        if moment is not None:
            copy = moment.restore("copy")
            self._judge_copy(found, copy)

    def _judge_copy(self, found: Round, copy: Session) -> None:
        """A copy has the files, and answers."""
        said = copy.exec("cat /workspace/kept", timeout=PATIENCE, busy_wait=PATIENCE)
        if said.exit_code != 0 or self._kept not in said.text:
            found.failures.append(f"the copy {copy.name} reads other files: {_brief(said)}")
        if copy.cell("6 * 7", timeout=PATIENCE, busy_wait=PATIENCE).text != "42":
            found.failures.append(f"the copy {copy.name} has no kernel")

    def _look(self, session: Session, found: Round) -> list[str]:
        """Return the lost parts of the session: shell, kernel, job. Files are never lost.

        A shell that had many jobs reports next to the output which of them have ended.
        """
        lost = []
        said = session.exec("echo $KEEP", timeout=PATIENCE, busy_wait=PATIENCE)
        found.reported += [each.kind for each in said.news]
        if f"r{found.number}" not in said.text.split():
            lost.append("shell")
        said = session.exec("cat /workspace/kept", timeout=PATIENCE)
        if self._kept not in said.text:
            found.failures.append(f"the session reads other files: {_brief(said)}")
        cell = session.cell("kept", timeout=PATIENCE, busy_wait=PATIENCE)
        if cell.text != str(found.number):
            lost.append("kernel")
        if not any(job.id == self._job and job.state == "running" for job in session.jobs()):
            lost.append("job")
        else:
            beat = session.exec(BEATS, timeout=PATIENCE)
            if beat.exit_code != 0:
                found.failures.append("a job stands still")
        return lost

    def _reported(self, began: datetime) -> list[str]:
        deadline = time.monotonic() + SOON
        while True:
            events = [
                event for event in self._session.events() if event.at >= began and event.kind in REPORTS
            ]
            if events or time.monotonic() > deadline:
                return [event.kind for event in events]
            time.sleep(0.2)

    def _go_on(self, found: Round) -> None:
        """Have the session go through a suspension or a rewind, or let its copy take its place."""
        match found.after:
            case "suspension":
                self._session.suspend()
                self._session.resume()
                self._still(found)
            case "rewind":
                before = self._session.snapshot()
                self._session.exec("KEEP=other; echo other > /workspace/kept", timeout=PATIENCE)
                self._session.rewind(before.id, discard=True)
                self._still(found)
            case "the copy continues":
                (copy,) = self._session.fork(1, name="next")
                self._session.remove()
                taken = copy.snapshot()
                copy.remove()
                self._session = taken.restore(NAME)
                self._still(found)

    def _still(self, found: Round) -> None:
        if (again := self._look(self._session, found)) and set(again) - set(found.lost):
            found.failures.append(f"after {found.after}: changed silently: {again}")

    def _clear(self) -> None:
        for session in self._hf.sessions():
            if session.name != NAME:
                session.remove()
        needed = {each.parent_snapshot_id for each in self._hf.sessions()}
        for snapshot in reversed(self._hf.snapshots()):
            if snapshot.id not in needed:
                with suppress(HoldfastError):
                    snapshot.remove()

    def _start_over(self) -> None:
        for session in self._hf.sessions():
            session.remove()
        self._begin()


def _brief(said: ExecResult) -> str:
    return f"exit code {said.exit_code}, {len(said.text)} characters that end with {said.text[-300:]!r}"


def summary(found: list[Round]) -> str:
    """Return the figures of a storm."""
    lost = collections.Counter(each for round_ in found for each in round_.lost)
    refused = sum(each.captured not in ("", "done") for each in found)
    ended = sum(bool(each.lost) for each in found)
    return (
        f"seed {SEED}: {len(found)} rounds, {ended} in which something ended "
        f"({dict(lost)}), {refused} captures refused, {sum(bool(each.failures) for each in found)} failures"
    )


@pytest.mark.timeout(ROUNDS * 60 + 600)
def test_slips_cost_no_session_and_change_none_silently(small: tuple[Holdfast, Path]) -> None:
    """Shell, kernel, job and files are as before, or their end is an event; copies have the files."""
    hf, disk = small
    storm, found = Storm(hf, disk, SEED), list[Round]()
    for number in range(1, ROUNDS + 1):
        found.append(storm.round(number))
        print(found[-1], flush=True)  # noqa: T201 - a run of an hour shows where it is
    print(summary(found))  # noqa: T201
    failed = [str(each) for each in found if each.failures]
    assert failed == [], "\n".join([summary(found), *failed])

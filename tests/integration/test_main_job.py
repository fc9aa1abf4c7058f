"""A test suite is captured halfway, then killed; restored or forked, it continues to its end.

The suite cannot pass its middle before a gate is opened, so that the capture is in its middle on any machine.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from holdfast import ExecResult, Holdfast, Session, SessionDead, Snapshot

TESTS = 40
MIDDLE = 20
PATIENCE_SECONDS = 120.0
TOKEN = "c0ffee"

# Each test does some work, so that the suite is running, not waiting, when it is captured.
SUITE = f"""
import hashlib, os, time, unittest

class Suite(unittest.TestCase):
    passed = []

def make(number):
    def test(self):
        work = b""
        while number == {MIDDLE} and not os.path.exists("/workspace/gate"):
            for _ in range(1000):
                work = hashlib.sha256(work).digest()
            time.sleep(0.01)  # four copies of it run beside other tests
        for _ in range(20_000):
            work = hashlib.sha256(work).digest()
        self.assertEqual(Suite.passed, list(range(number)))
        Suite.passed.append(number)
    return test

for number in range({TESTS}):
    setattr(Suite, f"test_{{number:02}}", make(number))
"""
RUN = "python3 -m unittest -v suite"

SHELL = f"""
mkdir -p /workspace/project && cd /workspace/project
cat > suite.py <<'EOF'
{SUITE}
EOF
export EXPORTED={TOKEN}
greet() {{ echo "hello $1 from $PWD"; }}
python3 -m http.server 8000 --directory /srv > /dev/null 2>&1 &
n=0; while true; do n=$((n + 1)); echo $n >> /workspace/ticks; sleep 0.1; done &
echo {TOKEN} > /srv/page
curl -fsS --retry 20 --retry-delay 1 --retry-connrefused http://localhost:8000/page
"""

KERNEL = """
import hashlib, os, threading, time
array = bytearray(os.urandom(48_000_000))
count = 0
def run():
    global count
    while True:
        count += 1
        time.sleep(0.01)
threading.Thread(target=run, daemon=True).start()
def checksum():
    return hashlib.sha256(array).hexdigest()
def ticks():
    found = [int(line) for line in open("/workspace/ticks")]
    return len(found) if found == list(range(1, len(found) + 1)) else -1
"""


@dataclass(frozen=True)
class Job:
    """The outcome, and the facts known at the capture."""

    snapshot: Snapshot
    told: Exception | None
    restored: Session
    forks: list[Session]
    reference: ExecResult
    results: list[ExecResult]
    checksum: str
    count: int
    ticks: int

    @property
    def all(self) -> list[Session]:
        return [self.restored, *self.forks]


class Followed:
    """A call that waits for a command, in a thread."""

    def __init__(self, call: Callable[..., ExecResult]) -> None:
        self.output = b""
        self.result: ExecResult | None = None
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def until(self, shown: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while shown not in self.output:
            assert self._thread.is_alive(), self.output
            assert time.monotonic() < deadline, self.output
            self._thread.join(0.01)

    def end(self) -> ExecResult | None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), self.output
        return self.result

    def _run(self) -> None:
        try:
            self.result = self._call(on_bytes=self._take)
        except Exception as error:  # noqa: BLE001  # it is a test's to look at
            self.error = error

    def _take(self, data: bytes) -> None:
        self.output += data


@pytest.fixture(scope="module")
def job(shared_hf: Holdfast) -> Job:
    session = shared_hf.new("job")
    prepared = session.exec(SHELL, timeout=PATIENCE_SECONDS)
    assert prepared.exit_code == 0, prepared.text
    said(session, "touch /workspace/gate")
    reference = session.exec(RUN, timeout=PATIENCE_SECONDS)
    said(session, "rm /workspace/gate")
    assert session.cell(KERNEL, timeout=PATIENCE_SECONDS).ok
    checksum = str(value(session, "checksum()"))

    suite = Followed(partial(session.exec, RUN))
    suite.until(b"test_%02d" % MIDDLE)
    command = session.shell().command_id
    assert command is not None
    count, ticks = int(value(session, "count")), int(value(session, "ticks()"))
    snapshot = session.snapshot("middle")
    shared_hf.engine.client.containers.get(session.row.container_id or "").kill()
    suite.end()

    restored = snapshot.restore("restored")
    forks = snapshot.fork(3, "fork")
    results = []
    for one in [restored, *forks]:
        # Opened in one after the other: a gate that opened for others as well would be noticed.
        followed = Followed(partial(one.join, command))
        followed.until(b"test_%02d" % MIDDLE)
        assert followed.result is None
        assert one.cell("open('/workspace/gate', 'w').close()").ok
        result = followed.end()
        assert result is not None, followed.error
        results.append(result)
    return Job(snapshot, suite.error, restored, forks, reference, results, checksum, count, ticks)


def said(session: Session, command: str) -> str:
    return session.exec(command, timeout=PATIENCE_SECONDS).text.strip()


def value(session: Session, expression: str) -> str:
    result = session.cell(f"print({expression})", timeout=PATIENCE_SECONDS)
    assert result.ok, result
    return result.stdout.strip()


def grows(session: Session, expression: str, start: int) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if int(value(session, expression)) > start:
            return True
    return False


def without_times(text: str) -> str:
    return re.sub(r"in [\d.]+s", "", text)


@pytest.mark.thorough
def test_waiting_callers_learn_of_a_killed_session(job: Job) -> None:
    """A call into a session whose container was killed ends with the reason."""
    assert isinstance(job.told, SessionDead)


@pytest.mark.thorough
def test_the_suite_ends_as_if_it_had_not_been_interrupted(job: Job) -> None:
    """Each test ran once and passed, and the whole report equals an uninterrupted run's."""
    assert f"Ran {TESTS} tests" in job.reference.text
    for result in job.results:
        assert result.exit_code == 0
        assert without_times(result.text) == without_times(job.reference.text)


def test_the_kernel_continues(job: Job) -> None:
    """Its array is equal, and its counter continues from where it was."""
    for session in job.all:
        assert value(session, "checksum()") == job.checksum
        found = int(value(session, "count"))
        assert found >= job.count
        assert grows(session, "count", found)


def test_memory_and_files_are_of_one_instant(job: Job) -> None:
    """A job that counts in memory and writes each number to a file leaves no gap and repeats nothing."""
    for session in job.all:
        found = int(value(session, "ticks()"))
        assert found >= job.ticks
        assert grows(session, "ticks()", found)


def test_the_shell_is_unchanged(job: Job) -> None:
    """Server, jobs, directory, exported variable, function and history."""
    for session in job.all:
        assert said(session, "curl -sS http://localhost:8000/page") == TOKEN
        jobs = said(session, "jobs -r")
        assert "http.server" in jobs
        assert "while true" in jobs
        assert said(session, "pwd; printenv EXPORTED; greet you") == (
            f"/workspace/project\n{TOKEN}\nhello you from /workspace/project"
        )
        assert said(session, "history | grep -c '[-]m unittest'") == "2"


def test_forks_diverge(job: Job) -> None:
    """Changes by a fork to its files, shell and kernel are seen neither by its siblings nor by the restored
    session.
    """
    for number, fork in enumerate(job.forks):
        said(fork, f"touch own-{number}; export EXPORTED=fork-{number}")
        assert fork.cell(f"array[:3] = b'{number}' * 3").ok

    for number, fork in enumerate(job.forks):
        assert said(fork, "ls own-*; echo $EXPORTED") == f"own-{number}\nfork-{number}"
        assert value(fork, "bytes(array[:3]).decode()") == f"{number}" * 3
    assert said(job.restored, "ls own-* 2>/dev/null; echo $EXPORTED") == TOKEN
    assert value(job.restored, "checksum()") == job.checksum

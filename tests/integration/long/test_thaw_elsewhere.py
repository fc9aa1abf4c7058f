"""A job that hangs or fails here is thawed on a second machine, from a registry and from a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.machines.registry import Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.snapshots.bundle.keys import Keys

SCRIPT = Path(__file__).parents[3] / "docs" / "recipes" / "any-ci.sh"
SECRET = "correct-horse-battery"
PATIENCE = 600.0
# A server that continues, and a question.
ASKS = (
    "python3 -m http.server 8123 >/dev/null 2>&1 & until curl -s localhost:8123 >/dev/null; do :; done; "
    'read -s -p "Password: " word; echo "got $word"'
)


@pytest.fixture
def job(hf: Holdfast, home: Home, tmp_path: Path) -> Callable[..., Any]:
    """Run a command by the script for any CI system, in a small checkout. Signed by a key of the home."""
    Keys(home).new("ci")
    checkout = tmp_path / "project"
    checkout.mkdir()
    (checkout / "kept.txt").write_text("kept\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=t", "-c", "user.email=t@t"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], check=True)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    (tools / "holdfast").chmod(0o755)
    known = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "CI_"))}
    base = {**known, "PATH": f"{tools}:{os.environ['PATH']}", "HOLDFAST_HOME": str(home.root)}

    def run(*command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *command],
            cwd=checkout,
            env={**base, "HOLDFAST_OUT": str(tmp_path / "out"), **settings},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run


@pytest.fixture
def there(second: Machine) -> Iterator[Machine]:
    """The second machine, left unchanged."""
    yield second
    with second.holdfast() as controller:
        for session in controller.sessions():
            session.remove()
        for snapshot in reversed(controller.snapshots()):
            snapshot.remove()


def thawed(machine: Machine, *arguments: str) -> Any:
    done = machine.cli("thaw", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_question_is_answered_on_another_machine(
    job: Callable[..., Any],
    home: Home,
    there: Machine,
    registry: Registry,
    door: Callable[[Registry], Relay],
    tmp_path: Path,
) -> None:
    """Through a registry: refused without trust, then live. The server answers, the program is answered."""
    reference = f"{registry.address}/ci/app:asks"
    done = job(
        *["bash", "-c", ASKS],
        HOLDFAST_REF=reference,
        HOLDFAST_CHECK="1",
        HOLDFAST_ENV="MY_TOKEN",
        MY_TOKEN=SECRET,
    )
    assert done.returncode == 75, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert f"holdfast thaw {reference}" in (tmp_path / "out" / "summary.md").read_text()
    with Holdfast(home) as here:
        assert here.snapshots() == []

    with door(registry):
        refused = there.cli("thaw", reference)
        assert refused.returncode == 1
        assert "it is signed by a key you do not trust" in refused.stderr
        (key,) = Keys(home).known()
        assert f"holdfast key trust {key.public}" in refused.stderr
        assert there.cli("key", "trust", key.public).returncode == 0
        found = thawed(there, reference, "--require", "live", "--name", "back")
    assert (found["rung"], found["verification"].get("deviations", [])) == ("live", [])
    assert found["failure"]["reason"] == "hang"
    assert "waits for a password" in found["failure"]["message"]
    answered = there.cli("send", "back", "--wait", "-e", "swordfish")
    assert "got swordfish" in answered.stdout
    assert "200 OK" in there.cli("exec", "back", "curl -sI localhost:8123; cat kept.txt").stdout


def test_a_bundle_is_thawed_as_far_as_it_is_trusted(
    job: Callable[..., Any], home: Home, there: Machine, tmp_path: Path
) -> None:
    """Without trust its files alone, on request; with trust also the recorded commands."""
    done = job("bash", "-c", "echo made > made.txt; echo 'FAILED a.py::b - boo'; exit 9")
    assert done.returncode == 9, done.stderr
    bundle = str(tmp_path / "out" / "failure.holdfast")
    found = thawed(there, bundle, "--as", "files", "--name", "files")
    assert found["rung"] == "files"
    assert (found["failure"]["where"], found["failure"]["exit_code"]) == ("a.py::b", 9)
    assert there.cli("exec", "files", "cat made.txt kept.txt").stdout == "made\nkept\n"

    assert there.cli("key", "trust", Keys(home).known()[0].public).returncode == 0
    found = thawed(there, bundle, "--as", "commands", "--name", "again")
    assert found["commands"] == 1
    script = there.cli("exec", "again", "tail -n 2 /var/lib/holdfast/recorded-commands.sh").stdout
    assert "FAILED a.py::b" in script

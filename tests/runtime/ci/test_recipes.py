"""The recipes: their steps are scripts that run, and their calls are valid on the command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.runtime.cli import grammar, verb_table

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
Run = Callable[..., list[list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script of a recipe with stand-ins for its programs; return how `holdfast` was called."""
    tools, home, said = tmp_path / "tools", tmp_path / "user", tmp_path / "said"
    tools.mkdir()
    home.mkdir()
    said.touch()
    note = f'{{ printf "%s\\0" "$@"; printf "\\1\\0"; }} >> {said}'
    listed = json.dumps([{"name": "holdfast/session:1", "current": True}, {"name": "old", "current": False}])
    scripts = {
        "holdfast": f"{note}\nif [ \"$1 $2\" = 'image ls' ]; then echo '{listed}'; fi\n"
        'case $1 in ci) exit "${STATUS_CI:-0}";; doctor) exit "${STATUS_DOCTOR:-0}";; esac',
        "docker": 'while [ "$1" != --output ]; do shift; done; shift; printf "%s " "$@" > "$1"',
    }
    for name, text in scripts.items():
        path = tools / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def script(text: str, **variables: str) -> list[list[str]]:
        environment = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(home),
            "RUNNER_TEMP": str(tmp_path),
            **variables,
        }
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", text],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == int(variables.get("EXPECTED", 0)), done.stderr
        calls = [call.split("\0")[:-1] for call in said.read_text().split("\1\0")[:-1]]
        said.write_text("")
        return calls

    return script


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return the command line's reading of it."""
    assert arguments[:2] == ["ci", "run"]
    return grammar.Words(verb_table.load("ci run"), arguments[2:]).values()


def keys(tmp_path: Path) -> str:
    """Return keys of a home, packed as the recipes say."""
    (tmp_path / "other" / "keys").mkdir(parents=True)
    (tmp_path / "other" / "keys" / "default.pub").write_text("ed25519:x\n")
    packed = ["bash", "-c", "tar -czC other keys | base64 -w0"]
    return subprocess.run(packed, cwd=tmp_path, capture_output=True, text=True, check=True).stdout


def test_the_workflow_of_github_runs_its_steps(run: Run, tmp_path: Path) -> None:
    """It parses; images are kept, keys unpacked; the job captures into the folder that is uploaded."""
    workflow = yaml.safe_load((RECIPES / "github-actions.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    by_name = {step.get("name"): step for step in steps}
    assert workflow["jobs"]["test"]["runs-on"].startswith("ubuntu-")
    for step in steps:
        assert ("run" in step) != ("uses" in step)
        if "run" in step:
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True)

    assert run(by_name["Images"]["run"]) == [["image", "build"], ["image", "ls", "--json"]]
    saved = tmp_path / "user" / "holdfast-images.tar"
    assert saved.read_text().split() == [str(saved), "holdfast/session:1"]

    run(by_name["Key"]["run"], HOLDFAST_KEYS=keys(tmp_path))
    assert (tmp_path / "user/.local/state/holdfast/keys/default.pub").read_text() == "ed25519:x\n"
    run(by_name["Key"]["run"], HOLDFAST_KEYS="")

    (call,) = run(by_name["Tests"]["run"])
    found = parsed(call)
    assert found["command"] == ["pytest", "--holdfast"]
    assert found["setup"] == ["pip install -e '.[test]'"]
    assert found["export"] == tmp_path / "captured"
    upload = by_name["Keep what was captured"]["with"]
    assert upload["path"].replace("${{ runner.temp }}", str(tmp_path)) == str(found["export"])


def test_the_job_of_gitlab_runs_its_steps(run: Run, tmp_path: Path) -> None:
    """It parses; keys are unpacked; captures are artifacts of a failed job."""
    job = yaml.safe_load((RECIPES / "gitlab-ci.yml").read_text())["test"]
    install, unpack = job["before_script"][:3], job["before_script"][3:]
    for line in install:
        subprocess.run(["bash", "-n", "-c", line], check=True)
    home = tmp_path / "jobs-home"
    run("\n".join(unpack), HOLDFAST_HOME=str(home), HOLDFAST_KEYS=keys(tmp_path))
    assert (home / "keys" / "default.pub").exists()

    (call,) = run("\n".join(job["script"]), HOLDFAST_HOME=str(home))
    found = parsed(call)
    assert found["command"] == ["pytest", "--holdfast"]
    assert str(found["export"]) == "captured"
    assert job["artifacts"] == {"when": "on_failure", "expire_in": "1 week", "paths": ["captured/"]}


SCRIPT = f"{RECIPES / 'any-ci.sh'}"


def test_the_generic_script_takes_a_command_unchanged(run: Run, tmp_path: Path) -> None:
    """Words stay words, whatever is in them; by default files go into a folder."""
    (call,) = run(f"{SCRIPT} pytest -k 'a b' --export x $'two\\nlines' '*'")
    found = parsed(call)
    assert found["command"] == ["pytest", "-k", "a b", "--export", "x", "two\nlines", "*"]
    assert (str(found["export"]), found["push"], found["timeout"]) == ("../holdfast-out", None, "30m")
    assert (tmp_path.parent / "holdfast-out").is_dir()


def test_the_generic_script_reads_its_settings_from_the_environment(run: Run, tmp_path: Path) -> None:
    """A reference instead of a folder, a setup, variables that are not expanded, keys, a check before."""
    settings = {
        "HOLDFAST_REF": "registry.example.com/ci/app:7",
        "HOLDFAST_SETUP": "pip install -e '.[test]'",
        "HOLDFAST_ENV": "BUILD_* TOKEN",
        "HOLDFAST_LIMIT": "5m",
        "HOLDFAST_KEYS": keys(tmp_path),
        "HOLDFAST_HOME": str(tmp_path / "jobs-home"),
        "HOLDFAST_CHECK": "yes",
        "STATUS_DOCTOR": "3",
    }
    checked, call = run(f"{SCRIPT} true", **settings)
    assert checked == ["doctor", "--ci"]
    found = parsed(call)
    assert (found["push"], found["export"]) == ("registry.example.com/ci/app:7", None)
    assert found["setup"] == ["pip install -e '.[test]'"]
    assert found["env"] == ["TOKEN", "BUILD_*"]
    assert found["timeout"] == "5m"
    assert (tmp_path / "jobs-home" / "keys" / "default.pub").exists()


def test_the_generic_script_ends_like_the_job(run: Run) -> None:
    """With its exit code; a machine on which no job can run ends it first."""
    assert len(run(f"{SCRIPT} false", STATUS_CI="75", EXPECTED="75")) == 1
    assert run(f"{SCRIPT} true", HOLDFAST_CHECK="1", STATUS_DOCTOR="1", EXPECTED="1") == [["doctor", "--ci"]]

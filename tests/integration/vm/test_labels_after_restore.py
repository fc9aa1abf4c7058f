"""On a kernel with AppArmor, restored processes are confined like captured ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.machines.virtual import VirtualMachine

CONFINED = "docker-default (enforce)"
# Every thread in the container of a session: its label, its process's name.
LABELS = """
init=$(docker inspect --format '{{.State.Pid}}' "$(docker ps -q -f label=holdfast.session=%s)")
for process in $(pgrep --ns "$init" --nslist pid); do
    for thread in /proc/$process/task/*; do
        printf '%%s\\t%%s\\n' "$(cat $thread/attr/apparmor/current)" "$(cat $thread/comm)"
    done
done
"""
# The checkpointer without the remedy: it names no profile in images.
WITHOUT = """
set -e
tag=$(python -c 'from holdfast.images import build; print(build.reference("toolbox"))')
docker tag "$tag" kept:toolbox
part=/opt/holdfast/checkpointer/holdfast/snapshots/checkpointer/criu
edit='sed -i "s/if not profile:/if True:/" profiles.py && grep -q "if True:" profiles.py && rm -r __pycache__'
printf 'FROM %s\\nWORKDIR %s\\nRUN %s\\n' "$tag" "$part" "$edit" |
    DOCKER_BUILDKIT=0 docker build -q -t "$tag" -
docker rm -f $(docker ps -q -f label=holdfast.role=checkpointer)
"""
WITH = """
docker tag kept:toolbox "$(python -c 'from holdfast.images import build; print(build.reference("toolbox"))')"
docker rm -f $(docker ps -q -f label=holdfast.role=checkpointer)
"""


@pytest.fixture(scope="module")
def machine(booted: VirtualMachine) -> VirtualMachine:
    """A machine with a session `q` and its snapshot `q1`."""
    booted.holdfast("new", "--name", "q")
    booted.holdfast("exec", "q", "(sleep 5000 &)")
    booted.holdfast(
        "cell", "q", "import threading, time; threading.Thread(target=time.sleep, args=(5000,)).start()"
    )
    booted.holdfast("snapshot", "q", "--label", "q1")
    return booted


def _labels(machine: VirtualMachine, session: str) -> list[tuple[str, str]]:
    told = json.loads(machine.holdfast("ls", "--json"))
    found = next(each["id"] for each in told if each["name"] == session)
    lines = machine.run(LABELS % found).stdout.splitlines()
    return [(label, name) for label, name in (line.split("\t") for line in lines)]


def test_the_machine_has_the_required_features(machine: VirtualMachine) -> None:
    """AppArmor in force, cgroup v2; otherwise nothing here would be proved."""
    found: dict[str, Any] = {
        line["name"]: line for line in json.loads(machine.run("holdfast doctor --security --json").stdout)
    }

    assert found["access control"]["level"] == "ok"
    assert found["cgroups"]["state"].startswith("v2")
    assert {label for label, _ in _labels(machine, "q")} == {CONFINED}


def test_restored_processes_are_confined(machine: VirtualMachine) -> None:
    """Every thread of it, its first process and its kernel's threads included, also in a copy of the copy."""
    machine.holdfast("restore", "q1", "--name", "copy")
    machine.holdfast("fork", "copy", "--name", "second")
    for session in ("copy", "second"):
        found = _labels(machine, session)

        assert {label for label, _ in found} == {CONFINED}
        assert {"bash", "python3", "sleep"} <= {name for _, name in found}
        machine.holdfast("rm", session)


@pytest.fixture
def untold(machine: VirtualMachine) -> Iterator[VirtualMachine]:
    assert machine.run(WITHOUT).returncode == 0
    yield machine
    assert machine.run(WITH).returncode == 0


def test_unconfined_trees_are_killed(untold: VirtualMachine) -> None:
    """If CRIU does not get the profile, the judge sees that every task lacks it."""
    machine = untold

    refused = machine.run("holdfast restore q1 --name bad")

    assert refused.returncode == 1
    assert f"has the security label 'unconfined', not the session's '{CONFINED}'" in refused.stderr
    assert [each["name"] for each in json.loads(machine.holdfast("ls", "--json"))] == ["q"]

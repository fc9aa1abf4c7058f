"""On cgroup v2 and systemd, the tests pass that depend on freezing, killing and confinement."""

from __future__ import annotations

import pytest
from tests.machines.virtual import VirtualMachine


def test_the_machine_has_the_required_features(booted: VirtualMachine) -> None:
    """Otherwise nothing here would be proved."""
    assert booted.run("stat -f -c %T /sys/fs/cgroup").stdout.strip() == "cgroup2fs"


@pytest.mark.parametrize(
    "tests",
    [
        "tests/snapshots/checkpointer/ground/test_freezer.py",
        "tests/snapshots/checkpointer/dump/test_ending.py",
        "tests/integration/test_live.py",
        "tests/integration/test_heaps.py",
        "tests/integration/test_moving_streams.py",
        "tests/integration/test_rewind.py",
        "tests/integration/test_audit.py",
        "tests/integration/test_hostile_session.py",
        "tests/integration/test_egress.py",
    ],
)
def test_tests_pass_on_the_machine(booted: VirtualMachine, tests: str) -> None:
    booted.passes(tests)

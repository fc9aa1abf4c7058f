"""The units of systemd in the recipes: what systemd itself finds in them, without starting anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
UNITS = ("holdfast.service", "holdfast.socket", "holdfast-node.service", "holdfast-keeper.service")
ANALYZE = shutil.which("systemd-analyze")
EXPOSED = 56
"""Tenths, of the 10 of a unit that may do everything: the engine's socket and /proc are needed."""

pytestmark = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed here")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return a folder with the units, whose program exists."""
    program = tmp_path / "holdfast"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name in UNITS:
        text = (RECIPES / name).read_text()
        (tmp_path / name).write_text(
            re.sub(r"^(ExecStart=)\S+", rf"\g<1>{program}", text, flags=re.MULTILINE)
        )
    return tmp_path


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze."""
    return subprocess.run([str(ANALYZE), *words], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_no_fault_in_a_unit(name: str, units: Path) -> None:
    """No unknown setting, no value that is ignored; a mistake would be found."""
    done = analyzed("verify", str(units / name))
    told = [line for line in (done.stdout + done.stderr).splitlines() if name in line]
    assert (done.returncode, told) == (0, []), done.stderr
    path = units / name
    path.write_text(path.read_text().replace("[Install]", "ProtectSystem=perhaps\n[Install]"))
    assert name in analyzed("verify", str(path)).stderr


def test_the_server_is_exposed_no_more_than_it_must_be(units: Path) -> None:
    """By systemd's own count; the unit without its restrictions is far above that."""
    path = units / "holdfast.service"
    limit = f"--threshold={EXPOSED}"
    done = analyzed("security", "--offline=true", limit, str(path))
    assert done.returncode == 0, done.stdout
    path.write_text(
        re.sub(r"^(Protect|Private|Restrict|SystemCall)\w+=.*\n", "", path.read_text(), flags=re.M)
    )
    assert analyzed("security", "--offline=true", limit, str(path)).returncode != 0


BY_CAPABILITIES = re.compile(
    r"^(PrivateDevices|ProtectKernelModules|ProtectKernelLogs|ProtectClock|CapabilityBoundingSet)=", re.M
)


def test_an_ordinary_user_can_start_the_unit(units: Path) -> None:
    """Without settings that take capabilities away: the manager of a user cannot do that."""
    assert not BY_CAPABILITIES.search((units / "holdfast.service").read_text())

"""Holdfast, installed as a wheel, under every Python it claims to run on that this machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.machines import wheel

from holdfast.base.home import Home

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def interpreters() -> dict[str, Path]:
    """Return the interpreters that can be found, by version: on PATH, or in pyenv's folder."""
    found: dict[str, Path] = {}
    for version in VERSIONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        named = shutil.which(f"python{version}")
        for path in [*reversed(kept), *([Path(named)] if named else [])]:
            if (
                subprocess.run([path, "-m", "venv", "--help"], capture_output=True, check=False).returncode
                == 0
            ):
                found[version] = path
                break
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    wheel.copy_source(source)
    return wheel.build(source, folder)


def test_others_than_this_one_are_found() -> None:
    assert set(interpreters()) - {f"3.{sys.version_info.minor}"}, "install another Python: pyenv, uv, apt"


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_work_under_it(
    version: str,
    built: Path,
    tmp_path: Path,
    remains: Callable[[Home], list[str]],
    tell: Callable[[str], None],
) -> None:
    """Shell, kernel, snapshot, restore, suspend, export and import; and nothing warns of the next version."""
    found = interpreters()
    if version not in found:
        tell(f"Python {version} is not on this machine")
        return
    environment = tmp_path / "venv"
    subprocess.run([found[version], "-m", "venv", environment], check=True)
    pip = [str(environment / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(built)], check=True)
    home = Home(tmp_path / "home").create()
    variables = os.environ | {
        "HOLDFAST_HOME": str(home.root),
        "PYTHONWARNINGS": "default::DeprecationWarning",
    }

    def holdfast(*words: str) -> str:
        command = [str(environment / "bin/holdfast"), *words]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        assert "holdfast/" not in done.stderr, done.stderr  # a warning names the file
        return done.stdout

    try:
        holdfast("doctor", "--json")
        holdfast("new", "--name", "work")
        holdfast("exec", "work", "A=1; cd /srv")
        holdfast("cell", "work", "x = 41")
        holdfast("snapshot", "work", "--label", "kept")
        holdfast("restore", "kept", "--name", "copy")
        assert holdfast("exec", "copy", "echo $A $PWD") == "1 /srv\n"
        assert holdfast("cell", "copy", "x + 1") == "42\n"
        assert json.loads(holdfast("pulse", "copy", "--json"))
        holdfast("suspend", "work")
        holdfast("resume", "work")
        holdfast("export", "kept", str(tmp_path / "bundle"))
        holdfast("import", str(tmp_path / "bundle"), "--label", "again")
        holdfast("verify")
        for name in ("work", "copy"):
            holdfast("rm", name)
        for each in reversed(json.loads(holdfast("snapshots", "--json"))):
            holdfast("rmi", each["id"])
    finally:
        stop = "from holdfast import Holdfast as H; from holdfast.snapshots import service as s\n"
        stop += "with H() as h: [x.remove() for x in h.sessions()]; s.stop(h.engine, h.home)"
        subprocess.run([environment / "bin/python", "-c", stop], env=variables, check=True)
    assert remains(home) == []

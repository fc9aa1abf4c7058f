"""The wheel: a package that is installed from it works as the checkout does, images included."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import holdfast

PACKAGE = Path(holdfast.__file__).parent
ROOT = PACKAGE.parent.parent
_LEFT_BEHIND = ("__pycache__", "*.pyc", "*.egg-info", ".*")


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_the_wheel_has_every_file_of_the_checkout(tmp_path: Path) -> None:
    """Images are built from files of the package: if one is missing, their tags differ and nothing builds."""
    source = tmp_path / "source"
    # The parts are links in the checkout: here they become folders, as in what is built.
    shutil.copytree(PACKAGE, source / "src" / "holdfast", ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*build, "--no-build-isolation", "--wheel-dir", tmp_path, source], check=True)

    (wheel,) = tmp_path.glob("holdfast-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    expected = _contents(source / "src" / "holdfast")
    found = _contents(tmp_path / "installed" / "holdfast")

    assert "snapshots/checkpointer/guard.h" in expected
    assert sorted(expected.keys() ^ found.keys()) == []
    assert expected == found

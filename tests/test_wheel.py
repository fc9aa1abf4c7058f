"""The wheel: a package that is installed from it works as the checkout does, images included."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.machines import wheel


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_the_wheel_has_every_file_of_the_checkout(tmp_path: Path) -> None:
    """Images are built from files of the package: if one is missing, their tags differ and nothing builds."""
    package = wheel.copy_source(tmp_path / "source")
    expected = _contents(package)

    with zipfile.ZipFile(wheel.build(tmp_path / "source", tmp_path)) as archive:
        archive.extractall(tmp_path / "installed")
    found = _contents(tmp_path / "installed" / "holdfast")

    assert "snapshots/checkpointer/guard.h" in expected
    assert sorted(expected.keys() ^ found.keys()) == []
    assert expected == found

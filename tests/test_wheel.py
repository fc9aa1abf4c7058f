"""Wheel and source archive: each has every file of the package. That they work: test_installed.py."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from tests.machines import wheel


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def _made() -> dict[str, bytes]:
    """Return the modules that are made of others, as they are in this checkout."""
    return {
        str(path.relative_to(wheel.PACKAGE)): path.read_bytes() for path in wheel.made_modules(wheel.PACKAGE)
    }


def test_the_wheel_has_every_file_of_the_checkout(tmp_path: Path) -> None:
    """Images are built from files of the package: if one is missing, their tags differ and nothing builds."""
    package = wheel.copy_source(tmp_path / "source")
    expected = _contents(package) | _made()

    with zipfile.ZipFile(wheel.build(tmp_path / "source", tmp_path)) as archive:
        archive.extractall(tmp_path / "installed")
    found = _contents(tmp_path / "installed" / "holdfast")

    assert "snapshots/checkpointer/guard/guard.h" in expected
    assert "runtime/client/blocking/remote_session.py" in expected
    assert sorted(expected.keys() ^ found.keys()) == []
    assert expected == found


def test_the_source_archive_has_every_file_of_the_checkout(tmp_path: Path) -> None:
    """A wheel built from it elsewhere is the same."""
    expected = _contents(wheel.copy_source(tmp_path / "source")) | _made()

    with tarfile.open(wheel.build_archive(tmp_path / "source", tmp_path)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()

    assert _contents(unpacked / "src" / "holdfast") == expected

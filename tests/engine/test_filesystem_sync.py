"""Writing of a file system to its disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import engine_layers


def test_the_file_system_of_a_folder_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that file system: others can have much more to write."""
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("waits for all file systems"))
    engine_layers.sync(tmp_path)


def test_an_unprivileged_caller_waits_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's folders are closed to all but root."""
    synced: list[bool] = []

    def closed(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", closed)
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    engine_layers.sync(tmp_path)
    assert synced == [True]


def test_an_engine_elsewhere_is_passed_over(tmp_path: Path) -> None:
    """Its folders are not on this host."""
    engine_layers.sync(tmp_path / "missing")

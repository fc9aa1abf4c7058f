"""The order in which a snapshot reaches the disk before its row says that it is ready."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.snapshots import storage


class _Steps:
    """An engine that notes when it is asked to write, and everything else that is done."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @property
    def layers(self) -> _Steps:
        """The engine's layers."""
        return self

    def make_durable(self) -> None:
        """Note the request."""
        self.seen.append("engine")


def test_both_names_are_on_the_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the image, then the rename, then its target folder and its source folder."""
    home, steps = Home(tmp_path).create(), _Steps()
    staging = home.staging / "aabb"
    staging.mkdir()
    rename = Path.rename

    def renamed(path: Path, target: Any) -> Path:
        steps.seen.append("rename")
        return rename(path, target)

    def synced(descriptor: int) -> None:
        steps.seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    storage.publish(cast("Engine", steps), home, staging, "ccdd")
    assert steps.seen == ["engine", "rename", "snapshots", "staging"]
    assert (home.snapshots / "ccdd").is_dir()
    assert not staging.exists()

"""The amount that can wait for the packer: the free room of the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.runtime.storage.packing_home import PackingHome

from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store import packed_sizes


@pytest.mark.parametrize(("free", "packed"), [(1 << 40, 0), (29000, 0), (28000, 1), (18000, 2), (0, 3)])
def test_the_oldest_are_packed_when_room_runs_out(tmp_path: Path, free: int, packed: int) -> None:
    """The fewest after which the rest fits into the free room; packed ones do not count."""
    made = PackingHome(tmp_path / "home")
    added = [made.add(os.urandom(9000)) for _ in range(3)]
    waiting = packed_sizes.unpacked(made.home.database)
    assert [one.id for one in snapshot_storage.too_many(waiting, free)] == added[:packed]
    packed_sizes.record(made.home.database, added[0], own=1, shared=0)
    assert [one.id for one in packed_sizes.unpacked(made.home.database)] == added[1:]

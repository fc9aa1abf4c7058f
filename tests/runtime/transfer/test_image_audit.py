"""The description of processes in a bundle is compared with their images."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import BundleRefused
from holdfast.runtime.transfer import image_audit
from holdfast.snapshots import record
from holdfast.snapshots.record import RecordedProcess, RecordedTree, StateRecord


def tree(**changed: Any) -> RecordedTree:
    one = {"pid": 301, "ppid": 0, "pgid": 301, "sid": 301, "state": "alive", "name": "sh", **changed}
    return RecordedTree(processes=[RecordedProcess(**one, threads=[])])


def check(folder: Path, images: RecordedTree, root: int = 301) -> None:
    kept: Any = SimpleNamespace(processes=SimpleNamespace(root_pid=root))
    image_audit._check_record(folder, images, kept)


def test_a_record_is_of_the_same_processes_as_the_images(tmp_path: Path) -> None:
    """People read in it what they let run."""
    with pytest.raises(BundleRefused, match="brings no record"):
        check(tmp_path, tree())
    record.write(tmp_path, StateRecord(tree=tree()))
    check(tmp_path, tree())
    for changed in ({"name": "init"}, {"ppid": 7}, {"state": "zombie"}):
        with pytest.raises(BundleRefused, match="of other processes than its images"):
            check(tmp_path, tree(**changed))
    with pytest.raises(BundleRefused, match="of other processes than its images"):
        check(tmp_path, RecordedTree(processes=[*tree().processes, *tree(pid=302).processes]))
    with pytest.raises(BundleRefused, match="root that is not among its processes"):
        check(tmp_path, tree(), root=302)
    (tmp_path / record.FILE).write_bytes(b"damaged")
    with pytest.raises(BundleRefused, match="record cannot be read"):
        check(tmp_path, tree())

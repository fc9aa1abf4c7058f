"""What a capture that is tried again does about the files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from holdfast.engine.image_store import ImageStore
from holdfast.snapshots.filing import Filing


class Asked:
    """Stands at the place of the checkpointer; counts what it is asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []

    def __call__(self, op: str, /, **fields: object) -> Any:
        self.requests.append({"op": op, **fields})
        return self

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def until(self, _last: str) -> dict[str, bool]:
        return {"kept": True}


def test_files_are_copied_once_however_often_a_capture_is_tried(tmp_path: Path) -> None:
    """The copy of the first attempt is as good for the second, which copies what has changed."""
    asked = Asked()
    config = {"Labels": {"holdfast.base-layers": "2"}}
    attributes = {
        "Architecture": "amd64",
        "Os": "linux",
        "Config": config,
        "RootFS": {"Layers": ["a", "b", "c"]},
    }
    images = SimpleNamespace(described=lambda _id: attributes)
    engine: Any = SimpleNamespace(layers=SimpleNamespace(store=lambda: ImageStore.OVERLAY2), images=images)
    container: Any = SimpleNamespace(id="c" * 64, pid=7, image_id="sha256:1")
    filing = Filing(engine, asked, container, tmp_path / "0123456789ab", "ref", {})

    filing.begin()
    filing.begin()

    assert not filing.by_engine
    assert asked.requests == [
        {"op": "files", "container": "c" * 64, "init_pid": 7, "folder": "0123456789ab", "flatten": 0}
    ]

"""The requests to an engine about its layers, and their number."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.engine import image_store
from holdfast.engine.engine_layers import EngineLayers
from holdfast.engine.image_store import ImageStore

CONTAINERD = {
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "DockerRootDir": "/data",
}
USUAL = [Path("/data/containerd/daemon"), Path("/var/lib/containerd")]


class Asked:
    """Stands at the place of the engine's client; counts what it is asked."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.report = info
        self.requests: list[str] = []

    def info(self) -> dict[str, Any]:
        self.requests.append("info")
        return self.report

    def containers(self) -> list[dict[str, str]]:
        self.requests.append("containers")
        return [{"Id": "one"}]

    def inspect_container(self, name: str) -> dict[str, Any]:
        self.requests.append(f"inspect {name}")
        return {"State": {"Pid": 7}}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time on a clock that a test moves."""
    clock = [1000.0]
    monkeypatch.setattr("holdfast.engine.engine_layers.time.monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> dict[int, Path]:
    """Where the mounts of processes say that containerd is."""
    found: dict[int, Path] = {}
    monkeypatch.setattr(image_store, "root_of", found.get)
    return found


def of(asked: Asked) -> EngineLayers:
    client: Any = SimpleNamespace(api=asked)
    return EngineLayers(client)


def test_a_report_is_used_again_until_it_is_old(now: list[float]) -> None:
    """An engine that has come back with another store is noticed then."""
    asked = Asked(CONTAINERD)
    layers = of(asked)

    assert [layers.store() for _ in range(3)] == [ImageStore.CONTAINERD] * 3
    assert asked.requests == ["info"]
    asked.report = {"Driver": "overlay2"}
    now[0] += 5.1
    assert layers.store() is ImageStore.OVERLAY2
    assert asked.requests == ["info", "info"]


@pytest.mark.usefixtures("now")
def test_the_containers_own_mounts_make_a_listing_unnecessary(mounted: dict[int, Path]) -> None:
    """And later calls, of whatever needs the place."""
    asked = Asked(CONTAINERD)
    layers = of(asked)
    mounted[9] = Path("/elsewhere")

    layers.of_container({"Id": "nine", "State": {"Pid": 9}})

    assert layers.places() == [image_store.snapshots(root) for root in (Path("/elsewhere"), *USUAL)]
    assert asked.requests == ["info"]


@pytest.mark.usefixtures("now")
def test_a_place_is_looked_for_until_a_container_names_it(mounted: dict[int, Path]) -> None:
    """Before the first container there are only guesses, which must not be kept."""
    asked = Asked(CONTAINERD)
    layers = of(asked)

    assert layers.places() == [image_store.snapshots(root) for root in USUAL]
    mounted[7] = Path("/elsewhere")
    assert layers.places()[0] == image_store.snapshots(Path("/elsewhere"))
    assert layers.places()[0] == image_store.snapshots(Path("/elsewhere"))
    assert asked.requests == ["info", *["containers", "inspect one"] * 2]

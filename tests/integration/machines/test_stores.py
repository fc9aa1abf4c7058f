"""The same on both image stores of an engine: Docker's own, as the reference, and that of containerd."""

from __future__ import annotations

from tests.machines.second import Machine


def test_the_machines_have_the_stores(machines: dict[str, Machine]) -> None:
    """Otherwise nothing here would be proved."""
    found = {name: machine.engine.info() for name, machine in machines.items()}
    assert {name: info["Driver"] for name, info in found.items()} == {
        "overlay2": "overlay2",
        "containerd": "overlayfs",
    }
    assert {info["ServerVersion"].split("+")[0] for info in found.values()} == {"26.1.5"}

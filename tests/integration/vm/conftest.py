"""The virtual machine, booted once for all its tests. Needs root.

`make test-vm`: the better part of an hour on two busy cores, most of it the emulated processor.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.machines.virtual import VirtualMachine, default_cache

from holdfast.engine.engine import Engine
from holdfast.images import build


@pytest.fixture(scope="session")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualMachine]:
    """A machine with the images of this machine's engine, and the project's tests."""
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
    finally:
        engine.close()
    with VirtualMachine(tmp_path_factory.mktemp("vm"), default_cache(), images) as started:
        yield started

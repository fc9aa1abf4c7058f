"""The virtual machine, booted once for the tests of its kernel. Needs root.

`make test-vm`: two hours on two busy cores, most of it the emulated processor.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.machines import virtual
from tests.machines.virtual import VirtualMachine


@pytest.fixture(scope="session")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualMachine]:
    """A machine with the images of this machine's engine, and the project's tests."""
    with virtual.ours(tmp_path_factory.mktemp("vm")) as started:
        yield started

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, compile_marks


@pytest.fixture(scope="session")
def marks_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_marks(tmp_path_factory.mktemp("marks"))


@pytest.fixture(scope="module")
def guest(marks_library: Path) -> Iterator[Guest]:
    """One supervisor for all tests of a module: they restart its kernel where they must."""
    running = Guest(marks_library)
    yield running
    running.stop()

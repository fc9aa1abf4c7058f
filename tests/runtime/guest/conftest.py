from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, compile_marks


@pytest.fixture(scope="session")
def marks_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_marks(tmp_path_factory.mktemp("marks"))


@pytest.fixture
def guest(marks_library: Path) -> Iterator[Guest]:
    running = Guest(marks_library)
    yield running
    running.stop()

"""Kernel state of programs is the same after a capture: files, timers, signals, memory, channels.

Each probe (tests/integration/probes) prepares one thing, is captured, and checks it itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, Session

# Hundreds of processes: in the long tests.
LARGE = {"many", "deep"}


@pytest.mark.thorough
def test_each_probe_finds_its_preparations(hf: Holdfast, probes: Callable[[Session], Any]) -> None:
    """In the copy and in the captured session, all of one capture.

    There is enough memory that it comes back on demand if nothing is in the way.
    """
    parent = hf.new("probes")
    parent.cell("much = b'x' * (80 << 20)")
    small = probes(parent)
    small.start(parent, *(name for name in small.names if name not in LARGE))
    copy = parent.snapshot().restore("copy")
    assert small.failures(copy) == {}
    assert small.failures(parent) == {}

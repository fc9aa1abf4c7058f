"""All probes, including large ones, through two generations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import Holdfast, Session


def test_probes_of_a_copy_of_a_copy(hf: Holdfast, probes: Callable[[Session], Any]) -> None:
    """Restored state can be captured and restored again, and is still unchanged."""
    parent = hf.new("probes")
    all_of_them = probes(parent)
    all_of_them.start(parent, *all_of_them.names)
    copy = parent.snapshot().restore("copy")
    again = copy.snapshot().restore("copy-of-copy")
    for session in (again, copy, parent):
        assert all_of_them.failures(session) == {}

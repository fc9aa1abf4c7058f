"""When the gate of a session's network is set again."""

from __future__ import annotations

import pytest

from holdfast.runtime.node.network_leases import NetworkGate, is_due


@pytest.mark.parametrize(
    ("gate", "due"),
    [
        (None, True),
        (NetworkGate("c", 130.0), False),
        (NetworkGate("c", 121.0), False),
        (NetworkGate("c", 119.0), True),
        (NetworkGate("c", 90.0), True),  # closed, while the node was frozen
        (NetworkGate("other", 130.0), True),  # the session got another container
    ],
    ids=["none", "new", "lasting", "ageing", "closed", "other"],
)
def test_a_gate_is_set_before_it_closes(gate: NetworkGate | None, due: bool) -> None:
    """Below two thirds of the lease, and again for each container."""
    assert is_due(gate, "c", 30.0, 100.0) is due

"""The gate that closes a session's network at the end of its lease: its text, and its listing by nft."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.egress import lease_gate


def test_one_transaction_replaces_the_gate() -> None:
    """Its elements have a lifetime; loopback passes, all else only by them."""
    said = lease_gate.text(29.25)
    assert said.startswith("table inet holdfast_lease\ndelete table inet holdfast_lease\n")
    assert "tcp timeout 29s250ms" in said
    assert said.count("meta l4proto != @leased drop") == 3
    assert said.count("accept\nmeta l4proto") == 2
    assert "drop }" not in said  # nft ends a rule with its line
    assert said.count("policy accept;") == 3  # what is dropped are packets, not those of other tables


@pytest.mark.parametrize("seconds", [0.0, -5.0, 3601.0, float("inf"), float("nan")])
def test_a_gate_without_an_end_is_refused(seconds: float) -> None:
    """And one whose lease is over already."""
    with pytest.raises(ValueError, match="a gate is open for"):
        lease_gate.text(seconds)


def _listed() -> dict[str, Any]:
    chains = [{"chain": {"name": hook, "hook": hook}} for hook in ("output", "input", "forward")]
    rules = [
        {"rule": {"chain": hook, "expr": [{"match": {}}, {"drop": None}]}}
        for hook in ("output", "input", "forward")
    ]
    elements = [{"elem": {"val": name, "timeout": 30, "expires": 29}} for name in ("tcp", "udp", "icmp")]
    return {"nftables": [{"metainfo": {}}, {"set": {"name": "leased", "elem": elements}}, *chains, *rules]}


def test_a_gate_that_is_not_in_force_is_noticed() -> None:
    """A hook or a rule that is missing, and an element that would stay."""
    assert lease_gate.is_set(_listed())
    assert not lease_gate.is_set({})
    for left_out in range(2, 8):
        said = _listed()
        del said["nftables"][left_out]
        assert not lease_gate.is_set(said), left_out
    lasting = copy.deepcopy(_listed())
    lasting["nftables"][1]["set"]["elem"].append("udp")
    assert not lease_gate.is_set(lasting)

"""The report of a process that holds packets back, at its end. For what it holds: test_moving_streams.py."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from holdfast.snapshots.checkpointer.criu.held_packets import Holding, PacketKind
from holdfast.snapshots.checkpointer.ground import separate_process


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """nftables' refusal texts, in a process that enters no namespace."""
    words: list[str] = []

    def cmd(text: str) -> tuple[int, str, str]:
        return (int(any(word in text for word in words)), "", "")

    nftables = SimpleNamespace(Nftables=lambda: SimpleNamespace(cmd=cmd))
    monkeypatch.setitem(sys.modules, "nftables", nftables)
    monkeypatch.setattr(separate_process, "enter_namespace", lambda *_: None)
    monkeypatch.setattr(separate_process, "keep_capabilities", lambda *_: None)
    return words


def test_paused_sessions_are_reported(refused: list[str]) -> None:
    """Otherwise it would go unnoticed that a session's own connections are stalled."""
    refused.append("delete table")
    packets = Holding(os.getpid())
    packets.hold(PacketKind.CONNECTIONS)
    with pytest.raises(OSError, match="cannot be released"):
        packets.close()
    packets.close()


def test_unheld_and_released_processes_end_silently(refused: list[str]) -> None:
    with Holding(os.getpid()):
        pass
    with Holding(os.getpid()) as packets:
        packets.hold(PacketKind.RESETS)
        packets.let_go(PacketKind.RESETS)
        refused.append("delete table")


def test_a_keeper_reports_immediately_that_it_cannot_hold_something(refused: list[str]) -> None:
    refused.append("add rule")
    packets = Holding(os.getpid())
    with pytest.raises(OSError, match="cannot be held back"):
        packets.hold(PacketKind.CONNECTIONS)
    packets.close()


def test_kinds_are_held_one_by_one(refused: list[str]) -> None:
    packets = Holding(os.getpid())
    packets.hold(PacketKind.RESETS)
    packets.hold(PacketKind.EARLY)
    packets.let_go(PacketKind.EARLY)
    refused.append("delete table inet holdfast_early")
    packets.close()
    packets = Holding(os.getpid())
    packets.hold(PacketKind.EARLY)
    with pytest.raises(OSError, match="cannot be released"):
        packets.close()

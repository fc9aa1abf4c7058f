"""Refused destinations, from one reading of the rules to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.egress import attempt_log
from holdfast.runtime.egress.attempt_log import MOST, Refusal, is_full, merged
from holdfast.snapshots.checkpointer.egress.attempts import LIFETIME, SIZE

NOW = 1e9


def told(address: str = "10.0.0.1", packets: int = 1, ago: int = 0, port: int = 80) -> dict[str, Any]:
    return {"address": address, "protocol": "tcp", "port": port, "packets": packets, "ago": ago}


def test_a_destination_is_reported_once_and_then_counted() -> None:
    """Also when its counter restarts; and reported again after an hour without a refusal."""
    known, new = merged([], [told(packets=3, ago=10)], NOW)
    assert [(one.packets, one.first, one.last) for one in known] == [(3, NOW - 10, NOW - 10)]
    assert new == known

    known, new = merged(known, [told(packets=5)], NOW)
    assert ([one.packets for one in known], new) == ([5], [])
    known, new = merged(known, [told(packets=2)], NOW + 60)
    assert ([one.packets for one in known], new) == ([7], [])
    known, new = merged(known, [told(packets=1)], NOW + 61 + LIFETIME)
    assert ([one.packets for one in known], new) == ([8], known)
    assert known[0].first == NOW - 10


def test_former_refusals_are_remembered() -> None:
    """The latest first; of many, as many as can be recorded at the same time."""
    known, _ = merged([], [told(f"10.0.{n // 250}.{n % 250}", ago=600) for n in range(MOST)], NOW)
    known, new = merged(known, [told("10.9.9.9")], NOW)

    assert (len(known), known[0].address, len(new)) == (MOST, "10.9.9.9", 1)


def test_a_full_record_is_recognized() -> None:
    """Of one family, and of the last hour."""
    one = Refusal("10.0.0.1", "tcp", 1, 1, NOW, NOW)
    four = [replace(one, port=port) for port in range(SIZE)]
    six = [replace(other, address="fd00::1") for other in four]

    assert is_full(four, NOW)
    assert is_full(six, NOW)
    assert not is_full([*four[1:], *six[1:]], NOW)
    assert not is_full(four, NOW + LIFETIME)


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(Home(tmp_path / "home")) as made:
        yield made


def test_an_attempt_is_kept_with_the_session_and_in_its_journal(hf: Holdfast) -> None:
    """Replaced rules count from 0 again, as do the rules of a different container."""
    session = hf.store.add_session("work", "image", {}, state="running")

    attempt_log.keep(hf.context, session, "one", [told(packets=3)], emptied=True)
    attempt_log.keep(hf.context, hf.store.session("work"), "one", [told(packets=3)])
    attempt_log.keep(hf.context, hf.store.session("work"), "two", [told(packets=4), told(port=81)])

    known = attempt_log.of(hf.store.session("work"))
    assert {one.port: one.packets for one in known} == {80: 10, 81: 1}
    entries = hf.store.entries.of([session.id])
    assert [(entry.host, entry.kind, entry.actor, entry.body["port"]) for entry in entries] == [
        (True, "refused", "system", 80),
        (True, "refused", "system", 81),
    ]


def test_the_journal_has_a_bounded_number_of_them(hf: Holdfast) -> None:
    """The newest; entries of other kinds stay."""
    session = hf.store.add_session("work", "image", {}, state="running")
    hf.store.entries.note(session.id, "created", 1.0, actor="agent", body={})
    found = [(2.0, {"port": port}) for port in range(6)]

    hf.store.entries.note_many(session.id, "refused", found[:3], actor="system", most=2)
    hf.store.entries.note_many(session.id, "refused", found[3:], actor="system", most=2)

    kept = [(entry.kind, entry.body.get("port")) for entry in hf.store.entries.of([session.id])]
    assert kept == [("created", None), ("refused", 4), ("refused", 5)]

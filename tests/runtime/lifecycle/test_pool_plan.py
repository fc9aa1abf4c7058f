"""The plan of a pool: its settings, the options it serves, replacements, and short memory."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.lifecycle import pool_plan
from holdfast.runtime.lifecycle.pool_plan import PoolSettings
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.waiting import WaitingRow

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def row(digest: str, *, hours: float = 0, kernel: bool = False) -> WaitingRow:
    made = NOW - timedelta(hours=hours)
    return WaitingRow(f"{digest}{hours}", digest, "image", "c", 1, "", kernel, {}, made)


def test_settings_are_kept_and_zero_removes_them(home: Home) -> None:
    """A home without settings does not have a pool; a size of 0 is the same."""
    assert pool_plan.read(home) == PoolSettings()
    pool_plan.write(home, PoolSettings(3, "python:3.12", True))
    assert pool_plan.read(home) == PoolSettings(3, "python:3.12", True)
    pool_plan.write(home, PoolSettings())
    assert pool_plan.read(home) == PoolSettings()
    assert not (home.root / pool_plan.FILE).exists()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"size": -1}', '{"size": 1e9}', '{"size": 2, "image": 3}', "\xff"]
)
def test_damaged_settings_do_not_make_a_pool(home: Home, text: str) -> None:
    """A file that cannot be read costs the pool, and no session."""
    (home.root / pool_plan.FILE).write_bytes(text.encode("latin-1"))
    assert pool_plan.read(home) == PoolSettings()


@pytest.mark.parametrize("size", [-1, pool_plan.MOST + 1])
def test_a_size_has_bounds(home: Home, size: int) -> None:
    """A pool that would take all memory is refused in one line."""
    with pytest.raises(InvalidArgument, match=r"cannot keep -?\d+ sessions in the pool"):
        pool_plan.write(home, PoolSettings(size))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, ""),
        ({"network": "none"}, ""),
        ({"env": {"A": "b"}, "memory": "1g", "allow": ["10.0.0.5:5432"]}, ""),
        ({"mounts": ["/srv:/data"]}, "mounted"),
        ({"network": "domains", "domains": ["example.org"]}, "gateway"),
        ({"allow": ["db.example.org:5432"]}, "looked up"),
    ],
)
def test_some_options_take_the_ordinary_way(options: dict[str, Any], why: str) -> None:
    """Mounts, the gateway and names are for one session alone."""
    found = pool_plan.unsuited(SessionOptions.parse(**options))
    assert why in found
    assert bool(found) is bool(why)


def test_every_fixed_option_is_in_the_digest() -> None:
    """Two sessions are the same only with equal options, image and surroundings."""
    options = SessionOptions.parse().model_dump(mode="json")
    known = pool_plan.digest(options, "image", "sha256:1", "0.1.0")
    assert known == pool_plan.digest(dict(reversed(options.items())), "image", "sha256:1", "0.1.0")
    for name in SessionOptions.model_fields:
        assert pool_plan.digest({**options, name: "changed"}, "image", "sha256:1", "0.1.0") != known
    assert pool_plan.digest(options, "other", "sha256:1", "0.1.0") != known
    assert pool_plan.digest(options, "image", "sha256:2", "0.1.0") != known
    assert pool_plan.digest(options, "image", "sha256:1", "0.2.0") != known


@pytest.mark.parametrize("seed", range(200))
def test_shares_fill_the_pool_and_follow_use(seed: int) -> None:
    """The whole pool is given out, and a more used image never waits less."""
    draw = random.Random(seed)
    used = draw.choices("abcd", k=draw.randrange(10))
    size = draw.randrange(101)
    found = pool_plan.shares(used, size)
    assert sum(found.values()) == (size if used else 0)
    for one in found:
        for other in found:
            if used.count(one) > used.count(other) and other != used[0]:
                assert found[one] >= found[other]


def test_a_pool_of_two_holds_the_latest_requests() -> None:
    """A client that has begun to ask for other options misses once."""
    assert pool_plan.shares(["b", *"aaaaaaaa"], 2) == {"a": 1, "b": 1}
    assert pool_plan.shares(["c", "a", "a", "b", "b"], 2) in ({"a": 1, "c": 1}, {"b": 1, "c": 1})


def test_a_single_place_goes_to_the_last_used_options() -> None:
    """Of options that are used equally often, the latest wait."""
    assert pool_plan.shares(["b", "a"], 1) == {"b": 1}
    assert pool_plan.shares(["b", "a", "a"], 1) == {"a": 1}


def test_old_surplus_and_different_sessions_are_given_up() -> None:
    """The latest of the wanted ones stay."""
    rows = [row("a", hours=25), row("a", hours=2), row("b", hours=1), row("a", hours=1)]
    assert pool_plan.spare(rows, {"a": 1}, kernel=False, now=NOW) == [rows[2], rows[1], rows[0]]
    assert pool_plan.spare(rows, {"a": 2, "b": 1}, kernel=False, now=NOW) == [rows[0]]
    assert pool_plan.spare(rows, {}, kernel=False, now=NOW) == rows[::-1]


def test_a_session_without_a_kernel_is_replaced_once_kernels_are_asked_for() -> None:
    """`pool set N --kernel` also holds for waiting sessions; the reverse does no harm."""
    assert pool_plan.spare([row("a")], {"a": 1}, kernel=True, now=NOW) == [row("a")]
    assert pool_plan.spare([row("a", kernel=True)], {"a": 1}, kernel=False, now=NOW) == []


@pytest.mark.parametrize("seed", range(200))
def test_a_replacement_plan_leads_to_the_wanted_pool(seed: int) -> None:
    """One pass over any pool ends with exactly the wanted sessions."""
    draw = random.Random(seed)
    there = draw.choices("abc", k=draw.randrange(9))
    wanted = {each: draw.randrange(1, 6) for each in "abc" if draw.random() < 0.6}
    rows = [row(each, hours=hour / 100) for hour, each in enumerate(reversed(there))][::-1]
    spare = pool_plan.spare(rows, wanted, kernel=False, now=NOW)
    stay = [each for each in rows if each not in spare]
    made = [each.digest for each in stay] + pool_plan.missing(stay, wanted)
    assert {each: made.count(each) for each in made} == wanted


def test_memory_is_read_from_the_kernels_text() -> None:
    """Amounts are in KiB; a missing one counts as zero, which empties the pool."""
    text = "MemTotal:       4194304 kB\nMemFree: 1 kB\nMemAvailable:    2097152 kB\n"
    assert pool_plan.memory(text) == (2 << 30, 4 << 30)
    assert pool_plan.memory("") == (0, 0)


@pytest.mark.parametrize(
    ("available", "total", "short"),
    [
        (600 << 20, 64 << 30, False),
        (500 << 20, 64 << 30, True),
        (150 << 20, 2 << 30, False),
        (99 << 20, 2 << 30, True),
    ],
)
def test_the_pool_is_emptied_before_memory_ends(available: int, total: int, short: bool) -> None:
    """Half a GiB on large machines, a twentieth on small ones."""
    assert pool_plan.is_short(available, total) is short

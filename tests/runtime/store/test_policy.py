from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.store import policy
from holdfast.runtime.store.policy import KEEP, Policy, parse
from holdfast.runtime.store.row_details import SessionDetails


def test_omitted_options_have_defaults() -> None:
    """Nothing is captured automatically unless someone asks for it."""
    assert parse({}) == parse({"every": None, "idle": None}) == Policy()
    assert not Policy().captures
    assert Policy().keep == KEEP


def test_times_and_sizes_can_be_texts() -> None:
    """As people write them."""
    found = parse({"idle": "10m", "keep_for": "2d", "quota": "1.5g", "every": 20})

    assert (found.idle, found.keep_for, found.quota, found.every) == (600, 172800, 3 << 29, 20)


def test_a_policy_survives_the_store() -> None:
    """Only values that differ from the defaults are kept, and give the same policy again."""
    found = parse({"every": 5, "before_risky": True, "risky": ["deploy"], "keep": 3, "kind": "filesystem"})

    assert found.as_dict() == {
        "every": 5,
        "before_risky": True,
        "risky": ["deploy"],
        "keep": 3,
        "kind": "filesystem",
    }
    assert Policy.of(SessionDetails(policy=json.loads(json.dumps(found.as_dict())))) == found
    for odd in ({}, {"policy": {"keep": "many"}}, {"policy": 3}):
        assert Policy.of(SessionDetails(odd)) == Policy()


@pytest.mark.parametrize(
    "chosen",
    [
        {"evry": 1},
        {"every": -1},
        {"every": True},
        {"keep": 1.5},
        {"idle": "soon"},
        {"idle": 0.2},
        {"quota": "much"},
        {"quota": -5},
        {"risky": ["("]},
        {"risky": [3]},
        {"kind": "half"},
        {"before_risky": "yes"},
        {"keep_for": "0s"},
    ],
)
def test_impossible_requests_are_refused_by_name(chosen: Any) -> None:
    """One line that says what is wrong."""
    with pytest.raises(InvalidArgument, match=r"^cannot set [^\n]+$"):
        parse(chosen)


def test_a_policy_is_one_word() -> None:
    """As `new --policy` takes it; spaces do not matter, `off` means no policy."""
    found = policy.parse_text(
        "every=20, before-risky,on-failure,idle=10m,keep=5,keep-for=7d,quota=5g,risky=a=b,risky=c"
    )

    assert found == {
        "every": 20,
        "before_risky": True,
        "on_failure": True,
        "idle": "10m",
        "keep": 5,
        "keep_for": "7d",
        "quota": "5g",
        "risky": ["a=b", "c"],
    }
    assert parse(found).captures
    assert policy.parse_text("off") == policy.parse_text("") == {}


@pytest.mark.parametrize("text", ["every", "every=x", "before-risky=1", "idle", "nothing=1", "\x1b[31m"])
def test_unknown_fields_are_named(text: str) -> None:
    """One line, with an example."""
    with pytest.raises(InvalidArgument, match="is not understood") as refused:
        policy.parse_text(text)

    assert "every=20" in refused.value.hint
    assert "\x1b" not in str(refused.value)


def test_a_policy_is_described_in_words() -> None:
    """Every rule that applies, and that no rule does if none applies."""
    lines = policy.format_policy(
        parse(policy.parse_text("every=20,idle=90s,risky=deploy,before-risky,keep-for=2d,daily=7,quota=1k"))
    )

    assert lines == [
        "captured (live): after every 20 commands and cells; before risky commands and "
        "commands that match deploy; after 90 s without activity",
        "kept of automatic ones: the last 20; those of the last 2 d; one for each of 7 days",
        "quota: 1024 bytes",
    ]
    assert policy.format_policy(Policy())[0] == "captured (live): only on request"

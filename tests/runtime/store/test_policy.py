from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.store.policy import KEEP, Policy, parse
from holdfast.runtime.store.row_details import SessionDetails


def test_omitted_options_have_defaults() -> None:
    """Nothing is captured by itself unless somebody says so."""
    assert parse({}) == parse({"every": None, "idle": None}) == Policy()
    assert not Policy().captures
    assert Policy().keep == KEEP


def test_times_and_sizes_may_be_texts() -> None:
    """As people write them."""
    found = parse({"idle": "10m", "keep_for": "2d", "quota": "1.5g", "every": 20})

    assert (found.idle, found.keep_for, found.quota, found.every) == (600, 172800, 3 << 29, 20)


def test_a_policy_survives_the_store() -> None:
    """What is kept is what differs from the defaults, and gives the same policy again."""
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

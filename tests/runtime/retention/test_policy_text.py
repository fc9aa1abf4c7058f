from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.retention import policy_text
from holdfast.runtime.store.policy import Policy, parse


def test_a_policy_is_one_word() -> None:
    """As `new --policy` takes it; spaces do not matter, `off` is none."""
    found = policy_text.policy(
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
    assert policy_text.policy("off") == policy_text.policy("") == {}


@pytest.mark.parametrize("text", ["every", "every=x", "before-risky=1", "idle", "nothing=1", "\x1b[31m"])
def test_unknown_fields_are_named(text: str) -> None:
    """One line, with an example."""
    with pytest.raises(InvalidArgument, match="is not understood") as refused:
        policy_text.policy(text)

    assert "every=20" in refused.value.hint
    assert "\x1b" not in str(refused.value)


def test_a_policy_is_described_in_words() -> None:
    """Every rule that applies, and that no rule does if none applies."""
    lines = policy_text.format_policy(
        parse(policy_text.policy("every=20,idle=90s,risky=deploy,before-risky,keep-for=2d,daily=7,quota=1k"))
    )

    assert lines == [
        "captured (live): after every 20 commands and cells; before risky commands and what fits deploy; "
        "after 90 s without anything done",
        "kept of automatic ones: the last 20; those of the last 2 d; one for each of 7 days",
        "quota: 1024 bytes",
    ]
    assert policy_text.format_policy(Policy())[0] == "captured (live): only when asked for"

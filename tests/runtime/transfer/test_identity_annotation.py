"""What a push learns from the index that is there: whether another machine has continued the session."""

from __future__ import annotations

import json

import pytest

from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.transfer import identity_annotation

SESSION = "0123456789ab"


def test_only_a_continuation_elsewhere_is_in_the_way() -> None:
    """Not another session, nor an earlier state of this one, nor what says nothing."""
    mine = Tenures.begun(1.0, "box")
    there = identity_annotation.made(SESSION, mine.plus("f" * 12, "other"))
    assert not identity_annotation.passes(there, SESSION, mine)
    assert identity_annotation.passes(there, "ba9876543210", mine)
    assert identity_annotation.passes(
        identity_annotation.made(SESSION, mine), SESSION, mine.plus("e" * 12, "x")
    )
    assert identity_annotation.passes({}, SESSION, mine)
    assert identity_annotation.made(SESSION, Tenures()) == {}


def test_readers_of_a_registry_learn_no_id() -> None:
    """An index is not encrypted."""
    mine = Tenures.begun(1.0, "secret-host")
    text = json.dumps(identity_annotation.made(SESSION, mine))
    assert SESSION not in text
    assert mine.chain[0].id not in text
    assert "secret-host" not in text


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "null", "3", '{"session": 1}', "[" * 5000, '{"session":"x","tenures":3}']
)
def test_what_is_no_annotation_is_in_nobodys_way(text: str) -> None:
    assert identity_annotation.passes({identity_annotation.NAME: text}, SESSION, Tenures.begun(1.0, ""))

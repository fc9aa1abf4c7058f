from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.capture.capture_record import moment_of
from holdfast.runtime.guest.wire.protocol import Frame

GIVEN: dict[str, Any] = {"event": "moment", "journal_seq": 7, "at": 12.5, "offsets": {"main": 100}}


def test_a_snapshot_knows_its_moment() -> None:
    """The number of the journal's last entry, the time, and the length of each shell's output."""
    assert moment_of(Frame(GIVEN)) == {"moment": {"journal_seq": 7, "at": 12.5, "offsets": {"main": 100}}}


def test_a_session_of_an_older_version_has_no_moment() -> None:
    """It can be captured all the same."""
    assert moment_of(Frame({"event": "prepared", "token": "x"})) == {}


@pytest.mark.parametrize(
    "wrong", [{"journal_seq": -1}, {"at": "now"}, {"offsets": [1]}, {"offsets": {"main": -1}}]
)
def test_a_moment_of_an_unexpected_form_is_refused(wrong: dict[str, Any]) -> None:
    """A session's report on itself is checked."""
    with pytest.raises(ProtocolError):
        moment_of(Frame({**GIVEN, **wrong}))

"""How often sessions whose containers end return from their copies."""

from __future__ import annotations

from holdfast.runtime.node.ended_sessions import MOST_RETURNS, WITHIN_SECONDS, EndedSessions


def test_a_session_that_ends_again_and_again_stays_dead() -> None:
    """For as long as its returns are recent; others are not concerned."""
    ended = EndedSessions()
    assert [ended.can_return("a", float(at)) for at in range(MOST_RETURNS)] == [True] * MOST_RETURNS
    assert not ended.can_return("a", 10.0)
    assert ended.can_return("b", 10.0)
    assert ended.can_return("a", WITHIN_SECONDS + 0.5)
    assert not ended.can_return("a", WITHIN_SECONDS + 0.6)


def test_a_removed_session_is_forgotten() -> None:
    """A session of the same id begins from zero."""
    ended = EndedSessions()
    for at in range(MOST_RETURNS):
        ended.can_return("a", float(at))
    ended.keep({"b"})
    assert ended.can_return("a", 5.0)

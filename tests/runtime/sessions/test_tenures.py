"""Chains of tenures: the continuation among two, and the evidence that two machines run one session."""

from __future__ import annotations

import pytest

from holdfast.runtime.sessions.tenures import MOST, SLACK, Tenure, Tenures

A, B, C, D = (f"{letter * 12}" for letter in "abcd")


def chain(*ids: str) -> Tenures:
    """Return a chain whose tenures began at 1000, 2000, …"""
    return Tenures(tuple(Tenure(id_, 1000.0 * n, f"host-{id_[0]}") for n, id_ in enumerate(ids, start=1)))


@pytest.mark.parametrize(
    ("mine", "theirs", "relation"),
    [
        (chain(A), chain(A), "same"),
        (chain(A), chain(A, B), "later"),
        (chain(A, B), chain(A), "earlier"),
        (chain(A, B), chain(A, C), "parted"),
        (chain(A, B, C), chain(A, D), "parted"),
        (chain(A), chain(B), "parted"),
    ],
)
def test_one_chain_continues_another_or_parted_from_it(mine: Tenures, theirs: Tenures, relation: str) -> None:
    assert mine.relation(theirs) == relation
    assert mine.continued_by(theirs) == (relation in ("same", "later"))


def test_nothing_continues_an_unknown_chain() -> None:
    """An id that was here without a chain is no one's: a claim shows nothing."""
    assert not Tenures().continued_by(chain(A))
    assert not chain(A).continued_by(Tenures())


def test_a_twin_is_noticed_from_either_side() -> None:
    """The machine that was left sees the longer chain; the one that took over sees later tenures."""
    left, took = chain(A), chain(A, B)
    assert "host-b (since 1970-01-01 00:33 UTC) has since taken it over" in left.twin(took, 2500)
    assert took.twin(left, 1500) == ""
    assert took.twin(left, 2000 + SLACK) == ""
    assert "host-a" in took.twin(left, 2001 + SLACK)
    assert "as well as host-b" in took.twin(chain(A, C), 2500)
    assert took.twin(took, 9999) == ""
    assert took.twin(Tenures(), 9999) == ""
    assert Tenures().twin(took, 9999) == ""


def test_a_chain_is_bounded_and_still_recognized() -> None:
    """The newest tenures stay: they are compared."""
    long = chain(A)
    for number in range(3 * MOST):
        before, long = long, long.plus(f"{number:012x}", "box\x1b[31m")
        assert before.continued_by(long)
    assert len(long.chain) == MOST
    assert "\x1b" not in long.chain[-1].host
    assert Tenures.parse(long.kept()) == long


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        "x",
        [None],
        [{}],
        [{"id": A, "at": 1.0}],
        [{"id": "../../etc", "at": 1.0, "host": "x"}],
        [{"id": A, "at": True, "host": "x"}],
        [{"id": A, "at": -1, "host": "x"}],
        [{"id": A, "at": float("nan"), "host": "x"}],
        [{"id": A, "at": 1.0, "host": 3}],
        [{"id": A, "at": 1.0, "host": "x"}, 7],
        [{"id": A, "at": 1.0, "host": "x"}] * (MOST + 1),
    ],
)
def test_an_invalid_chain_is_an_empty_one(given: object) -> None:
    assert Tenures.parse(given) == Tenures()


def test_a_snapshot_has_the_chain_of_its_time_without_names_of_machines() -> None:
    """Later moves do not belong to it; a bundle can go to anybody."""
    whole = chain(A, B, C)
    assert whole.until(2500) == chain(A, B)
    assert whole.until(0) == chain(A)
    assert {each.host for each in whole.without_hosts().chain} == {""}
    assert whole.relation(whole.without_hosts()) == "same"

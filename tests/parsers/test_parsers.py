"""Parsers refuse outside input in their own words, in time that grows with its length."""

from __future__ import annotations

import random

import pytest
from tests.parsers import door_parsers, project_parsers, session_parsers

PARSERS = {
    one.name: one for one in (*door_parsers.PARSERS, *project_parsers.PARSERS, *session_parsers.PARSERS)
}
ROUNDS = 150
# A form that is cut short leaves the file of its last part to the collector: starlette's affair.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("name", PARSERS)
def test_altered_inputs_are_read_or_refused(name: str) -> None:
    """Each valid input is read; altered ones are, or are refused by an error that callers expect."""
    PARSERS[name].try_altered(random.Random(name), ROUNDS)


@pytest.mark.parametrize("name", PARSERS)
def test_long_inputs_take_no_longer_than_they_are(name: str) -> None:
    """Time in proportion to the square of the length would be hours, which the limit of all tests notices."""
    dice = random.Random(name)
    PARSERS[name].try_long(dice, dice.sample(PARSERS[name].words, 2))

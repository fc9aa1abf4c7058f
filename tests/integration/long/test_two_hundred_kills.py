"""Two hundred kills at random points; `python -m bench.faults` writes their figures to a page."""

from __future__ import annotations

import os
import random

from bench.faults.page import summary
from bench.faults.storm import OPERATIONS, Storm
from bench.faults.victims import VICTIMS

from holdfast.runtime.api.controller import Holdfast

ROUNDS = int(os.environ.get("HOLDFAST_TEST_KILLS", "200"))


def test_two_hundred_kills_are_survived_or_reported(hf: Holdfast) -> None:
    """Nothing is lost silently, and nothing is left over."""
    storm, dice = Storm(hf, seed=7), random.Random(7)
    storm.prepare()
    found = [storm.round(dice.choice(OPERATIONS), dice.choice(VICTIMS)) for _ in range(ROUNDS)]
    assert [each for each in found if each.silent or each.left] == [], summary(found)

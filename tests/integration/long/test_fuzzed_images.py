"""Like test_mutated_images, for minutes: more values, more damage, and hundreds of real restores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration import test_mutated_images as short

corpus, canary = short.corpus, short.canary

# A copy whose supervisor does not answer is waited for, for a minute.
pytestmark = pytest.mark.timeout(1800)


def test_every_field_with_every_value(corpus: short.Corpus) -> None:
    """Five values each."""
    short.assert_swept(corpus.run("sweep", "5"))


@pytest.mark.parametrize("seed", range(2, 7))
def test_thousands_of_damaged_images(corpus: short.Corpus, seed: int) -> None:
    """Described or refused, within the memory and time of the program that does it."""
    assert len(corpus.run("flip", str(seed), "3000")) == 3000


@pytest.mark.parametrize("seed", range(2, 6))
def test_hundreds_of_altered_snapshots_restored(
    corpus: short.Corpus, canary: Path, seed: int, tell: Callable[[str], None]
) -> None:
    """Each within its rights, or a clean failure; after all of them the snapshot restores as before."""
    tell(f"altered images: {short.restore_mutants(corpus, seed=seed, count=60)}")

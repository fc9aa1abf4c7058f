"""A refactoring of a project of PyPI in five phases, interrupted ten times; `WRITE=1` writes the figures.

`HOLDFAST_INTERRUPTION_SEED` draws other moments.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.interrupted import interruptions, job_plan, proof_page, trial

from holdfast.runtime.api.controller import Holdfast

SEED = int(os.environ.get("HOLDFAST_INTERRUPTION_SEED", "1"))
INTERRUPTIONS = 10


def test_ten_interruptions_leave_the_result_of_an_uninterrupted_job(
    hf: Holdfast, tell: Callable[[str], None]
) -> None:
    """No effect is there twice or missing: in files, commits, the database, memory, and the record."""
    tell(f"seed {SEED}")
    how = {"project": "sqlparse", "checkpoints": "step"}
    plain = trial.begin(hf, "plain", job_plan.LONG, **how)
    uninterrupted = trial.play(hf, "plain")
    expected = trial.outcome(plain)
    steps = job_plan.planned(job_plan.LONG, checkpoints="step")
    numbers = [step.number for step in steps]
    assert expected["ledger"] == [f"{number} {what}" for number in numbers for what in ("begins", "ends")]
    assert trial.starts(plain) == dict.fromkeys(numbers, 1)

    changing = [call for call in uninterrupted.calls if call[0] in trial.CHANGING]
    drawn = interruptions.drawn(SEED, INTERRUPTIONS, changing, uninterrupted.took)
    for each in drawn:
        tell(f"{each.kind} {each.after:.2f} s into {each.at[0]} of {each.at[1]}")
    job = trial.begin(hf, "job", job_plan.LONG, **how)
    interrupted = trial.play(hf, "job", changing, drawn)
    found = trial.outcome(job)
    assert found == expected
    assert interrupted.workers == INTERRUPTIONS + 1

    starts = trial.starts(job)
    undone = sum(each.kind == "container" for each in drawn)
    assert set(starts) == set(numbers)
    assert sum(count - 1 for count in starts.values()) <= undone, starts
    wrong = (trial.wrong_effects(expected, numbers), trial.wrong_effects(found, numbers))
    assert wrong == (0, 0)
    figures = proof_page.table(SEED, drawn, uninterrupted, interrupted, starts, wrong)
    tell(figures)
    if os.environ.get("HOLDFAST_WRITE"):
        proof_page.write(figures)

"""A job of five phases is interrupted, and finished by processes that know only the session's name.

The form with a project of PyPI and ten interruptions is in `long`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.interrupted import interruptions, job_plan, trial

from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.thorough

SEED = 17


def test_a_job_that_is_interrupted_three_times_is_as_if_it_never_was(
    hf: Holdfast, tell: Callable[[str], None]
) -> None:
    """Worker, controller and container are killed; each effect is there once, in files and memory."""
    tell(f"seed {SEED}")
    steps = job_plan.planned(job_plan.SHORT, checkpoints="phase")
    plain = trial.begin(hf, "plain", job_plan.SHORT, project="sample", checkpoints="phase")
    for step in steps:
        assert plain.exec(step.run, timeout=120).ok
    calls = [(verb, step.number) for step in steps for verb in ("exec", "done", "checkpoint")]
    possible = [call for call in calls if call[0] != "checkpoint" or _ends_a_phase(call[1], steps)]
    drawn = interruptions.drawn(SEED, 3, possible, {})
    job = trial.begin(hf, "job", job_plan.SHORT, project="sample", checkpoints="phase")
    played = trial.play(hf, "job", possible, drawn)

    found = trial.outcome(job)
    numbers = [step.number for step in steps]
    expected = trial.outcome(plain)
    for name in ("commit", "database", "archive", "ledger", "notes_in_memory", "notes_in_database", "shell"):
        assert found[name] == expected[name], name
    assert found["ledger"] == [f"{number} {what}" for number in numbers for what in ("begins", "ends")]
    assert found["verified"] == numbers
    assert played.workers == 4


def _ends_a_phase(number: str, steps: list[job_plan.PlannedStep]) -> bool:
    return next(step.checkpoint for step in steps if step.number == number)

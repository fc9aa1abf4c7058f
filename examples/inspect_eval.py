"""An evaluation with Inspect whose samples run in sessions.

    pip install inspect-ai '.[serve,client]'    # in a checkout of Holdfast
    inspect eval examples/inspect_eval.py --model mockllm/model

Put a model of yours in the place of `mockllm/model`. The scorer sees what the solver left in the session.
"""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import sandbox


@solver
def writes() -> Solver:
    """Have the session do what a model would ask for."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state = await generate(state)
        await sandbox().exec(["sh", "-c", f"echo {state.input_text} > /tmp/answer"])
        return state

    return solve


@scorer(metrics=[accuracy()])
def left_behind() -> Scorer:
    """Score what is in the session."""

    async def score(state: TaskState, target: Target) -> Score:
        found = (await sandbox().read_file("/tmp/answer")).strip()
        return Score(value="C" if found == target.text else "I", answer=found)

    return score


@task
def kept() -> Task:
    """Two samples, each in a session of its own."""
    samples = [Sample(input=word, target=word) for word in ("one", "two")]
    return Task(dataset=samples, solver=writes(), scorer=left_behind(), sandbox="holdfast")

"""An evaluation with Inspect whose samples run in sessions, and whose score is what their programs print.

    pip install inspect-ai
    python examples/inspect_eval.py

A fixed answer stands for a model. `sandbox=("holdfast", SNAPSHOT)` begins each sample where a snapshot was
taken, with its processes and files. HOLDFAST_URL names a server; else the sessions are of this machine.
"""

from __future__ import annotations

import tempfile

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate
from inspect_ai.util import sandbox

ANSWERS = ("print(sum(range(5)))", "print(max('holdfast'))")
SAMPLES = [
    Sample(input="Print the sum of the numbers from 0 to 4, with Python.", target="10"),
    Sample(input="Print the first letter of 'holdfast' in the alphabet.", target="a"),
]


@scorer(metrics=[accuracy()])  # type: ignore[untyped-decorator]
def printed() -> Scorer:
    """Score what the program of the answer prints, in the session of the sample."""

    async def score(state: TaskState, target: Target) -> Score:
        done = await sandbox().exec(["python3", "-c", state.output.completion], timeout=30)
        right = done.stdout.strip() == target.text
        return Score(value=CORRECT if right else INCORRECT, answer=done.stdout.strip())

    return score


def main() -> None:
    answers = [ModelOutput.from_content("mockllm/model", each) for each in ANSWERS]
    model = get_model("mockllm/model", custom_outputs=answers)
    task = inspect_ai.Task(dataset=SAMPLES, solver=generate(), scorer=printed(), sandbox="holdfast")
    with tempfile.TemporaryDirectory() as logs:
        (log,) = inspect_ai.eval(task, model=model, log_dir=logs, display="none", max_samples=1)
    for sample in log.samples or ():
        for score in (sample.scores or {}).values():
            print(f"{sample.input} {score.answer}: {score.value}")
    assert log.results is not None
    print(f"accuracy: {log.results.scores[0].metrics['accuracy'].value}")


if __name__ == "__main__":
    main()

"""An eval of Inspect whose sample works in a session, with a model that is played.

    pip install inspect-ai '.[serve,client]'
    python examples/inspect_eval.py

The name of a real model, as `inspect eval --model` takes it, puts that in its place.
"""

from __future__ import annotations

import tempfile

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, modelapi
from inspect_ai.scorer import match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolChoice, ToolInfo, bash

from holdfast.runtime.adapters import inspect_sandbox

ORDERS = "id,amount\n1,30\n2,12\n3,58\n"
SUM = "awk -F, 'NR>1 {s+=$2} END {print s}' orders.csv"


@modelapi(name="played")
class Played(ModelAPI):  # type: ignore[misc]  # of a package that is not installed here
    """A model that has the sum worked out in the sandbox, and answers with what that printed."""

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 - Inspect's name
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Return the next message of the model."""
        if input[-1].role == "tool":
            return ModelOutput.from_content("played", f"ANSWER: {input[-1].text.strip()}")
        return ModelOutput.for_tool_call("played", "bash", {"command": SUM})

    async def count_text_tokens(self, text: str) -> int:
        """Return about how many tokens a text has, without the tables that Inspect would download."""
        return len(text) // 4


def total() -> Task:
    """Return a task of one sample, whose file is put into a session of its own."""
    return Task(
        dataset=[
            Sample(
                input="Add up the amounts in orders.csv. End with ANSWER: and the sum.",
                target="100",
                files={"orders.csv": ORDERS},
            )
        ],
        solver=[use_tools(bash(timeout=60)), generate()],
        scorer=match(),
        sandbox=("holdfast", inspect_sandbox.HoldfastConfig(network="none")),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as logs:
        [log] = inspect_ai.eval(total(), model="played/model", log_dir=logs, display="none")
        [sample] = list(log.samples or [])  # read from the folder of logs
    printed = [message.text.strip() for message in sample.messages if message.role == "tool"]
    print(f"the session: {printed[0]}")
    print(f"{log.status}: {(sample.scores or {})['match'].value}")


if __name__ == "__main__":
    main()

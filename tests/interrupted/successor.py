"""Chooses the next action in a job from the text of a handoff alone: `python successor.py < HANDOFF`.

It is given nothing else, neither the plan nor the session, and prints one line: what it would do.
"""

from __future__ import annotations

import re
import sys

STEP = re.compile(r"- (?P<number>\d+\.\d+) (?P<title>.*?) \[(?P<status>\w+)\](?P<rest>.*)")


def choose(text: str) -> str:
    """Return the next action that a handoff calls for."""
    if re.search(r"^The session is (?:dead|suspended).*task resume", text, re.M):
        return "bring back"
    if re.search(r"^BLOCKED: ", text, re.M):
        return "unblock"
    if running := re.search(r"^Runs now: (#\d+) ", text, re.M):
        return f"wait for {running[1]}"
    if re.search(r"^done, (\d+) of \1 steps", text, re.M):
        return "finish"
    return _at_a_step(text)


def _at_a_step(text: str) -> str:
    steps = list(STEP.finditer(text))
    for place, found in enumerate(steps):
        if "claimed by" in found["rest"]:
            continue
        end = steps[place + 1].start() if place + 1 < len(steps) else len(text)
        below = text[found.end() : end].partition("\n\n")[0]
        if asked := re.search(r"waits for the answer to question (\d+)", below):
            return f"answer {asked[1]}"
        alike = "failed in the same way" in below
        return f"work on {found['number']}" + (" in another way" if alike else "")
    return "wait for others"


if __name__ == "__main__":
    sys.stdout.write(choose(sys.stdin.read()) + "\n")

"""Chooses the next action in a job from the text of a handoff alone: `python successor.py < HANDOFF`.

It is given nothing else, neither the plan nor the session, and prints what it would do as JSON: the action,
the command that the handoff names for it, the back end it would use, and the files to look at first, because
others have changed them.
"""

from __future__ import annotations

import json
import re
import sys

STEP = re.compile(r"- (?P<number>\d+\.\d+) (?P<title>.*?) \[(?P<status>\w+)\](?P<rest>.*)")
ME = "agent"
"""Other actors are others."""


def choose(text: str) -> dict[str, object]:
    """Return the next action that a handoff calls for, and its arguments."""
    action, command = _action(text)
    back_end = re.search(r"^- back end: (.+)$", text, re.M)
    return {
        "action": action,
        "command": command,
        "back_end": back_end[1] if back_end else "",
        "look_at": _changed_by_others(text),
    }


def _action(text: str) -> tuple[str, str]:
    if found := re.search(r"^The session is (?:dead|suspended).*?`(holdfast task resume [^`]+)`", text, re.M):
        return "bring back", found[1]
    if re.search(r"^BLOCKED: ", text, re.M):
        return "unblock", _quoted(r"^when it is unblocked: `([^`]+)`", text)
    if running := re.search(r"^Runs now: (#\d+) .*`(holdfast wait [^`]+)`", text, re.M):
        return f"wait for {running[1]}", running[2]
    if re.search(r"^done, (\d+) of \1 steps", text, re.M):
        return "finish", ""
    return _at_a_step(text)


def _at_a_step(text: str) -> tuple[str, str]:
    steps = list(STEP.finditer(text))
    for place, found in enumerate(steps):
        if "claimed by" in found["rest"]:
            continue
        end = steps[place + 1].start() if place + 1 < len(steps) else len(text)
        below = text[found.end() : end].partition("\n\n")[0]
        if asked := re.search(r"waits for the answer to question (\d+).*`(holdfast [^`]+)`", below):
            return f"answer {asked[1]}", asked[2]
        ends = _quoted(r"ends with `([^`]+)`", below)
        if re.search(rf"^- #\d+ `.*`: exit 0, sent with key step {found['number']}\b", text, re.M):
            return f"verify {found['number']}", ends
        alike = "failed in the same way" in below
        return f"work on {found['number']}" + (" in another way" if alike else ""), ends
    return "wait for others", ""


def _changed_by_others(text: str) -> list[str]:
    """Return the files that others have changed: by a command of theirs, or from outside."""
    authors = dict(re.findall(r"(#\d+) ([a-z]+:?\S*) `", text))
    found: list[str] = []
    lines = re.findall(r"^[+~-] (/.+?) (?:\d+ [kMG]?i?B (?:[+-]\d+ )*)?(#\d+|from outside.*)$", text, re.M)
    for path, by in lines:
        author = by.rpartition(" by ")[2] if by.startswith("from outside") else authors.get(by, ME)
        if author.partition(":")[0] != ME:
            found.append(path)
    return found


def _quoted(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.M)
    return found[1] if found else ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(choose(sys.stdin.read())) + "\n")

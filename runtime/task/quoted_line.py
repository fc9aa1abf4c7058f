"""The line of an output that a person would quote to say what went wrong.  Pure.

The last line is seldom that line: tools end with hints, versions and paths of logs. Expressions are in RE2's
syntax, since the text is the session's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.scrubbing.rule import compiled

LONGEST = 200
"""Characters of a line."""
_NOISE = (
    r"^\s*(?:at |note: |help: |hint: |Node\.js v\d|ℹ |# |\(Use `node|goroutine \d|exit status \d|FAIL$|FAIL\t"
    r"|make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error) (?:A complete log|path |command |code )"
    r"|\[ERROR\] *(?:\[Help|->|To see|Re-run|For more|$)"
    r"|Run with |For more information|See |Try |Aborted|Segmentation fault|\$ |> |\+ |[\W\d_]*$)"
)
"""Ends of outputs that say nothing of the failure: frames, hints, versions, counts, echoed commands."""
_NONE = r"(?i)\b(?:no|0|without|zero) (?:\w+ )?(?:error|failure|fail|problem|warning)"
_NAMES = (
    r"(?i)^\W*(?:[\w./-]+: )*(?:(?:fatal|internal|uncaught|unhandled|build|runtime|syntax|type) )?"
    r"(?:error|fatal|fail(?:ed|ure)?|panic|exception|abort(?:ed)?|critical|traceback)\b[\w\[\]() ]*:",
    r"(?i)(?:\b|[a-z])(?:error|exception|panic\w*)\b|\bfatal\b|\bfail(?:ed|ure|s)?\b",
    r"(?i)\b(?:cannot|can't|could(?: not|n't)|unable|not found|denied|refused|rejected|invalid|illegal"
    r"|missing|unexpected|undefined|unknown|unsupported|mismatch|expected|wrong|violat\w+|conflict\w*"
    r"|timed out|no such)\b",
)
"""What a failure is called, from the plainest on."""


def quoted_line(text: str) -> str:
    """Return the line of an output that says best what failed; empty if there is none.

    It is the first that calls itself an error, else one that speaks of one, else the last that is more than
    a hint.
    """
    lines = [line for line in _lines(text) if any(map(str.isalnum, line)) and not _matches(_NONE, line)]
    telling = [line for line in lines if not _matches(_NOISE, line)]
    for name in _NAMES:
        found = next((line for line in telling if _matches(name, line)), None)
        if found is not None:
            return found
    return (telling or lines or [last_line(text)])[-1]


def last_line(text: str) -> str:
    """Return the last line that is not blank; empty if there is none."""
    return next(reversed([*_lines(text)]), "")


def _lines(text: str) -> Iterator[str]:
    return (plain(line, LONGEST).strip() for line in text.splitlines() if line.strip())


def _matches(pattern: str, line: str) -> bool:
    return _expression(pattern).search(line.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=16)
def _expression(pattern: str) -> Any:
    return compiled(pattern.encode())

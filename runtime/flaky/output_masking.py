"""Output without what differs between any two runs: times, addresses, process ids, names of copies. Pure.

It works line by line, so that the first line that differs can be shown in its original form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from holdfast.base.text import colored

MOST_LINES = 20_000
_MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "<uuid>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (r"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b", "<time>"),  # of the Unix clock
        (
            r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?|minutes?|min|m)\b",
            "<time>",
        ),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "<hex>"),
        (r"(/tmp|/var/tmp|/dev/shm)/[^\s:'\")]+", r"\1/<name>"),
        (r"\b([Pp][Ii][Dd]|process|thread|job)([ =:#]+)\d+", r"\1\2<n>"),
        (r"^\[\d+\]( \d+$|[+-])", "[<n>]"),
        (r"(?<=:)[1-6]\d{4}\b", "<port>"),
        (r"\bport \d{4,5}\b", "port <port>"),
    )
]


def lines(output: bytes) -> list[str]:
    """Return the lines of an output as a terminal leaves them: without colors and overwritten text."""
    text = colored(output.decode("utf-8", "replace"), keep=False)
    found = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    while found and not found[-1]:
        found.pop()
    return found[:MOST_LINES]


def masked(line: str, names: Iterable[str] = ()) -> str:
    """Return a line without what differs in every run. `names` are those of the copy it ran in."""
    for name in names:
        if name:
            line = line.replace(name, "<copy>")
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line


def digest(found: Iterable[str], names: Iterable[str] = ()) -> str:
    """Return a digest that two outputs share if they are the same but for that."""
    known = tuple(names)
    hasher = hashlib.sha256()
    for line in found:
        hasher.update(masked(line, known).encode("utf-8", "replace") + b"\n")
    return hasher.hexdigest()[:16]

"""The Test Anything Protocol, with subtests as Node.js nests them, and as `pg_regress` writes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.compat.projects.readers.naming import counted

_CASE = re.compile(
    r"^(?P<indent> *)(?P<word>ok|not ok)\b *(?P<number>\d*) *(?:[-+] +)?(?P<name>.*?)"
    r"(?: +# *(?P<directive>SKIP|TODO|skip|todo)\b.*)?(?:\s+\d+ ms| +# time=.*)?$"
)
_SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>.*)$")


def read(text: str) -> dict[str, str]:
    """Return outcomes by name; a subtest's name begins with the names of the tests around it."""
    return counted(_cases(text))


def _cases(text: str) -> Iterator[tuple[str, str]]:
    around: list[tuple[int, str]] = []
    for line in text.splitlines():
        subtest, case = _SUBTEST.match(line), _CASE.match(line)
        found = subtest or case
        if not found:
            continue
        depth = len(found["indent"])
        if subtest:
            around = [outer for outer in around if outer[0] < depth] + [(depth, subtest["name"])]
        elif case:
            names = [name for at, name in around if at < depth]
            yield " > ".join([*names, case["name"].strip() or case["number"]]), _outcome(case)


def _outcome(case: re.Match[str]) -> str:
    directive = (case["directive"] or "").lower()
    if directive == "skip":
        return "skipped"
    outcome = "passed" if case["word"] == "ok" else "failed"
    return f"todo, {outcome}" if directive else outcome

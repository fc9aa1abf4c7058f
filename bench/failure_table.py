"""The accuracy of the classification of failures on the corpus, as the table in `docs/failures.md`.

    .venv/bin/python -m bench.failure_table

replaces the table of the page. A test compares it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.task.classify_failure import Evidence, classify

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "runtime" / "task" / "failure_corpus.json"
TOOLS = CORPUS.with_name("tool_failures.json")
PAGE = ROOT / "docs" / "failures.md"
PARTS = ("first", "later", "held", "tools", "fresh")
LONGEST = 90
"""Characters of a command in the table, the last ones: the first make its files."""
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


@dataclass(frozen=True, slots=True)
class FailureCase:
    """A failure of the corpora: its kind as known beforehand, and as found.

    `quote` is a text that the detail must have, where no kind says more.
    """

    part: str
    kind: str
    found: str
    command: str
    evidence: Evidence
    quote: str = ""
    detail: str = ""

    @property
    def right(self) -> bool:
        """Whether it was found as what it is."""
        return self.found == self.kind and self.quote in self.detail


def cases() -> list[FailureCase]:
    """Return the failures of the corpora, classified."""
    made: list[FailureCase] = []
    for row in [*json.loads(CORPUS.read_text()), *json.loads(TOOLS.read_text())]:
        part, kind, quote = row.pop("part"), row.pop("kind"), row.pop("quote", "")
        evidence = Evidence(**{**row, "events": frozenset(row.get("events", ()))})
        found = classify(evidence)
        name, detail = (found.failure_type, found.failure_detail) if found else ("none", "")
        made.append(FailureCase(part, kind, name, evidence.command, evidence, quote, detail))
    return made


def table(found: Sequence[FailureCase]) -> str:
    """Return the table, and the list of what was not recognized."""
    lines = ["| kind | " + " | ".join(PARTS) + " |", "|---" * (len(PARTS) + 1) + "|"]
    kinds = sorted({case.kind for case in found})
    lines += [
        f"| `{kind}` | " + " | ".join(_share(found, part, kind) for part in PARTS) + " |" for kind in kinds
    ]
    lines.append("| **all** | " + " | ".join(f"**{_share(found, part, None)}**" for part in PARTS) + " |")
    lines += ["", "Not recognized:", "", "| kind | found | command |", "|---|---|---|"]
    for case in found:
        if not case.right:
            command = re.sub(r"\s+", " ", case.command)
            command = (command if len(command) <= LONGEST else f"… {command[-LONGEST:]}").replace("|", "\\|")
            lines.append(f"| `{case.kind}` | `{case.found}` | `{command}` |")
    return "\n".join(lines)


def _share(found: Sequence[FailureCase], part: str, kind: str | None) -> str:
    chosen = [case for case in found if case.part == part and kind in (None, case.kind)]
    right = sum(case.right for case in chosen)
    return f"{right}/{len(chosen)}" if chosen else ""


def main() -> None:
    """Replace the table of the page."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{table(cases())}\n{END}{tail}")


if __name__ == "__main__":
    main()

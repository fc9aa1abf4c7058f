"""`python -m bench.report`: put the latest result's figures into docs/benchmarks.md, between its markers.

Pure but for `main`: rows in, Markdown out.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import row, show
from bench.row import Row

BEGIN = "<!-- figures: written by `python -m bench.report` -->"
END = "<!-- end of figures -->"
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.svg"
RESULTS = ROOT / "bench" / "results"


def figures(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """Return the table in Markdown, with a line that names the machine."""
    lines = [
        f"Measured {about['at'][:10]} on {about['cpus']} × {about['cpu']}, Linux {about['kernel']}, "
        f"Docker {about['engine']} ({about['storage']})" + (", **a quick run**." if about["quick"] else "."),
        "",
        "| what | who | figure | over | ratio | target | |",
        "|---|---|--:|---|--:|---|---|",
    ]
    family = ""
    for each in rows:
        if each.family != family:
            family = each.family
            lines.append(f"| **{family}** | | | | | | |")
        lines.append(_line(each))
    return "\n".join(lines)


def place(page: str, text: str) -> str:
    """Return the page with the text between its markers.

    Raises:
        ValueError: it has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"cannot place the figures: the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> int:
    try:
        result = json.loads((RESULTS / "latest.json").read_text())
    except FileNotFoundError:
        print("cannot report: there is no result yet; run `make bench`", file=sys.stderr)
        return 1
    PAGE.write_text(place(PAGE.read_text(), figures(row.load(result), result["about"])))
    shutil.copyfile(RESULTS / "latest.svg", PICTURE)
    print(f"wrote {PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")
    return 0


def _line(each: Row) -> str:
    if each.skipped:
        cells = [show.title(each), each.subject.who, "skipped", each.skipped, "", "", ""]
    else:
        cells = [
            show.title(each),
            each.subject.who,
            show.value(each),
            show.baseline(each),
            show.ratio(each),
            show.limit(each.target, each.subject.unit),
            each.verdict if each.target else "",
        ]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main())

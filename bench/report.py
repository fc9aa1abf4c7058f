"""`python -m bench.report`: put the latest result's figures into docs/benchmarks.md, between its markers.

Pure but for `main`: rows in, Markdown out.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import row, show
from bench.row import Row

BEGIN = "<!-- {}: written by `python -m bench.report` -->"
END = "<!-- end of {} -->"
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / "results"


class _Reported(NamedTuple):
    what: str
    latest: str
    picture: str
    """Its file in docs/; empty for a result without a picture."""


RESULT_OF = (
    _Reported("figures", "latest", "benchmarks.svg"),
    _Reported("figures of a large home", "latest-scale", "scale.svg"),
    _Reported("figures of steps", "latest-steps", ""),
    _Reported("figures of sleep", "latest-sleeping", ""),
)


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


def place(page: str, text: str, what: str = "figures") -> str:
    """Return the page with the text between the markers of `what`.

    Raises:
        ValueError: it has no markers.
    """
    first, last = BEGIN.format(what), END.format(what)
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"cannot place the figures: the page lacks {first} or {last}")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"


def main() -> int:
    found = [one for one in RESULT_OF if (RESULTS / f"{one.latest}.json").exists()]
    if not found:
        print("cannot report: there is no result yet; run `make bench`", file=sys.stderr)
        return 1
    for one in found:
        result = json.loads((RESULTS / f"{one.latest}.json").read_text())
        text = figures(row.load(result), result["about"])
        PAGE.write_text(place(PAGE.read_text(), text, one.what))
        if one.picture:
            shutil.copyfile(RESULTS / f"{one.latest}.svg", ROOT / "docs" / one.picture)
        print(f"wrote {one.what}")
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

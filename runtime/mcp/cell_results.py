"""The outcome of a cell in text for an agent, with one picture at most."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.base.text import colored, lines
from holdfast.runtime.guest_rpc.results import CellResult
from holdfast.runtime.mcp import outcomes
from holdfast.runtime.mcp.plots import small_png
from holdfast.runtime.mcp.short_text import MOST_CHARACTERS, shorten

_MOST_RENDERED = 400 * MOST_CHARACTERS
"""Characters of one output, from its end."""
_PICTURES = ("image/png", "image/jpeg")


def text(result: CellResult, id_: str, news: Iterable[str] = ()) -> str:
    """Return a cell's result: news, what it showed, the exception, facts."""
    shown = shorten(whole(result))
    parts = [_STATUS.get(result.status, result.status), f"{result.duration:.1f} s"]
    if result.waiting is not None:
        parts = [outcomes.waits(result.waiting), f"id {id_}"]
    elif result.execution_count is not None:
        parts.append(f"In [{result.execution_count}]")
    lost = outcomes.lost(result.dropped + result.lost)
    known = outcomes.facts([*parts, outcomes.rest(shown, id_)])
    return outcomes.joined([*news, lost, shown.text, known])


def whole(result: CellResult) -> str:
    """Return all that a cell showed, as text."""
    parts = [_clean(result.stdout), _clean(result.stderr), *_displays(result)]
    if result.error is not None:
        trace = "\n".join(result.error.traceback) or f"{result.error.ename}: {result.error.evalue}"
        parts.append(_clean(trace))
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def picture(result: CellResult) -> bytes | None:
    """Return the last picture of a cell that can be shown, as a small PNG."""
    for output in reversed(result.outputs):
        if (png := small_png(output.data)) is not None:
            return png
    return None


_STATUS = {"ok": "ok", "error": "it raised the exception above", "timeout": "interrupted: its time was over"}


def _displays(result: CellResult) -> Iterable[str]:
    pictures = 0
    for output in result.outputs:
        found = output.data.get("text/plain")
        kinds = [kind for kind in output.data if kind != "text/plain"]
        pictures += any(kind in _PICTURES for kind in kinds)
        if isinstance(found, str):
            yield _clean(found)
        elif kinds:
            yield f"<{', '.join(lines(kind)[:60] for kind in kinds[:5])}>"
    if pictures > 1:
        yield f"({pictures} pictures; the last one is shown)"


def _clean(text: str) -> str:
    """Return text without escape sequences, with only the last version of lines that were redrawn."""
    kept = colored(text[-_MOST_RENDERED:], keep=False)
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in kept.split("\n"))

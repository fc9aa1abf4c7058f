"""The outcome of a cell in text for an agent, with one picture at most."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.base.text import lines
from holdfast.runtime.guest_rpc.results import CellResult
from holdfast.runtime.mcp import outcomes
from holdfast.runtime.mcp.plots import small_png
from holdfast.runtime.mcp.short_text import clean, shorten

_PICTURES = ("image/png", "image/jpeg")


def text(result: CellResult, news: Iterable[str] = (), *, waited: float = 0.0, part: bool = False) -> str:
    """Return a cell's result: news, what it showed, the exception, facts.

    `waited` is in seconds; `part`: this is what it showed since something of it was shown before.
    """
    id_ = result.cell_id
    shown = shorten(whole(result), before=None if part else 0)
    parts = [_STATUS.get(result.status, result.status), f"{result.duration:.1f} s"]
    if result.waiting is not None:
        parts = [outcomes.waits(result.waiting), f"id {id_}"]
    elif result.status == "running":
        parts = [*outcomes.still_runs(waited, id_)]
    elif result.execution_count is not None:
        parts.append(f"In [{result.execution_count}]")
    lost = outcomes.lost(result.dropped + result.lost)
    known = outcomes.facts([*parts, outcomes.rest(shown, id_)])
    return outcomes.joined([*news, lost, shown.text, known])


def whole(result: CellResult) -> str:
    """Return all that a cell showed, as text."""
    parts = [clean(result.stdout), clean(result.stderr), *_displays(result)]
    if result.error is not None:
        trace = "\n".join(result.error.traceback) or f"{result.error.ename}: {result.error.evalue}"
        parts.append(clean(trace))
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def picture(result: CellResult) -> bytes | None:
    """Return the last picture of a cell that can be shown, as a small PNG."""
    for output in reversed(result.outputs):
        if (png := small_png(output.data)) is not None:
            return png
    return None


_STATUS = {
    "ok": "ok",
    "error": "it raised the exception above",
    "timeout": "interrupted: its time was over",
    "restarted": "the kernel was restarted",
}


def _displays(result: CellResult) -> Iterable[str]:
    pictures = 0
    for output in result.outputs:
        found = output.data.get("text/plain")
        kinds = [kind for kind in output.data if kind != "text/plain"]
        pictures += any(kind in _PICTURES for kind in kinds)
        if isinstance(found, str):
            yield clean(found)
        elif kinds:
            yield f"<{', '.join(lines(kind)[:60] for kind in kinds[:5])}>"
    if pictures > 1:
        yield f"({pictures} pictures; the last one is shown)"

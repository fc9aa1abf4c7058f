"""A recording of a terminal as a moving picture: asciicast v2 in, SVG out.  Pure.

Each state of the screen is a group that the style sheet shows for its time; a line of several states is drawn
once. It also moves where a page has it as an image. Readers who prefer no motion see the last state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby

import pyte

LONGEST = 0.8
"""Seconds that nothing may change for; longer waits are cut to it."""
SHORTEST = 0.12
"""Seconds that a state is shown at least; those between are left out."""
REDRAWN_MOST = 3
"""Lines that change at once where something is redrawn in its place."""
END = 6.0
"""Seconds that the last state stays."""
_WIDTH, _HEIGHT, _MARGIN = 8.4, 19, 14
"""Pixels of a character, of a line, and around them."""
_COLORS = {
    "default": "#d4d8de",
    "black": "#5c6370",
    "red": "#ef7a85",
    "green": "#7fd88f",
    "brown": "#e5c07b",
    "blue": "#6cb6ff",
    "magenta": "#c99bf5",
    "cyan": "#56d4dd",
    "white": "#f4f6f8",
}
_STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
    "g.s{visibility:hidden}@media(prefers-reduced-motion:reduce){g.s{animation:none!important}g.last{visibility:visible}}"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A state of the screen, as SVG of each line, and the seconds it is shown for."""

    lines: tuple[str, ...]
    seconds: float


def svg(cast: Iterable[str], title: str) -> str:
    """Return the picture of a recording, given by its lines.

    Raises:
        ValueError: it is not asciicast v2, or shows nothing.
    """
    lines = iter(cast)
    head = json.loads(next(lines, "{}"))
    if not isinstance(head, dict) or head.get("version") != 2:
        raise ValueError("cannot draw this recording: it is not asciicast v2")
    columns, rows = int(head["width"]), int(head["height"])
    frames = list(_frames(lines, columns, rows))
    if not frames:
        raise ValueError("cannot draw this recording: it shows nothing")
    return drawn(hastened(frames), columns, rows, title)


def hastened(frames: Sequence[Frame]) -> list[Frame]:
    """Return the states with less time for those that are only redrawn, as by a bar that moves."""
    following = (*frames[1:], frames[-1])
    return [
        replace(frame, seconds=min(frame.seconds, SHORTEST)) if _redrawn(frame, after) else frame
        for frame, after in zip(frames, following, strict=True)
    ]


def _redrawn(frame: Frame, after: Frame) -> bool:
    changed = [(old, new) for old, new in zip(frame.lines, after.lines, strict=True) if old != new]
    return 0 < len(changed) <= REDRAWN_MOST and all(old and new for old, new in changed)


def drawn(frames: Sequence[Frame], columns: int, rows: int, title: str) -> str:
    """Return the picture of states that follow each other, over and over."""
    width, height = columns * _WIDTH + 2 * _MARGIN, rows * _HEIGHT + 2 * _MARGIN
    whole = sum(frame.seconds for frame in frames)
    numbers: dict[str, int] = {}
    body, rules, begin = [], [], 0.0
    for number, frame in enumerate(frames):
        uses = []
        for row, line in enumerate(frame.lines):
            if line:
                name = numbers.setdefault(line, len(numbers))
                uses.append(f'<use href="#l{name}" y="{row * _HEIGHT}"/>')
        end = begin + frame.seconds
        rules.append(_rule(number, begin / whole * 100, end / whole * 100, whole))
        last = " last" if number == len(frames) - 1 else ""
        body.append(f'<g class="s{last}" id="f{number}">{"".join(uses)}</g>')
        begin = end
    defined = "".join(f'<text id="l{number}" y="14">{line}</text>' for line, number in numbers.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}{''.join(rules)}</style><defs>{defined}</defs>"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#15181e"/>'
        f'<g transform="translate({_MARGIN},{_MARGIN})">{"".join(body)}</g></svg>\n'
    )


def _rule(number: int, begin: float, end: float, whole: float) -> str:
    """Return the rules that show a state from one percentage of the whole to another, over and over."""
    before = f"0%,{begin:.3f}%{{visibility:hidden}}" if begin else ""
    after = f"{end:.3f}%,100%{{visibility:hidden}}" if end < 100 - 1e-6 else "100%{visibility:visible}"
    return (
        f"@keyframes k{number}{{{before}{begin:.3f}%{{visibility:visible}}{after}}}"
        f"#f{number}{{animation:k{number} {whole:.2f}s step-end infinite}}"
    )


def _frames(lines: Iterator[str], columns: int, rows: int) -> Iterator[Frame]:
    """Yield the states that are shown for long enough; the time of others is that of the next one."""
    shown: tuple[str, ...] = ()
    since = 0.0
    for at, state in _states(lines, columns, rows):
        if state == shown:
            continue
        if not any(shown):
            since = at
        elif at - since >= SHORTEST:
            yield Frame(shown, at - since)
            since = at
        shown = state
    if any(shown):
        yield Frame(shown, END)


def _states(lines: Iterator[str], columns: int, rows: int) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Yield the screen after each output, with its time."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    at = before = 0.0
    for line in lines:
        moment, code, data = json.loads(line)
        at += min(moment - before, LONGEST)
        before = moment
        if code == "o":
            stream.feed(data)
            yield at, tuple(_line(screen, row) for row in range(rows))


def _line(screen: pyte.Screen, row: int) -> str:
    """Return a line as parts of one style each; empty if nothing is there."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    while cells and cells[-1].data == " ":
        cells.pop()
    parts = []
    for (color, is_bold), same in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        fill = _COLORS.get(
            color.removeprefix("bright"), f"#{color}" if len(color) == 6 else _COLORS["default"]
        )
        bold = ' font-weight="bold"' if is_bold else ""
        parts.append(f'<tspan fill="{fill}"{bold}>{escape("".join(cell.data for cell in same))}</tspan>')
    return "".join(parts)

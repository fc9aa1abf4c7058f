"""Curves of figures over a growing home, as a picture. Pure: numbers in, SVG out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench import show
from bench.plot import STYLE, mark

WIDTH, HEIGHT = 980, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 64, 50
_COLOURS = ("#2563eb", "#0f766e", "#b45309", "#7c3aed", "#be123c", "#475569", "#15803d", "#a16207")


def svg(title: str, facts: str, places: Sequence[float], curves: Mapping[str, Sequence[float]]) -> str:
    """Return a picture of one curve for each name: seconds on a logarithmic scale, over `places`."""
    values = [value for curve in curves.values() for value in curve]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def across(place: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * place / max(places), 1)

    def up(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    body = []
    for power in range(low, high + 1):
        y = up(10.0**power)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        body.append(f'<text class="small" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{mark(power)}</text>')
    for place in places:
        x = across(place)
        body.append(f'<text class="small" x="{x}" y="{HEIGHT - 26}" text-anchor="middle">{place:g}</text>')
    taken: list[float] = []
    ordered = sorted(curves.items(), key=lambda item: -item[1][-1])
    for number, (name, curve) in enumerate(ordered):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{across(place)},{up(value)}" for place, value in zip(places, curve, strict=True))
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = max(up(curve[-1]) + 4, taken[-1] + 14 if taken else 0)
        taken.append(y)
        label = f"{name}, {show.figure(curve[-1], 's')}"
        body.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y}" style="fill:{colour}">{escape(label)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}"><style>{STYLE}</style>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<text class="title" x="16" y="26">{escape(title)}</text>'
        f'<text class="small" x="16" y="44">{escape(facts)}</text>{"".join(body)}</svg>\n'
    )

"""Reads what a test runner wrote into cases, each with its outcome. Pure.

A reader takes the text and gives the outcome of each case by its name: `passed`, `failed`, `skipped`, or the
runner's own word if it is none of these. Names that occur more than once are counted, so that none is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.compat.projects.readers import gotest, junit, lines, tap

Cases = dict[str, str]
Reader = Callable[[str], Cases]

READERS: Mapping[str, Reader] = {
    "junit": junit.read,
    "tap": tap.read,
    "go": gotest.read,
    **{name: lines.reader(name) for name in lines.FORMATS},
}

"""Reads the output of a test runner into cases, each with its outcome. Pure.

A reader takes the text and returns the outcome of each case by its name: `passed`, `failed`, `skipped`, or
any other word of the runner. Names that occur more than once are counted, so that none is lost.
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

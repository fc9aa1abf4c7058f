"""JUnit XML, as pytest, mocha, JUnit and CPython's own runner write it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from tests.compat.projects.readers.naming import counted

_WORDS = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def read(text: str) -> dict[str, str]:
    """Return outcomes by `class::name`; incomplete XML has no cases."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return {}
    return counted(_cases(root))


def _cases(root: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for case in root.iter("testcase"):
        name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
        words = [_WORDS[child.tag] for child in case if child.tag in _WORDS]
        yield name, words[0] if words else "passed"

"""Runners that print a line for each case, in a format of their own. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.compat.projects.readers.naming import counted


@dataclass(frozen=True, slots=True)
class Format:
    """A format: `case` finds the groups `name` and `word` in a line; `words` maps words to outcomes.

    `section`, if a line matches it, is the beginning of the names that follow.
    """

    case: re.Pattern[str]
    words: Mapping[str, str]
    section: re.Pattern[str] | None = None


FORMATS: Mapping[str, Format] = {
    # PASS: tests/jqtest
    "automake": Format(
        re.compile(r"^(?P<word>PASS|FAIL|SKIP|XFAIL|XPASS|ERROR): (?P<name>.+)$"),
        {"PASS": "passed", "FAIL": "failed", "ERROR": "failed", "SKIP": "skipped"},
    ),
    # test sync::tests::works ... ok
    "cargo": Format(
        re.compile(r"^test (?P<name>.+?) \.\.\. (?P<word>ok|FAILED|ignored)\b"),
        {"ok": "passed", "FAILED": "failed", "ignored": "skipped"},
        re.compile(r"^ +(?:Running (?P<section>.+?) \(|(?P<docs>Doc-tests) )"),
    ),
    # test_name (module.Class.test_name) ... ok; an exception's text may stand between
    "unittest": Format(
        re.compile(r"^(?P<name>\w+ \(.+?\)) *(?:\.\.\. )?(?P<word>ok|FAIL|ERROR|skipped|expected failure)\b"),
        {"ok": "passed", "FAIL": "failed", "ERROR": "failed"},
    ),
    # [ok]: SET and GET an item (3 ms)
    "redis": Format(
        re.compile(r"^\[(?P<word>ok|err|exception|ignore|skip)\]: (?P<name>.+?)(?: \(\d+ ms\))?$"),
        {"ok": "passed", "err": "failed", "exception": "failed", "ignore": "skipped", "skip": "skipped"},
    ),
    # select1-1.2... Ok
    "testfixture": Format(
        re.compile(r"^(?P<name>[\w.-]+)\.\.\. ?(?P<word>Ok|Omitted|$)"),
        {"Ok": "passed", "Omitted": "skipped", "": "failed"},
    ),
}

_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def reader(name: str) -> Callable[[str], dict[str, str]]:
    """Return the reader of a format."""
    chosen = FORMATS[name]
    return lambda text: counted(_cases(chosen, text))


def _cases(chosen: Format, text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in _COLOUR.sub("", text).splitlines():
        begun = chosen.section.match(line) if chosen.section else None
        if begun:
            section = next(part for part in begun.groups() if part) + ": "
        found = chosen.case.match(line)
        if found:
            yield section + found["name"], chosen.words.get(found["word"], found["word"])

"""`python setup/man_pages.py FOLDER`: manual pages and completions, of the command line's own description.

FOLDER gets `man/man1/holdfast.1`, a page for each verb, and `completions/` for bash, zsh and fish.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.base.version import VERSION
from holdfast.runtime.cli import command_line, completion, grammar, help_pages, verb_table

SHELLS = {"bash": "holdfast", "zsh": "_holdfast", "fish": "holdfast.fish"}
"""The shells, and the names under which they look for the completions of a command."""


def main() -> int:
    """Write them."""
    folder = Path(sys.argv[1])
    (manual := folder / "man" / "man1").mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (manual / f"{name}.1").write_text(text, encoding="utf-8")
    for shell, name in SHELLS.items():
        (place := folder / "completions" / shell).mkdir(parents=True, exist_ok=True)
        (place / name).write_text(completion.SCRIPTS[shell], encoding="utf-8")
    return 0


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    lines = [(verb, line) for verb, (line, _) in verb_table.VERBS.items()]
    yield "holdfast", _page("holdfast", command_line.EARLY, ("VERBS", _listed(lines)), _see(verb_table.VERBS))
    for group in filter(verb_table.below, verb_table.VERBS):
        names = {
            name: help_pages.summary(verb_table.load(f"{group} {name}")) for name in verb_table.below(group)
        }
        line = verb_table.VERBS[group][0]
        head = _head(f"holdfast-{group}", line, f"holdfast {group} VERB ...", line)
        seen = _see(f"{group}-{name}" for name in names)
        yield f"holdfast-{group}", head + _section("VERBS", _listed(names.items())) + _section(*seen)
    for path in verb_table.paths():
        name = f"holdfast-{path.replace(' ', '-')}"
        yield name, _page(name, verb_table.load(path))


def _page(name: str, verb: grammar.Verb, *more: tuple[str, str]) -> str:
    """Return the page of a verb; see man(7)."""
    whole = " ".join(verb.doc.split())
    usage = f"holdfast {verb.path} [OPTIONS] {help_pages.places(verb)}".replace("  ", " ").rstrip()
    parts = [_head(name, help_pages.summary(verb), usage, whole)]
    described = [row for row in help_pages.rows([*verb.arguments, *verb.options]) if row[1]]
    parts.append(_section("ARGUMENTS AND OPTIONS", _listed([*described, help_pages.HELP])))
    parts += [_section(title, text) for title, text in more]
    if verb.examples:
        lines = "".join(f"{_escaped(f'holdfast {line}')}\n" for line in verb.examples)
        parts.append(_section("EXAMPLES", f".nf\n{lines}.fi\n"))
    return "".join(parts)


def _head(name: str, line: str, usage: str, whole: str) -> str:
    return (
        f'.TH {_escaped(name).upper()} 1 "" "Holdfast {VERSION}"\n'
        + _section("NAME", f"{_escaped(name)} \\- {_escaped(line.rstrip('.'))}\n")
        + _section("SYNOPSIS", f".B {_escaped(usage)}\n")
        + _section("DESCRIPTION", f"{_escaped(whole)}\n")
    )


def _section(title: str, text: str) -> str:
    return f".SH {title}\n{text}"


def _listed(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f".TP\n.B {_escaped(left)}\n{_escaped(right)}\n" for left, right in rows)


def _see(names: Iterable[str]) -> tuple[str, str]:
    return "SEE ALSO", ".PP\n" + ",\n".join(f".BR holdfast-{name} (1)" for name in names) + "\n"


def _escaped(text: str) -> str:
    """Return text that roff prints as it is: no request, no escape, hyphens that can be copied."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.splitlines())


if __name__ == "__main__":
    sys.exit(main())

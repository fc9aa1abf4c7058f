"""Pages made when the documentation is built, as a hook of MkDocs: every verb's help, the decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from holdfast.runtime.cli import help_pages, verb_table

COLUMNS = 100
DECISIONS = Path(__file__).parent.parent / "docs" / "decisions"
VERBS_HEAD = """# Command line

Every verb with its options, as `holdfast VERB --help` prints them. [verbs.md](verbs.md) says what each
is for.

"""
DECISIONS_HEAD = """# Decisions

What was chosen against alternatives, and why. Each record stands as it was written, except where a later
one replaces it and says so (`**Replaced by** NUMBER`).

| | decision | status |
|---|---|---|
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those of the folder. See the events of MkDocs' plugins."""
    for path, text in (("command-line.md", command_line()), ("decisions/index.md", decisions())):
        files.append(File.generated(config, path, content=text))
    return files


def command_line() -> str:
    """Return the page of all verbs, in the families of `holdfast --help`."""
    parts = [VERBS_HEAD]
    for family, verbs in verb_table.FAMILIES.items():
        parts.append(f"## {family}\n\n")
        for verb in verbs:
            if below := verb_table.below(verb):
                parts.append(_described(verb, "###", help_pages.of_group(verb, COLUMNS)))
            for path in [f"{verb} {name}" for name in below] or [verb]:
                text = help_pages.of_verb(verb_table.load(path), COLUMNS)
                parts.append(_described(path, "####" if below else "###", text))
    return "".join(parts)


def _described(path: str, heading: str, text: str) -> str:
    return f"{heading} {path}\n\n```text\n{text.rstrip()}\n```\n\n"


def decisions() -> str:
    """Return the list of decision records, newest last."""
    lines = []
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        number, _, rest = title.partition(" ")
        title = re.sub(r"^[:.]? *", "", rest)
        lines.append(f"| {number} | [{title}]({path.name}) | {status(path.read_text(encoding='utf-8'))} |\n")
    return DECISIONS_HEAD + "".join(lines)


def status(record: str) -> str:
    """Return whether a decision holds; a record that says nothing of it does."""
    found = re.search(r"^\*\*Replaced by\*\* (\d{4})", record, re.M)
    return f"replaced by {found[1]}" if found else "holds"

"""Pages made when the documentation is built, as a hook of MkDocs: every verb's help, the decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from holdfast.runtime.cli.app import readable
from holdfast.runtime.cli.families import FAMILIES

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
    root = readable()
    above = root.make_context("holdfast", [], resilient_parsing=True)
    parts = [VERBS_HEAD]
    for family, verbs in FAMILIES.items():
        parts.append(f"## {family}\n\n")
        for verb in verbs:
            command = root.get_command(above, verb)  # type: ignore[attr-defined]
            parts += described(command, above, verb, "###")
    return "".join(parts)


def described(command: Any, above: Any, name: str, heading: str) -> Iterator[str]:
    """Yield a verb's help, and that of the verbs below it."""
    widths = {"terminal_width": COLUMNS, "max_content_width": COLUMNS}
    context = type(above)(command, info_name=name, parent=above, **widths)
    full = context.command_path.removeprefix("holdfast ")
    yield f"{heading} {full}\n\n```text\n{command.get_help(context)}\n```\n\n"
    for below in getattr(command, "commands", {}):
        yield from described(command.commands[below], context, below, heading + "#")


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

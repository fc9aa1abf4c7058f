"""Pages made when the documentation is built, as a hook of MkDocs: verbs, decisions, the Python API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

import holdfast
from holdfast.errors import HoldfastError
from holdfast.runtime.api.image_sources import ImageSources
from holdfast.runtime.api.running_program import SessionPrograms
from holdfast.runtime.api.session_kernels import SessionKernel, SessionKernels
from holdfast.runtime.api.session_shells import SessionShells
from holdfast.runtime.cli import help_pages, verb_table

COLUMNS = 76
"""The width of a block of code on a page, in characters."""
DECISIONS = Path(__file__).parent.parent / "docs" / "decisions"
VERBS_HEAD = """# Command line

Every verb with its options, as `holdfast VERB --help` prints them. [verbs.md](verbs.md) says what each
is for.

"""
PYTHON_HEAD = """# Python API

The classes that `import holdfast` offers, and the classes of objects that its handles return.
[python.md](python.md) shows how they are used. `AsyncHoldfast` and `AsyncSession` have the methods of
`RemoteHoldfast` and `RemoteSession` as coroutines; these have methods of `Holdfast` and `Session`, over a URL
([client.md](client.md)).

"""
HANDED_OUT = (ImageSources, SessionKernel, SessionKernels, SessionPrograms, SessionShells)
FIRST = ("Holdfast", "Session", "Snapshot", "Job", "ExecResult", "CellResult")
"""The classes that every program uses; the others follow by name."""
OVER_A_URL = (
    holdfast.AsyncHoldfast,
    holdfast.AsyncSession,
    holdfast.RemoteHoldfast,
    holdfast.RemoteSession,
)
"""The classes with the methods of others, which are not listed twice."""
DECISIONS_HEAD = """# Decisions

What was chosen against alternatives, and why. Each record stands as it was written, except where a later
one replaces it and says so (`**Replaced by** NUMBER`).

| | decision | status |
|---|---|---|
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those of the folder. See the events of MkDocs' plugins."""
    from mkdocs.structure.files import File

    made = {
        "command-line.md": command_line(),
        "decisions/index.md": decisions(),
        "python-api.md": python_api(),
    }
    for path, text in made.items():
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


def python_api() -> str:
    """Return the page of the Python API: a directive of mkdocstrings for each class."""
    kinds = {kind for name in holdfast.__all__ if isinstance(kind := getattr(holdfast, name), type)}
    raised = {kind for kind in kinds if issubclass(kind, HoldfastError)}
    shown = sorted({*HANDED_OUT, *kinds} - raised - set(OVER_A_URL), key=_place)
    listed = ", ".join(f"`{kind.__name__}`" for kind in sorted(raised, key=lambda kind: kind.__name__))
    directives = "".join(f"::: {kind.__module__}.{kind.__qualname__}\n\n" for kind in shown)
    return f"{PYTHON_HEAD}{directives}## Errors\n\n[errors.md](errors.md) has each with its code: {listed}.\n"


def _place(kind: type) -> tuple[int, str]:
    name = kind.__name__
    return FIRST.index(name) if name in FIRST else len(FIRST), name


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
    """Return whether a decision holds; a record without that line does."""
    found = re.search(r"^\*\*Replaced by\*\* (\d{4})", record, re.M)
    return f"replaced by {found[1]}" if found else "holds"

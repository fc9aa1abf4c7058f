"""`python setup/man_pages.py FOLDER`: manual pages and completions, of the command line's own description.

FOLDER gets `man/man1/holdfast.1`, a page for each verb, and `completions/` for bash, zsh and fish.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.completion import get_completion_script

from holdfast.base.version import VERSION
from holdfast.runtime.cli.app import readable
from holdfast.runtime.cli.families import FAMILIES
from holdfast.runtime.cli.plain_forms import COMPLETION

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
        script = get_completion_script(prog_name="holdfast", complete_var=COMPLETION, shell=shell)
        (place / name).write_text(script + "\n", encoding="utf-8")
    return 0


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    root = readable()
    context = root.make_context("holdfast", [], resilient_parsing=True)
    lines = [(verb, line) for family in FAMILIES.values() for verb, line in family.items()]
    listed = "".join(f".TP\n.B {_escaped(verb)}\n{_escaped(line)}\n" for verb, line in lines)
    seen = "SEE ALSO", ".PP\n" + ",\n".join(f".BR holdfast-{verb} (1)" for verb, _ in lines) + "\n"
    yield "holdfast", _page("holdfast", root, context, ("VERBS", listed), seen)
    for name, command, above in _verbs(root, context):
        within = type(context)(command, info_name=name.rpartition("-")[2], parent=above)
        yield f"holdfast-{name}", _page(f"holdfast-{name}", command, within)


def _verbs(group: Any, above: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name, command in group.commands.items():
        yield f"{path}{name}", command, above
        if getattr(command, "commands", None):
            within = type(above)(command, info_name=name, parent=above)
            yield from _verbs(command, within, f"{path}{name}-")


def _page(name: str, command: Any, context: Any, *more: tuple[str, str]) -> str:
    """Return one page; see man(7)."""
    whole = " ".join(str(command.help or "").replace("\b", "").split())
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f'.TH {_escaped(name).upper()} 1 "" "Holdfast {VERSION}"\n']
    parts.append(f".SH NAME\n{_escaped(name)} \\- {_escaped(whole.partition('. ')[0].rstrip('.'))}\n")
    parts.append(f".SH SYNOPSIS\n.B {_escaped(usage)}\n.SH DESCRIPTION\n{_escaped(whole)}\n")
    records = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    if records:
        parts.append(".SH ARGUMENTS AND OPTIONS\n")
        parts += [f".TP\n.B {_escaped(left)}\n{_escaped(right)}\n" for left, right in records]
    parts += [f".SH {title}\n{text}" for title, text in more]
    examples = [line.strip() for line in str(command.epilog or "").split("\n")[2:]]
    if examples:
        parts.append(".SH EXAMPLES\n.nf\n" + "".join(f"{_escaped(line)}\n" for line in examples) + ".fi\n")
    return "".join(parts)


def _escaped(text: str) -> str:
    """Return text that roff prints as it is: no request, no escape, hyphens that can be copied."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.splitlines())


if __name__ == "__main__":
    sys.exit(main())

"""Recorded commands as a bash script, to be read, changed and run where only files were restored. Pure.

It is meant to be sourced, so that directories and variables stay. Nothing runs it automatically.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.base.text import plain
from holdfast.runtime.restore.compat.command_history import Recorded

PATH = "/var/lib/holdfast/recorded-commands.sh"

_HEAD = f"""\
# Commands of the session that these files come from, in order. None of them was run here.
# The files already have their results: most need not be run again, and some should not be.
# Copy the ones you want, or run all of them in this shell: . {PATH}
"""


def script(found: Sequence[Recorded], source: str) -> str:
    """Return the text of the script; `source` is the snapshot's name."""
    parts = [f"# Of snapshot {plain(source, 100)}.\n{_HEAD}"]
    parts += [_one(number, each) for number, each in enumerate(found, start=1)]
    return "\n".join(parts)


def _one(number: int, one: Recorded) -> str:
    when = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"# {number}. {when} UTC, {plain(one.actor, 80) or 'unknown'}: {_came_to(one)}"]
    lines += [f"#    input: {_given(piece)}" for piece in one.typed]
    text = one.text.rstrip("\n")
    if one.kind == "cell":
        lines += [f"#    a cell of kernel {plain(one.place)}:", *_commented(text)]
    elif one.cut:
        lines += ["#    truncated:", *_commented(text)]
    elif one.kind == "job":
        lines += [f"#    apart from the shell, as job {plain(one.place)}:", *_commented(text)]
    elif one.place not in ("", "main"):
        lines += [f"#    in shell {plain(one.place)}:", *_commented(text)]
    else:
        lines.append(text)
    return "\n".join(lines) + "\n"


def _came_to(one: Recorded) -> str:
    if one.result is None:
        return "had not ended"
    return f"exit {one.result}" if isinstance(one.result, int) else plain(one.result, 40)


def _given(piece: str | None) -> str:
    return "something hidden" if piece is None else plain(piece.rstrip("\n"), 300)


def _commented(text: str) -> list[str]:
    return [f"#    {line}" for line in text.splitlines()]

"""Verb: watch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, get_args

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.reporting import Exit
from holdfast.runtime.files.file_tree import ChangeKind

if TYPE_CHECKING:
    from holdfast.runtime.files.file_tree import WatchedChange

KINDS = get_args(ChangeKind)
TIMED_OUT = 124
KIND = option("--kind", "-k", metavar="KIND", help=f"Only this kind: {', '.join(KINDS)}. Repeatable.")


@examples("watch work /workspace -r")
def watch(
    session: str = SESSION_REF,
    path: str = argument("[PATH]", default=".", help="File or folder; by default the shell's directory."),
    recursive: bool = option("--recursive", "-r", help="Watch the folders in it as well, new ones included."),
    kind: list[str] | None = KIND,
    count: int | None = option("--count", "-n", metavar="N", least=1, help="End after this many changes."),
    limit: str | None = option("--for", metavar="TIME", help="End after this time: 30s, 10m, 2h."),
    user: str | None = option(metavar="NAME", help="User of the session whose rights apply."),
    json: bool = JSON,
) -> None:
    """Show changes of files as they happen, a line for each. Exits with 124 if `--for` ends before `--count`.

    Snapshots lose none. The watch also ends when PATH is removed or given another name.
    """
    for name in kind or ():
        if name not in KINDS:
            raise InvalidArgument(f"cannot watch for '{name}': the kinds are {', '.join(KINDS)}")
    seconds = None if limit is None else parse_duration(limit)
    if limit is not None and seconds is None:
        raise InvalidArgument(
            f"cannot watch for '{limit}': it is not a duration", hint="for example --for 30s"
        )
    wanted, left = {*(kind or KINDS)}, count
    files = controller().session(session).files
    if user is not None:
        files = files.as_user(user)
    with files.watch(path, recursive=recursive, timeout=seconds) as changes:
        printing.note(f"watching {plain(changes.path, 4096)}")
        for change in changes:
            if change.kind not in wanted:
                continue
            if wants_json(json):
                printing.emit(change.as_dict())
            else:
                printing.say(line(change))
            sys.stdout.flush()
            if left is not None and (left := left - 1) == 0:
                return
        if left and not changes.ended:
            raise Exit(TIMED_OUT)


def line(change: WatchedChange) -> str:
    """Return a change as a line for people; a folder's path ends in a slash."""
    slash = "/" if change.file is not None and change.file.kind == "folder" else ""
    return f"{change.kind:<8}  {plain(change.path, 4096)}{slash}"

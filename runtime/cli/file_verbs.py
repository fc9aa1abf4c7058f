"""Verbs of a session's files: cp, watch."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import get_args

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, SessionFileNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.reporting import Exit
from holdfast.runtime.files.file_tree import ChangeKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.files.copied import Copied
    from holdfast.runtime.files.file_tree import WatchedChange

_IN_SESSION = re.compile(r"([^/:]+):(.*)", re.DOTALL)
STANDARD = "-"
EVERY = 5.0
"""Seconds between two notes of progress."""
KINDS = get_args(ChangeKind)
TIMED_OUT = 124
KIND = option("--kind", "-k", metavar="KIND", help=f"Only this kind: {', '.join(KINDS)}. Repeatable.")


@examples("cp notes.txt work:", "cp -r work:/workspace/results .")
def cp(
    source: str = argument("SOURCE", help="FILE, SESSION:PATH, or `-` for tar."),
    target: str = argument("TARGET", help="FILE, SESSION:PATH, or `-` for tar."),
    recursive: bool = option("--recursive", "-r", help="Copy folders as well."),
    user: str | None = option(metavar="NAME", help="User of the session whose rights apply."),
    json: bool = JSON,
) -> None:
    """Copy files into a session or out of it.

    One of SOURCE and TARGET is SESSION:PATH; a relative PATH begins in the directory of the session's shell.
    A name with a colon on this machine is written ./NAME. Into a folder that exists, SOURCE is copied under
    its own name.
    """
    inside, outside = _IN_SESSION.fullmatch(source), _IN_SESSION.fullmatch(target)
    if (inside is None) == (outside is None):
        raise InvalidArgument(
            "cannot copy: exactly one of the two must be SESSION:PATH",
            hint="`holdfast cp work:/srv/log .`; between sessions, `holdfast cp A:/x - | holdfast cp - B:/x`",
        )
    place = inside or outside
    assert place is not None
    with controller() as holdfast:
        files = holdfast.session(place[1]).files
        if user is not None:
            files = files.as_user(user)
        try:
            if inside is not None:
                made = _out(files, place[2] or ".", target, recursive=recursive)
            else:
                made = _in(files, source, place[2] or ".", recursive=recursive)
        except (HoldfastError, BrokenPipeError):
            raise
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            raise InvalidArgument(f"cannot copy{where}: {(error.strerror or str(error)).lower()}") from error
    _note_omissions(made)
    if wants_json(json) and target != STANDARD:
        printing.emit(made.as_dict())


def check_project(folder: str) -> None:
    """Refuse to copy anything but a folder, before a session is made for it."""
    if not Path(folder).is_dir():
        raise InvalidArgument(f"cannot copy {folder}: it is not a folder", hint="`holdfast cp` copies files")


def copy_project(session: Session, folder: str) -> None:
    """Copy a folder into the directory that a new session begins in; without it, the session is removed."""
    from holdfast.runtime.api.session_files import upload_project
    from holdfast.runtime.guest import layout

    place = str(session.row.options.get("workdir") or layout.WORKSPACE)
    try:
        made = upload_project(session.files, Path(folder), place)
    except (HoldfastError, OSError) as error:
        session.remove()
        if isinstance(error, HoldfastError):
            raise
        raise InvalidArgument(f"cannot copy {folder}: {(error.strerror or str(error)).lower()}") from error
    _note_omissions(made)


def _note_omissions(made: Copied) -> None:
    for path, why in made.left_out.items():
        printing.note(f"left out: {path} ({why})")
    for path in made.changed:
        printing.note(f"changed while it was copied: {path}")


class _Progress:
    """Progress notes of slow copies."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, made: Copied) -> None:
        """Accept the counts so far."""
        if time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            printing.note(f"{made.files} files, {printing.size(made.bytes)} copied")


def _out(files: SessionFiles, path: str, target: str, *, recursive: bool) -> Copied:
    if target == STANDARD:
        if sys.stdout.isatty():
            raise InvalidArgument("cannot write tar to a terminal", hint="`holdfast cp S:PATH - | tar tv`")
        return files.write_tar(path, sys.stdout.buffer)
    found, to = files.stat(path), Path(target)
    if found.kind == "folder" and not recursive:
        raise InvalidArgument(f"cannot copy {path}: it is a folder", hint="`holdfast cp -r` copies folders")
    name = path.rstrip("/").rpartition("/")[2]
    if to.is_dir() and name not in ("", ".", "..", "~"):
        to /= name
    return files.download(path, to, report=_Progress())


def _in(files: SessionFiles, source: str, path: str, *, recursive: bool) -> Copied:
    if source == STANDARD:
        if sys.stdin.isatty():
            raise InvalidArgument(
                "cannot read tar from a terminal", hint="`tar c DIR | holdfast cp - S:PATH`"
            )
        return files.read_tar(sys.stdin.buffer, path)
    origin = Path(source)
    if not origin.exists():
        raise InvalidArgument(f"cannot copy {source}: there is no such file")
    if origin.is_dir() and not recursive:
        raise InvalidArgument(f"cannot copy {source}: it is a folder", hint="`holdfast cp -r` copies folders")
    if _is_folder(files, path):
        path = f"{path.rstrip('/')}/{origin.resolve().name}"
    return files.upload(origin, path, report=_Progress())


def _is_folder(files: SessionFiles, path: str) -> bool:
    try:
        return files.stat(path).kind == "folder"
    except SessionFileNotFound:
        if path.endswith("/"):
            raise
        return False


@examples("watch work /workspace -r")
def watch(
    session: str = SESSION_REF,
    path: str = argument("[PATH]", default=".", help="File or folder; by default the shell's directory."),
    recursive: bool = option(
        "--recursive", "-r", help=("Also watch the folders below it, including new ones.")
    ),
    kind: list[str] | None = KIND,
    count: int | None = option("--count", "-n", metavar="N", least=1, help="End after this many changes."),
    limit: str | None = option("--for", metavar="TIME", help="End after this time: 30s, 10m, 2h."),
    user: str | None = option(metavar="NAME", help="User of the session whose rights apply."),
    json: bool = JSON,
) -> None:
    """Show changes of files as they happen, a line for each. Exits with 124 if `--for` ends before `--count`.

    Snapshots do not lose any. The watch also ends when PATH is removed or renamed.
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
                printing.say(change_line(change))
            sys.stdout.flush()
            if left is not None and (left := left - 1) == 0:
                return
        if left and not changes.ended:
            raise Exit(TIMED_OUT)


def change_line(change: WatchedChange) -> str:
    """Return a change as a line for people; a folder's path ends in a slash."""
    slash = "/" if change.file is not None and change.file.kind == "folder" else ""
    return f"{change.kind:<8}  {plain(change.path, 4096)}{slash}"

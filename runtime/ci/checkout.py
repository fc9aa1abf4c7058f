"""The part of a checkout that goes into a session: what git would keep, and git's own folder.

Tracked files and those that are neither tracked nor ignored, as they are in the working tree; the same for
submodules; symbolic links as links. From `.git/config` the credentials that CI systems leave there are
removed. A folder that is not a checkout goes unchanged.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.guest.records import masking

DEEPEST = 8
"""Depth to which submodules within submodules are followed."""
MOST = 2_000_000
"""Limit of entries; a checkout of Linux has 90 000."""
# The user may not own the folder (containers of CI systems), and a listing must not run anything in it.
_GIT = (
    "git",
    "--no-optional-locks",
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
)
_CREDENTIALS = re.compile(r"^\s*(extraheader|helper|sshcommand|askpass)\s*=", re.IGNORECASE)
_WORKTREE = re.compile(r"\s*worktree\s*=", re.IGNORECASE)
_CONFIG = re.compile(r"(?:^|.*/)\.git/(?:modules/.+/)?config")
_NOT_CARRIED = ("worktrees", "fsmonitor--daemon.ipc", "index.lock")


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files that go into a session.

    `entries` are pairs of the path in the session's folder and the path here; `texts` are files whose
    contents differ from those here. The command begins in the subfolder `inside`. `revision` is the commit
    that is checked out, with a mark if files have changed since. `notes` say what is left out.
    """

    root: Path
    inside: str
    entries: tuple[tuple[str, Path], ...]
    texts: dict[str, bytes] = field(default_factory=dict)
    revision: str | None = None
    notes: tuple[str, ...] = ()


def look(folder: Path) -> Checkout:
    """Return the files of a folder that go into a session; of the whole checkout, if the folder is in one.

    Raises:
        InvalidArgument: there is no such folder, or git cannot read it.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise InvalidArgument(f"cannot check out {plain(str(folder), 200)}: there is no such folder")
    top = _asked(folder, "rev-parse", "--show-toplevel")
    if top is None:
        found = _bounded((str(path.relative_to(folder)), path) for path in _walk(folder))
        return Checkout(folder, "", found, notes=("it is not a git checkout: the whole folder is copied",))
    root = Path(top)
    entries: dict[str, Path] = {}
    for name in _listed(root, 0):
        path = root / name
        if path.is_symlink() or path.exists():
            entries[name] = path
    own, notes = _own_folder(root)
    entries |= own
    texts = {name: _config(name, entries.pop(name)) for name in sorted(entries) if _CONFIG.fullmatch(name)}
    inside = "" if folder.resolve() == root.resolve() else str(folder.resolve().relative_to(root.resolve()))
    return Checkout(root, inside, _bounded(iter(entries.items())), texts, _revision(root), notes)


def harmless_config(text: str) -> str:
    """Return a git configuration without credentials, and without programs that would be run for them."""
    lines = [line for line in text.splitlines() if not _CREDENTIALS.match(line)]
    return "\n".join(map(_without_password, lines)) + "\n"


def _without_password(line: str) -> str:
    masked = masking.address(line)
    return masked.replace(f":{masking.MASK}@", "@") if masked != line else line


def _listed(root: Path, depth: int) -> Iterator[str]:
    """Yield the paths below a checkout, including its submodules."""
    names = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in sorted({name for name in names.split("\0") if name}):
        path = root / name
        if not path.is_dir() or path.is_symlink():
            yield name
        elif (path / ".git").exists() and depth < DEEPEST:  # a submodule, or a checkout in a checkout
            yield from (f"{name.rstrip('/')}/{each}" for each in _submodule(path, depth))


def _submodule(path: Path, depth: int) -> Iterator[str]:
    yield from _listed(path, depth + 1)
    own = path / ".git"
    yield from [".git"] if own.is_file() else (str(each.relative_to(path)) for each in _walk(own))


def _own_folder(root: Path) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return git's own folder; that of a linked worktree is assembled into an ordinary one."""
    kept, special = (
        _asked(root, "rev-parse", "--git-common-dir"),
        _asked(root, "rev-parse", "--absolute-git-dir"),
    )
    if kept is None or special is None:
        return {}, ("its .git cannot be read and is left out",)
    common, own = (root / kept).resolve(), Path(special).resolve()
    entries = {f".git/{path.relative_to(common)}": path for path in _walk(common) if _carried(path, common)}
    if own != common:
        entries |= {f".git/{name}": own / name for name in ("HEAD", "index") if (own / name).is_file()}
    return entries, ()


def _config(name: str, path: Path) -> bytes:
    text = harmless_config(path.read_bytes().decode("utf-8", "surrogateescape"))
    if name == ".git/config":  # that of a submodule, here the checkout itself, names a place elsewhere
        text = "".join(f"{line}\n" for line in text.splitlines() if not _WORKTREE.match(line))
    return text.encode("utf-8", "surrogateescape")


def _carried(path: Path, common: Path) -> bool:
    name = path.relative_to(common).parts[0]
    return name not in _NOT_CARRIED and not path.name.endswith(".lock")


def _revision(root: Path) -> str | None:
    commit = _asked(root, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _asked(root, "status", "--porcelain", "--untracked-files=no")
    return commit + (" and changes" if changed else "")


def _walk(folder: Path) -> Iterator[Path]:
    """Yield files, links and empty folders below a folder, in order; no link is followed."""
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir() and not path.is_symlink():
                waiting.append(path)
            yield path


def _bounded(found: Iterator[tuple[str, Path]]) -> tuple[tuple[str, Path], ...]:
    entries = []
    for entry in found:
        entries.append(entry)
        if len(entries) > MOST:
            raise InvalidArgument(
                f"cannot check out: there are more than {MOST} files", hint="--checkout a smaller folder"
            )
    return tuple(entries)


def _asked(root: Path, *arguments: str) -> str | None:
    """Return git's one-line answer; None if it refuses."""
    try:
        return _git(root, *arguments).strip()
    except InvalidArgument:
        return None


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run([*_GIT, "-C", str(root), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise InvalidArgument(
            "cannot check out: git is not installed", hint="install git, or use --no-checkout"
        ) from None
    if done.returncode != 0:
        why = plain(done.stderr.decode("utf-8", "replace"), 300)
        raise InvalidArgument(f"cannot check out {plain(str(root), 200)}: {why}")
    return done.stdout.decode("utf-8", "surrogateescape")

"""Calls of a session's `git`: their words, and the values that their output stands for.  Pure.

The output is the session's: it is read as lines of a known form, and never trusted beyond that. Nothing here
knows how a program is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import GitFailed, InvalidArgument

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.program_result import ProgramResult

Value = TypeVar("Value")
ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_PAGER": "cat"}
"""No one is there to type a password, or to close an editor."""
CHANGES = {
    "M": "modified",
    "T": "type changed",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "U": "conflict",
}
COMMIT = 'folder=$1; shift; git -C "$folder" commit --quiet "$@" && git -C "$folder" rev-parse HEAD'
_AUTHOR = re.compile(r"\s*([^<>\n]+?)\s*<([^<>\s]+)>\s*")
_SHORT, _RENAMED, _UNMERGED = 8, 9, 10
"""Fields before the path of a line of `git status --porcelain=v2`: git-status(1), Changed Tracked Entries."""


@dataclass(frozen=True, slots=True)
class GitChange:
    """A changed file of a work tree, by its path below the root of the repository.

    `staged` says how the index differs from the last commit, `unstaged` how the work tree differs from the
    index: "modified", "type changed", "added", "deleted", "renamed", "copied", "conflict" or, only unstaged,
    "untracked"; None if it does not. `before` is the earlier path of a renamed or copied file.
    """

    path: str
    staged: str | None = None
    unstaged: str | None = None
    before: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)


@dataclass(frozen=True, slots=True)
class GitStatus:
    """The state of a work tree, as `git status` reports it.

    `branch` is None if HEAD is detached, `commit` before the first commit. `ahead` and `behind` count commits
    against `upstream`, the branch of a remote that this one follows, as of the last fetch.
    """

    branch: str | None
    commit: str | None
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    changes: tuple[GitChange, ...] = ()

    @property
    def clean(self) -> bool:
        """True if nothing is changed or untracked."""
        return not self.changes

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {**as_table(self), "changes": [each.as_dict() for each in self.changes]}


@dataclass(frozen=True, slots=True)
class GitBranch:
    """A local branch with its newest commit; `upstream` is the branch of a remote that it follows."""

    name: str
    commit: str
    upstream: str | None = None
    current: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)


@dataclass(frozen=True, slots=True)
class GitCall(Generic[Value]):
    """A program to run, its purpose for an error ("commit in /workspace"), and the reader of its output."""

    argv: tuple[str, ...]
    aim: str
    read: Callable[[bytes], Value]
    env: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)

    def result(self, found: ProgramResult) -> Value:
        """Return the value that the program's output stands for.

        Raises:
            GitFailed: `git` failed, or its output is too long or not of its form.
        """
        if found.timed_out:
            raise GitFailed(f"cannot {self.aim}: it took too long", hint="give a longer timeout")
        if found.exit_code != 0:
            said = [line for line in found.stderr.decode(errors="replace").splitlines() if line.strip()]
            why = plain(_reason(said) or f"git ended with exit code {found.exit_code}")
            raise GitFailed(f"cannot {self.aim}: {why}", hint=_hint(why))
        if found.dropped or found.lost:
            raise GitFailed(f"cannot {self.aim}: git reports more than fits", hint="run `git` with a path")
        return self.read(found.stdout)


def clone(
    url: str, path: str | None = None, branch: str | None = None, depth: int | None = None
) -> GitCall[str]:
    """Return the call for `SessionGit.clone`."""
    place = _humanish(url) if path is None else path
    words = ["git", "clone", "--quiet"]
    words += [] if branch is None else ["--branch", _name(branch, "branch")]
    words += [] if depth is None else ["--depth", str(depth)]
    return GitCall((*words, "--", url, place), f"clone {plain(url, 200)}", lambda _: place)


def init(path: str = ".", branch: str | None = None) -> GitCall[None]:
    """Return the call for `SessionGit.init`."""
    first = [] if branch is None else ["--initial-branch", _name(branch, "branch")]
    return GitCall(
        ("git", "init", "--quiet", *first, "--", path), f"make a repository in {plain(path, 200)}", _nothing
    )


def status(path: str = ".") -> GitCall[GitStatus]:
    """Return the call for `SessionGit.status`: it takes no lock that others would wait for."""
    words = ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
    return _in(path, "read the state of", words, _status)


def diff(path: str = ".", staged: bool = False) -> GitCall[str]:
    """Return the call for `SessionGit.diff`."""
    words = ("--no-optional-locks", "diff", "--no-color", "--no-ext-diff", *(["--cached"] if staged else []))
    return _in(path, "compare the files of", words, lambda told: told.decode("utf-8", "surrogateescape"))


def branches(path: str = ".") -> GitCall[tuple[GitBranch, ...]]:
    """Return the call for `SessionGit.branches`."""
    form = "--format=%(refname:short)%00%(objectname)%00%(upstream:short)%00%(HEAD)"
    return _in(path, "list the branches of", ("for-each-ref", form, "refs/heads"), _branches)


def checkout(branch: str, path: str = ".", create: bool = False) -> GitCall[None]:
    """Return the call for `SessionGit.checkout`."""
    words = ("checkout", "--quiet", *(["-b"] if create else []), _name(branch, "branch"), "--")
    return _in(path, f"check out {plain(branch, 200)} in", words, _nothing)


def add(files: Sequence[str] = (), path: str = ".") -> GitCall[None]:
    """Return the call for `SessionGit.add`."""
    if isinstance(files, str):
        raise InvalidArgument("cannot add these files: a text is given", hint=f"give a list: [{files!r}]")
    return _in(
        path, "add files in", ("--literal-pathspecs", "add", "--all", "--", *(files or ["."])), _nothing
    )


def commit(
    message: str,
    path: str = ".",
    author: str | None = None,
    all: bool = False,  # noqa: A002  (as `git commit --all`)
    allow_empty: bool = False,
) -> GitCall[str]:
    """Return the call for `SessionGit.commit`."""
    words = ["--message", message]
    words += ["--all"] if all else []
    words += ["--allow-empty"] if allow_empty else []
    argv = ("sh", "-c", COMMIT, "git", path, *words)
    aim, who = f"commit in {plain(path, 200)}", {} if author is None else _identity(author)
    return GitCall(argv, aim, lambda told: told.decode("ascii", "replace").strip(), {**ENVIRONMENT, **who})


def _identity(author: str) -> dict[str, str]:
    """Return the variables by which git takes a person for author and committer."""
    if (found := _AUTHOR.fullmatch(author)) is None:
        raise InvalidArgument(
            f"cannot commit as {plain(author, 200)!r}: it is not a name and an address",
            hint="write it as 'Ada Lovelace <ada@example.org>'",
        )
    roles = ("GIT_AUTHOR", "GIT_COMMITTER")
    return {
        f"{role}_{part}": text
        for role in roles
        for part, text in zip(("NAME", "EMAIL"), found.groups(), strict=True)
    }


def pull(path: str = ".", remote: str | None = None, branch: str | None = None) -> GitCall[None]:
    """Return the call for `SessionGit.pull`."""
    return _in(path, "pull into", ("pull", "--quiet", "--no-edit", *_place(remote, branch)), _nothing)


def push(
    path: str = ".", remote: str | None = None, branch: str | None = None, set_upstream: bool = False
) -> GitCall[None]:
    """Return the call for `SessionGit.push`."""
    follow = ["--set-upstream"] if set_upstream else []
    return _in(path, "push from", ("push", "--quiet", *follow, *_place(remote, branch)), _nothing)


def _in(path: str, aim: str, words: Sequence[str], read: Callable[[bytes], Value]) -> GitCall[Value]:
    return GitCall(("git", "-C", path, *words), f"{aim} {plain(path, 200)}", read)


def _place(remote: str | None, branch: str | None) -> list[str]:
    if remote is None:
        if branch is None:
            return []
        remote = "origin"
    return ["--", _name(remote, "remote"), *([] if branch is None else [_name(branch, "branch")])]


def _name(text: str, what: str) -> str:
    """Return a name that `git` takes for no option."""
    if not text or text.startswith("-"):
        raise InvalidArgument(f"cannot use {plain(text, 200)!r} as a {what}: a name does not begin with '-'")
    return text


def _humanish(url: str) -> str:
    """Return the folder that `git clone` makes for a URL: git-clone(1), directory."""
    name = re.sub(r"(/*\.git)?/*$", "", url).rpartition("/")[2].rpartition(":")[2]
    if name in ("", ".", ".."):
        raise InvalidArgument(
            f"cannot clone {plain(url, 200)}: it has no name", hint="give the folder: path="
        )
    return name


def _nothing(_told: bytes) -> None:
    """Return None: the output does not matter."""


def _status(told: bytes) -> GitStatus:
    heads: dict[str, str] = {}
    found: list[GitChange] = []
    lines = iter(told.decode("utf-8", "surrogateescape").split("\0"))
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            heads[name] = value
        elif kind == "?":
            found.append(GitChange(rest, unstaged="untracked"))
        elif kind in ("1", "2", "u"):
            found.append(_changed(kind, line, lines))
    counts = re.fullmatch(r"\+(\d{1,9}) -(\d{1,9})", heads.get("branch.ab", "+0 -0"))
    if counts is None:
        raise _unreadable()
    branch, commit = heads.get("branch.head", ""), heads.get("branch.oid", "")
    return GitStatus(
        branch=None if branch in ("", "(detached)") else branch,
        commit=commit if re.fullmatch(r"[0-9a-f]{40,64}", commit) else None,
        upstream=heads.get("branch.upstream"),
        ahead=int(counts[1]),
        behind=int(counts[2]),
        changes=tuple(found),
    )


def _changed(kind: str, line: str, later: Iterator[str]) -> GitChange:
    """Return a change of a tracked file; a renamed one has its earlier path in the next piece."""
    before = {"1": _SHORT, "2": _RENAMED, "u": _UNMERGED}[kind]
    fields = line.split(" ", before)
    if len(fields) <= before or len(fields[1]) != 2:
        raise _unreadable()
    staged, unstaged = (CHANGES.get(each) for each in fields[1])
    if kind == "u":
        staged = unstaged = CHANGES["U"]
    return GitChange(fields[before], staged, unstaged, next(later, "") if kind == "2" else None)


def _branches(told: bytes) -> tuple[GitBranch, ...]:
    found = []
    for line in told.decode("utf-8", "surrogateescape").splitlines():
        fields = line.split("\0")
        if len(fields) != 4:
            raise _unreadable()
        name, commit, upstream, head = fields
        found.append(GitBranch(name, commit, upstream or None, head == "*"))
    return tuple(found)


def _unreadable() -> GitFailed:
    return GitFailed("cannot read what git reports: it has an unexpected format", hint="run `git` by itself")


def _reason(said: Sequence[str]) -> str:
    """Return the line that says why: the first of a failure, or else the last one."""
    told = (line for line in said if line.startswith(("fatal: ", "error: ")))
    return next(told, said[-1] if said else "").removeprefix("fatal: ").removeprefix("error: ")


def _hint(why: str) -> str:
    if "could not read Username" in why or "could not read Password" in why or "Authentication failed" in why:
        return "give the session a token as a secret, and git a helper that reads it (docs/secrets.md)"
    if "Author identity unknown" in why or "identity" in why or "empty ident" in why:
        return "give author='Name <address>', or set user.name and user.email"
    return ""

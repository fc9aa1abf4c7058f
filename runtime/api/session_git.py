"""The Git repositories of a session, worked with by the session's own `git`.

Everything runs in the session, as its user: nothing of a repository is read or run by the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.runtime.api import git_calls
from holdfast.runtime.api.git_calls import GitBranch, GitCall, GitStatus, Value
from holdfast.runtime.api.running_program import SessionPrograms

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel


class SessionGit:
    """Git in one session. Relative paths begin in the directory of its shell.

    No one is asked for a password: a repository that needs one takes a secret (docs/secrets.md). Each method
    raises GitFailed with the reason that `git` gave, and InvalidArgument if the session has no `git`.
    """

    def __init__(self, line: SessionChannel) -> None:
        self._programs = SessionPrograms(line)

    def clone(
        self,
        url: str,
        path: str | None = None,
        *,
        branch: str | None = None,
        depth: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """Clone a repository, and return its folder.

        Args:
            url: its address, or a path in the session.
            path: the folder, by default the last part of the address.
            branch: the branch or tag to check out.
            depth: the number of newest commits to fetch, by default all.
            timeout: seconds after which it fails.
        """
        return self._do(git_calls.clone(url, path, branch, depth), timeout)

    def init(self, path: str = ".", *, branch: str | None = None) -> None:
        """Make a repository in a folder, which is made too; `branch` is the name of its first branch."""
        self._do(git_calls.init(path, branch))

    def status(self, path: str = ".") -> GitStatus:
        """Return the branch and the changed files of a repository, without changing anything in it."""
        return self._do(git_calls.status(path))

    def diff(self, path: str = ".", *, staged: bool = False) -> str:
        """Return the changes of tracked files as a patch: not yet added ones, or with `staged` added ones."""
        return self._do(git_calls.diff(path, staged))

    def branches(self, path: str = ".") -> tuple[GitBranch, ...]:
        """Return the local branches of a repository, by name."""
        return self._do(git_calls.branches(path))

    def checkout(self, branch: str, path: str = ".", *, create: bool = False) -> None:
        """Check out a branch, tag or commit; with `create` a new branch at the current commit."""
        self._do(git_calls.checkout(branch, path, create))

    def add(self, files: Sequence[str] = (), path: str = ".") -> None:
        """Add changed, new and deleted files to the next commit: these, or all below `path`."""
        self._do(git_calls.add(files, path))

    def commit(
        self,
        message: str,
        path: str = ".",
        *,
        author: str | None = None,
        all: bool = False,  # noqa: A002  (as `git commit --all`)
        allow_empty: bool = False,
    ) -> str:
        """Commit the added changes, and return the id of the commit.

        Args:
            message: its message.
            path: a folder of the repository.
            author: `Name <address>` of author and committer, by default as git is configured.
            all: also the changes of tracked files that were not added.
            allow_empty: also without a change.
        """
        return self._do(git_calls.commit(message, path, author, all, allow_empty))

    def pull(
        self,
        path: str = ".",
        *,
        remote: str | None = None,
        branch: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Fetch commits of a remote and integrate them, as git is configured; `timeout` is in seconds.

        The remote is by default that of the branch, or `origin` if a branch is given.
        """
        self._do(git_calls.pull(path, remote, branch), timeout)

    def push(
        self,
        path: str = ".",
        *,
        remote: str | None = None,
        branch: str | None = None,
        set_upstream: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Send commits to a remote, by default as `pull` chooses it; `timeout` is in seconds.

        With `set_upstream` the branch follows the remote one from then on.
        """
        self._do(git_calls.push(path, remote, branch, set_upstream), timeout)

    def _do(self, call: GitCall[Value], timeout: float | None = None) -> Value:
        return call.result(self._programs.run(call.argv, env=call.env, timeout=timeout))

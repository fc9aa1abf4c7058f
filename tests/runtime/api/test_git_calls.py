"""The words of Git's calls, and the reading of its output, byte by byte as git-status(1) describes it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import GitFailed, InvalidArgument
from holdfast.runtime.api import git_calls
from holdfast.runtime.api.git_calls import GitBranch, GitCall, GitChange, GitStatus
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult

ONE, TWO = "1" * 40, "2" * 40


def ended(
    stdout: bytes = b"",
    code: int | None = 0,
    stderr: bytes = b"",
    *,
    timed_out: bool = False,
    dropped: int = 0,
) -> ProgramResult:
    info = ProgramInfo(
        *("p1", "", ("git",), "/", "root", "user:a", 7, "exited", code, None, None, 0, 0, 0, 0.1)
    )
    return ProgramResult(info, stdout, stderr, timed_out, dropped)


def test_every_kind_of_change_is_read() -> None:
    """Names keep blanks, newlines and invalid UTF-8; a renamed file has both of its paths."""
    pieces = [
        f"# branch.oid {ONE}",
        "# branch.head topic/a",
        "# branch.upstream origin/topic/a",
        "# branch.ab +2 -31",
        "# stash 4",
        f"1 M. N... 100644 100644 100644 {ONE} {TWO} a b",
        f"1 .D N... 100644 100644 000000 {ONE} {TWO} gone",
        f"2 R. N... 100644 100644 100644 {ONE} {TWO} R100 new name",
        "old\nname",
        f"u UU N... 100644 100644 100644 100644 {ONE} {TWO} {ONE} both sides",
        "? caf\udce9",
        "! ignored",
        "",
    ]
    told = "\0".join(pieces).encode("utf-8", "surrogateescape")
    found = git_calls.status("/w").result(ended(told))
    assert found == GitStatus(
        *("topic/a", ONE, "origin/topic/a", 2, 31),
        changes=(
            GitChange("a b", "modified"),
            GitChange("gone", None, "deleted"),
            GitChange("new name", "renamed", None, "old\nname"),
            GitChange("both sides", "conflict", "conflict"),
            GitChange("caf\udce9", None, "untracked"),
        ),
    )
    assert not found.clean
    assert found.as_dict()["changes"][0]["staged"] == "modified"


def test_new_and_detached_repositories() -> None:
    """There is no commit before the first one, and no branch where HEAD is detached."""
    new = git_calls.status().result(ended(b"# branch.oid (initial)\0# branch.head main\0"))
    assert (new.branch, new.commit, new.upstream, new.clean) == ("main", None, None, True)
    detached = git_calls.status().result(ended(f"# branch.oid {TWO}\0# branch.head (detached)\0".encode()))
    assert (detached.branch, detached.commit) == (None, TWO)


def test_branches_are_read() -> None:
    told = f"main\0{ONE}\0origin/main\0*\nside\0{TWO}\0\0 \n".encode()
    assert git_calls.branches().result(ended(told)) == (
        GitBranch("main", ONE, "origin/main", current=True),
        GitBranch("side", TWO),
    )
    assert git_calls.branches().result(ended()) == ()


HOSTILE = {
    "counts": b"# branch.ab many\0",
    "huge": b"# branch.ab +99999999999999999999 -0\0",
    "short": b"1 M. N...\0",
    "letters": b"1 MMM N... 1 1 1 a b path\0",
}


@pytest.mark.parametrize("told", HOSTILE.values(), ids=HOSTILE)
def test_output_of_an_unexpected_format_is_an_error(told: bytes) -> None:
    """A session's `git` can be any program."""
    with pytest.raises(GitFailed, match="unexpected format"):
        git_calls.status().result(ended(told))
    with pytest.raises(GitFailed, match="unexpected format"):
        git_calls.branches().result(ended(b"one\n"))


@pytest.mark.parametrize(
    ("found", "said", "hint"),
    [
        pytest.param(
            ended(code=128, stderr=b"hint: a\nfatal: not a git repository\nmore\n"),
            "cannot read the state of /w: not a git repository",
            "",
            id="fatal",
        ),
        pytest.param(
            ended(code=1), "cannot read the state of /w: git ended with exit code 1", "", id="silent"
        ),
        pytest.param(
            ended(code=128, stderr=b"fatal: could not read Username for 'https://x'\n"),
            "cannot read the state of /w: could not read Username for 'https://x'",
            "secret",
            id="password",
        ),
        pytest.param(
            ended(code=1, stderr=b"\x1b[31mlost\x07\xff\n"),
            "cannot read the state of /w: [31mlost",
            "",
            id="bytes",
        ),
        pytest.param(
            ended(code=None, timed_out=True),
            "cannot read the state of /w: it took too long",
            "timeout",
            id="time",
        ),
        pytest.param(
            ended(dropped=9), "cannot read the state of /w: git reports more than fits", "path", id="much"
        ),
    ],
)
def test_failures_are_one_line(found: ProgramResult, said: str, hint: str) -> None:
    """The reason is git's own, without control characters."""
    with pytest.raises(GitFailed) as error:
        git_calls.status("/w").result(found)
    assert str(error.value).startswith(said)
    assert "\x1b" not in str(error.value)
    assert hint in error.value.hint


def test_arguments_are_no_options() -> None:
    """A name of the caller's is never an option of git, such as `--upload-pack`, which runs a program."""
    for make in (
        lambda: git_calls.checkout("--orphan"),
        lambda: git_calls.clone("/w", branch="-x"),
        lambda: git_calls.init("/w", "-x"),
        lambda: git_calls.push("/w", remote="--receive-pack=true"),
        lambda: git_calls.pull("/w", branch="--upload-pack=true"),
        lambda: git_calls.checkout(""),
    ):
        with pytest.raises(InvalidArgument, match="does not begin with '-'"):
            make()
    calls: list[GitCall[Any]] = [git_calls.clone("--upload-pack=true", "-to"), git_calls.add(["--force"])]
    assert [call.argv[call.argv.index("--") :] for call in calls] == [
        ("--", "--upload-pack=true", "-to"),
        ("--", "--force"),
    ]
    with pytest.raises(InvalidArgument, match="a text is given"):
        git_calls.add("file")


def test_the_folder_of_a_clone_is_that_of_git() -> None:
    """As git-clone(1) names it: the last part of the address."""
    named = {
        "https://example.org/a/b.git": "b",
        "https://example.org/a/b.git/": "b",
        "https://example.org/a/b/": "b",
        "git@example.org:b.git": "b",
        "/srv/b/.git": "b",
    }
    assert {url: git_calls.clone(url).argv[-1] for url in named} == named
    with pytest.raises(InvalidArgument, match="it has no name"):
        git_calls.clone("/")


def test_an_author_is_a_name_and_an_address() -> None:
    call = git_calls.commit("a", author="Ada Lovelace <ada@example.org>")
    assert call.env["GIT_AUTHOR_NAME"] == call.env["GIT_COMMITTER_NAME"] == "Ada Lovelace"
    assert call.env["GIT_COMMITTER_EMAIL"] == "ada@example.org"
    with pytest.raises(InvalidArgument, match="not a name and an address"):
        git_calls.commit("a", author="Ada")

"""Git in real sessions, in process and over a URL: clones, commits, pushes, and what git refuses."""

from __future__ import annotations

import pytest

from holdfast.errors import GitFailed
from holdfast.runtime.api.session import Session

ADA = "Ada <ada@example.org>"
CLOSED = """
import http.server
class Closed(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=a")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 8099), Closed).serve_forever()
"""
"""A server that asks who is there."""


@pytest.fixture
def place(work: Session) -> str:
    """A new folder in the session, which other tests use too."""
    return work.run(["mktemp", "-d"]).text.strip()


def test_work_goes_from_a_clone_to_its_origin_and_back(work: Session, place: str) -> None:
    """A change is made in one clone, pushed, and pulled into another one."""
    git, files = work.git, work.files
    origin, one, two = (f"{place}/{name}" for name in ("origin.git", "one", "two"))
    work.run(["git", "init", "--quiet", "--bare", "--initial-branch", "main", origin])
    assert git.clone(origin, one) == one
    assert (git.status(one).branch, git.status(one).commit) == ("main", None)
    files.write(f"{one}/ä b", "1\n")
    assert [(each.path, each.unstaged) for each in git.status(one).changes] == [("ä b", "untracked")]
    git.add(path=one)
    first = git.commit("First\n\n--all", one, author=ADA)
    assert git.status(one).commit == first
    told = work.run(["git", "-C", one, "log", "--format=%an %ce %s %b"])
    assert told.text.split() == ["Ada", "ada@example.org", "First", "--all"]
    git.push(one, branch="main", set_upstream=True)
    assert git.clone(f"file://{origin}", two, branch="main", depth=1) == two

    git.checkout("side", one, create=True)
    assert [(each.name, each.current) for each in git.branches(one)] == [("main", False), ("side", True)]
    git.checkout("main", one)
    files.write(f"{one}/ä b", "2\n")
    assert "-1\n+2\n" in git.diff(one)
    git.add(["ä b"], one)
    assert (git.diff(one), "-1\n+2\n" in git.diff(one, staged=True)) == ("", True)
    second = git.commit("Second", one, author=ADA)
    assert git.status(one).ahead == 1
    git.push(one, timeout=60)
    assert git.status(one).ahead == 0
    git.pull(two)
    assert (git.status(two).commit, files.read(f"{two}/ä b")) == (second, b"2\n")


def test_refusals_of_git_are_errors_with_its_reason(work: Session, place: str) -> None:
    """Nothing waits for an answer: neither a password nor an editor."""
    git, empty = work.git, f"{place}/empty"
    with pytest.raises(GitFailed, match="cannot read the state of /usr: not a git repository"):
        git.status("/usr")
    git.init(empty, branch="trunk")
    assert git.status(empty).branch == "trunk"
    with pytest.raises(GitFailed, match=f"cannot check out none in {empty}: "):
        git.checkout("none", empty)
    with pytest.raises(GitFailed, match=f"cannot commit in {empty}: "):
        git.commit("Nothing", empty, author=ADA)
    assert git.status(empty).commit is None
    commit = git.commit("Nothing", empty, author=ADA, allow_empty=True)
    assert git.status(empty).commit == commit
    program = work.programs.start(["python3", "-c", CLOSED])
    try:
        work.wait_port(8099)
        with pytest.raises(GitFailed, match="could not read Username") as error:
            git.clone("http://127.0.0.1:8099/private.git", f"{place}/private")
    finally:
        program.signal("KILL")
    assert "secret" in error.value.hint

"""The failure record and the summary of a job."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from holdfast.runtime.ci import failure_record, job_summary
from holdfast.runtime.ci.job_summary import KeptCapture, Summary
from holdfast.runtime.ci.watched_command import WatchedOutcome
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.snapshots.failure import Failure


def ended(code: int | None = 1, **more: object) -> WatchedOutcome:
    return WatchedOutcome(ExecResult(code, b"", 0, 0, **more))  # type: ignore[arg-type]


PYTEST = """
    def test_a():
>       assert 1 == 2
E       assert 1 == 2

tests/test_x.py:2: AssertionError
=== short test summary info ===
FAILED tests/test_x.py::test_a[b-1] - assert 1 == 2
=== 1 failed, 3 passed in 0.01s ===
"""
TRACEBACK = """Traceback (most recent call last):
  File "/workspace/main.py", line 3, in <module>
    f()
  File "/workspace/lib.py", line 12, in f
    raise ValueError("no")
ValueError: no
"""


@pytest.mark.parametrize(
    ("output", "where", "message"),
    [
        (PYTEST, "tests/test_x.py::test_a[b-1]", "assert 1 == 2"),
        (TRACEBACK, "/workspace/lib.py:12", "ValueError: no"),
        ("src/a.c:3:7: error: expected ';'\nmake: *** [all] Error 1\n", "src/a.c:3:7", "expected ';'"),
        ("--- FAIL: TestParse (0.00s)\nFAIL\n", "TestParse", ""),
        ("thread 'main' panicked at src/main.rs:4:5:\n", "src/main.rs:4", ""),
        ("ERROR tests/test_y.py - SyntaxError: bad\n", "tests/test_y.py", "SyntaxError: bad"),
        ("all is well\n", None, ""),
    ],
)
def test_the_place_of_a_failure_is_read_from_the_output(output: str, where: str | None, message: str) -> None:
    """In the forms of the tools."""
    assert failure_record.place(output) == (where, message)


@pytest.mark.parametrize(
    ("watched", "code"),
    [
        (ended(3), 3),
        (ended(137, signal=9), 137),
        (ended(None, signal=15), 143),
        (ended(None, shell_exited=True), 1),
        (WatchedOutcome(None, "timeout"), 124),
        (WatchedOutcome(None, "standstill"), 124),
        (WatchedOutcome(None, "waiting", State("waiting", "line")), 75),
    ],
)
def test_the_exit_code_is_the_commands_or_says_why_it_was_stopped(watched: WatchedOutcome, code: int) -> None:
    """128+n after a signal, 124 if stopped, 75 if it waits."""
    assert failure_record.exit_code(watched) == code


def of(watched: WatchedOutcome, tail: bytes = b"") -> Failure:
    return failure_record.of("make", watched, tail, None, seconds=61.0)


def test_a_record_says_how_it_failed() -> None:
    """By its own output, a signal, its timeout, or its question."""
    failed = of(ended(2), b"\x1b[31mFAILED a.py::b - boo\x1b[0m\r\n")
    assert (failed.reason, failed.where, failed.message) == ("failed", "a.py::b", "boo")
    assert failed.exit_code == 2
    assert "\x1b" not in failed.tail
    assert of(ended(137, signal=9)).message == "ended by signal 9"
    late = of(WatchedOutcome(None, "timeout"))
    assert (late.reason, late.exit_code, late.message) == ("timeout", None, "it had not ended after 61 s")
    asks = of(WatchedOutcome(None, "waiting", State("waiting", "password", 7, "ssh", prompt="Password: ")))
    assert asks.reason == "hang"
    assert asks.message.startswith("ssh (pid 7) waits for a password ('Password: ')")
    assert asks.debugger is not None
    assert asks.debugger.program == "ssh"
    assert of(WatchedOutcome(None, "standstill")).reason == "hang"


def test_the_address_of_a_job_is_known() -> None:
    """For the usual CI systems."""
    github = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"}
    assert failure_record.job_of(github) == "https://github.com/a/b/actions/runs/7"
    assert failure_record.job_of({"CI_JOB_URL": "https://gitlab/1"}) == "https://gitlab/1"
    assert failure_record.job_of({}) is None


HOSTILE = Failure(
    reason="failed",
    command="echo '| </code> <script>` | x'",
    message="[click](http://evil) <b>`",
    where="a|b",
    tail="````\n</details><img src=x>\n```",
    exit_code=1,
)


def test_a_summary_names_the_failure_and_the_thaw_command() -> None:
    """Command, message, place, the command that thaws, the end of the output."""
    told = Summary(
        Failure(
            reason="failed", command="pytest -x", exit_code=1, where="t.py::a", tail="boo", pulse="shell"
        ),
        1,
        12.3,
        (KeptCapture("t", "holdfast thaw out/failure.holdfast", 20_000_000),),
    ).markdown()
    for part in ("## t.py::a failed with 1", "<code>pytest -x</code>", "| exit code | 1 |", "ran for | 12 s"):
        assert part in told
    assert "```sh\nholdfast thaw out/failure.holdfast\n```" in told
    assert "(20 MB)" in told
    assert "boo" in told


def test_several_captures_are_a_table() -> None:
    """Each test that was captured has its row; too many are counted."""
    kept = tuple(KeptCapture(f"test-{n}", f"holdfast thaw {n}.holdfast") for n in range(60))
    told = Summary(Failure(reason="failed", command="x"), 1, 1.0, kept).markdown()
    assert "| test-49 | <code>holdfast thaw 49.holdfast</code> |" in told
    assert "test-50" not in told
    assert "and 10 more" in told


def test_the_record_says_why_nothing_was_captured() -> None:
    """No one is left to guess."""
    told = Summary(Failure(reason="hang", command="x"), 124, 1.0, not_kept="io_uring is in use").markdown()
    assert "**Not captured alive:** io\\_uring is in use" in told
    assert "Thaw it" not in told


def test_output_of_programs_is_never_markdown_or_html() -> None:
    """No link, no tag, no cell of a table, no end of a fence comes from outside."""
    told = Summary(HOSTILE, 1, 1.0, not_kept=HOSTILE.message).markdown()
    outside = re.sub(r"^(`{3,}).*?^\1$", "", told, flags=re.DOTALL | re.MULTILINE)
    assert "<script>" not in outside
    assert "<img" not in outside
    assert "](" not in outside
    rows = [line for line in outside.splitlines() if line.startswith("| ")]
    assert all(re.fullmatch(r"\|[^|]*\|[^|]*\|", row.replace("\\|", "")) for row in rows if row != "| | |")
    assert told.count("`````") == 2


LINKED = (
    *(
        "https://evil.example/x",
        "HTTP://evil.example",
        "ftp://evil.example",
        "www.evil.example",
        "WWW.evil.example",
    ),
    *(
        "someone@evil.example",
        "@team",
        "@org/team",
        "a@b",
        "owner/repo#1",
        "#12",
        "GH-12",
        "gh-12",
        "!34",
        "$5",
    ),
    *("~bug", '~"two words"', "%milestone", "%3", "&7", "^alert#8", '*iteration:"x"', "[vulnerability:9]"),
    *(
        "mailto:a@b.example",
        "xmpp:a@b.example",
        "irc://evil.example",
        "<https://evil.example>",
        "x@0123456789abcdef",
    ),
)
# What GitHub and GitLab would make a link of in a text of its own.
LINKS = re.compile(
    r"\w+://|www\.\w|@\w|#\d|(?:^|\W)(?:[#!$%&]\d|gh-\d|[~%][\w\"]|\^alert|\*iteration:|\[\w+:)",
    re.IGNORECASE,
)


class _Texts(HTMLParser):
    """Pieces of text between tags; both leave preformatted text alone."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._fenced = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag not in ("a", "img")
        self._fenced += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        self._fenced -= tag == "pre"

    def handle_data(self, data: str) -> None:
        if not self._fenced:
            self.found.append(data)


@pytest.mark.parametrize("text", LINKED)
def test_output_of_programs_never_becomes_a_link(text: str) -> None:
    """No address is live, and no one is mentioned by name; the shown text is the same."""
    record_ = Failure(
        reason="failed", command=text, message=text, where=text, tail=text, job=text, revision=text
    )
    kept = tuple(KeptCapture(text, f"holdfast thaw '{text}'") for _ in range(2))
    told = Summary(record_, 1, 1.0, kept, text, (text,)).markdown()
    page = _Texts()
    page.feed(MarkdownIt("commonmark").enable("table").render(told))
    page.close()

    assert LINKS.search(f" {text}")
    assert [piece for piece in page.found if LINKS.search(piece)] == []
    assert "".join(page.found).count(text) >= 9


def test_a_summary_is_bounded() -> None:
    """However much was written."""
    record_ = Failure(reason="failed", command="x" * 10_000, tail="y\n" * 100_000, pulse="z\n" * 9_000)
    assert len(Summary(record_, 1, 1.0).markdown()) < job_summary.MOST + 100

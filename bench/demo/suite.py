"""The real input: a released package, installed from its source release, and its test suite.

networkx is pure Python, its source release holds its tests, and those used here run for about 20 s.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.demo.narrator import CheckFailed
from holdfast import ExecResult, HoldfastError, Session

PACKAGE = "networkx"
VERSION = "3.5"
FOLDER = f"/workspace/{PACKAGE}-{VERSION}"
RELEASE = f"{PACKAGE}-{VERSION}.tar.gz"
# The runner of the suite, and the packages it needs so that nothing is skipped; also for the kernel's array.
TOOLS = "pytest==8.4.2 numpy==2.3.5"
# Its data structures, its file formats and the first of its algorithms; the rest would take a minute more.
TESTS = "networkx/classes networkx/readwrite networkx/algorithms/tests"
COMMAND = f"python -m pytest {TESTS} --color=no --disable-warnings -p no:cacheprovider"

# Generous: another program may have the processors.
PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.1

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PERCENT = re.compile(r"\[ *(\d+)%\]")
_COLLECTED = re.compile(r"collected \d+ items")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
_TIME = re.compile(r" in \d+\.\d+s( \([\d:]+\))?")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run of the suite.

    `report` is its output from the first test on, without times; `starts` how often pytest began in it.
    """

    passed: int
    seconds: float
    report: str
    starts: int

    @classmethod
    def of(cls, result: ExecResult) -> Outcome:
        """Read the end of a run.

        Raises:
            CheckFailed: tests failed, or it did not come to its end.
        """
        lines = [line.rstrip() for line in result.text.splitlines() if line.strip()]
        last = lines[-1] if lines else "nothing at all"
        counts = {what: int(number) for number, what in _COUNT.findall(last)}
        if not result.ok or set(counts) != {"passed"}:
            raise CheckFailed(f"the test suite ended with {result.exit_code}: {last.strip('= ')}")
        # The rule around the last line is shortened by the length of the time.
        lines[-1] = _TIME.sub("", last).strip("= ")
        # While pytest collects it counts on the screen, in steps that depend on the time.
        first = max((at for at, line in enumerate(lines) if _COLLECTED.search(line)), default=0)
        starts = sum("test session starts" in line for line in lines)
        return cls(counts["passed"], result.duration, "\n".join(lines[first + 1 :]), starts)


def install(session: Session, say: Callable[[str], None]) -> int:
    """Fetch the source release, unpack it, install it and its tools; return its size in bytes.

    Raises:
        CheckFailed: that did not work.
    """
    say(f"fetching and installing {RELEASE}, {' and '.join(TOOLS.split())} in it")
    for what, command in (
        ("fetch", f"pip --no-color download -q --no-deps --no-binary :all: {PACKAGE}=={VERSION}"),
        ("unpack", f"tar xf {RELEASE}"),
        ("install", f"pip --no-color install -q ./{PACKAGE}-{VERSION} {TOOLS}"),
    ):
        done = session.exec(command, timeout=PATIENCE_SECONDS)
        if not done.ok:
            said = [plain(line) for line in done.text.splitlines() if plain(line)]
            raise CheckFailed(
                f"cannot {what} {PACKAGE} in the session: {said[-1] if said else 'no reason given'}"
            )
    return int(session.exec(f"stat -c %s {RELEASE}").text)


class Run:
    """A run of the suite in the shell of a session, followed by a thread.

    `joined` is the id of the command when the run was captured halfway and continues in this session.
    """

    def __init__(self, session: Session, joined: str | None = None) -> None:
        self.session = session
        self._joined = joined
        self._text = ""
        self._result: ExecResult | None = None
        self._error: HoldfastError | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def percent(self) -> int:
        """The finished percentage, according to its output."""
        found = _PERCENT.findall(self._text)
        return int(found[-1]) if found else 0

    def wait(self, show: Callable[[int], None], *, until: int = 101) -> None:
        """Wait until this percentage is done, or all of it.

        Raises:
            CheckFailed: it takes too long.
            HoldfastError: it cannot be followed.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._thread.is_alive() and self.percent < until:
            self._thread.join(_LOOK_SECONDS)
            show(self.percent)
            if time.monotonic() > deadline:
                raise CheckFailed(f"the test suite is at {self.percent} % after {PATIENCE_SECONDS:.0f} s")
        if self._error is not None:
            raise self._error

    def outcome(self) -> Outcome:
        """Return its outcome, once it has ended.

        Raises:
            CheckFailed: tests failed, or it did not come to its end.
        """
        if self._result is None:
            raise CheckFailed("the test suite has not ended")
        return Outcome.of(self._result)

    def end(self) -> HoldfastError | None:
        """Return the error that ended the following, once the session is gone."""
        self._thread.join(PATIENCE_SECONDS)
        return self._error

    def _follow(self) -> None:
        try:
            if self._joined is None:
                self._result = self.session.exec(COMMAND, on_bytes=self._take, timeout=PATIENCE_SECONDS)
            else:
                self._result = self.session.join(self._joined, on_bytes=self._take)
        except HoldfastError as error:
            self._error = error

    def _take(self, data: bytes) -> None:
        self._text = (self._text + data.decode("utf-8", "replace"))[-4096:]


def plain(line: str) -> str:
    """Return a line without terminal sequences."""
    return _ESCAPES.sub("", line).strip()


def first_difference(one: str, other: str) -> str:
    """Return the first difference of two reports, for people."""
    for left, right in zip(one.splitlines(), other.splitlines(), strict=False):
        if left != right:
            return f"{left!r}, then {right!r}"
    return f"{len(one.splitlines())} lines, then {len(other.splitlines())}"

"""pytest --holdfast: a failing test is captured at the frame that failed, and the run continues.

Nothing else happens in the run itself. In every copy of the snapshot the run is paused at the failing test,
its fixtures up, its files and servers as they were, and a post-mortem debugger waits at the terminal. With
xdist, the worker that failed does all that; the others are stopped before the capture, and stay so in copies.

It is self-contained, for Python 3.9 and pytest 7.4 and newer: a session has it where Python finds it. The
capture is `holdfast_session.capture`. Passing tests cost nothing: only failures have hooks.
"""

from __future__ import annotations

import bdb
import contextlib
import fcntl
import functools
import importlib
import inspect
import os
import shlex
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

import pytest

REFERENCE = "holdfast-snapshot"
"""Property of a test's reports: the reference of its snapshot."""
REFUSED = "holdfast-not-captured"
"""Property of a test's reports: the reason for a missing snapshot."""
MOST = 5
OUTSIDE = (
    "--holdfast only captures tests in a Holdfast session: "
    "use `holdfast ci run -- pytest --holdfast` or `holdfast exec SESSION 'pytest --holdfast'`"
)
_LONGEST = 2000
_TAIL = 8000
_WORKER = ".worker"
_ENDING = (pytest.exit.Exception, KeyboardInterrupt, GeneratorExit, bdb.BdbQuit)
_SHARED = "/opt/holdfast/python"
"""Folder of a session with modules for Pythons that do not see the system's packages."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("holdfast", "captures of failing tests (Holdfast)")
    group.addoption(
        "--holdfast",
        action="store_true",
        help="capture the session at each failing test; a thawed copy waits there in a debugger (--pdbcls)",
    )
    group.addoption(
        "--holdfast-max",
        type=int,
        default=MOST,
        metavar="N",
        help=f"capture at most this many failing tests per run; {MOST} by default",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch for failures, if the option is set."""
    if not config.getoption("holdfast") or config.getoption("collectonly"):
        return
    if config.getoption("usepdb"):
        raise pytest.UsageError(
            "--holdfast opens the debugger in copies of the run, --pdb in the run: use one"
        )
    session = _session()
    if session is None:
        raise pytest.UsageError(OUTSIDE)
    reporter = None
    if hasattr(config, "workerinput"):
        value = config.workerinput["holdfast"]
        folder, command = Path(value["folder"]), value["command"]
        (folder / f"{os.getpid()}{_WORKER}").touch()
    else:
        folder, command = Path(tempfile.mkdtemp(prefix="holdfast-pytest-")), _command(config)
        reporter = CaptureReporter(folder)
        config.pluginmanager.register(reporter, "holdfast-reporter")
    capturing = TestCaptures(config, session, folder, command, reporter)
    config.pluginmanager.register(capturing, "holdfast-capturing")


def _session() -> ModuleType | None:
    """Return the module that captures, if this is a session that can be captured."""
    try:
        found = importlib.import_module("holdfast_session")
    except ImportError:
        sys.path.append(_SHARED)
        try:
            found = importlib.import_module("holdfast_session")
        except ImportError:
            return None
        finally:
            sys.path.remove(_SHARED)
    try:
        found.identity()
    except (OSError, ValueError):
        return None
    return found if hasattr(found, "capture") else None


def _command(config: pytest.Config) -> str:
    return " ".join(["pytest", *map(str, config.invocation_params.args)])


class CaptureReporter:
    """The reporter of the process that started the run: prints the captures. Its `folder` is the run's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[str, list[tuple[str, str]]] = {}

    def note(self, test: str, name: str, value: str) -> None:
        """Remember the result for a test that failed."""
        self._found.setdefault(test, []).append((name, value))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker of xdist the shared data, and collect its captures."""
        if not node.config.pluginmanager.hasplugin("holdfast-hearing"):
            node.config.pluginmanager.register(WorkerCaptures(self), "holdfast-hearing")
        node.workerinput["holdfast"] = {"folder": str(self.folder), "command": _command(node.config)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Resume workers that the ending one possibly stopped for a capture."""
        _signal(_workers(self.folder, os.getpid()), signal.SIGCONT)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how to thaw each capture."""
        if not self._found:
            return
        terminalreporter.section("holdfast")
        for test, lines in self._found.items():
            for name, value in lines:
                said = _thaw(value) if name == REFERENCE else f"not captured: {value}"
                terminalreporter.write_line(f"{test}  {said}")

    def pytest_unconfigure(self) -> None:
        """Remove the data that the processes of the run shared."""
        shutil.rmtree(self.folder, ignore_errors=True)


class WorkerCaptures:
    """Collects the captures of workers from their reports."""

    def __init__(self, reporter: CaptureReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Check the last report of a test."""
        if report.user_properties and report.when == "teardown":
            for name, value in report.user_properties:
                if name in (REFERENCE, REFUSED):
                    self._reporter.note(report.nodeid, name, str(value))


def _thaw(reference: str) -> str:
    """Return the command that restores a snapshot; an id names a snapshot on the same host."""
    known = len(reference) == 12 and all(digit in "0123456789abcdef" for digit in reference)
    return f"holdfast restore {reference}" if known else f"holdfast thaw {shlex.quote(reference)}"


class CaptureTurns:
    """Limits a run to one capture at a time among all its processes, and to a total number."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def mine(self, most: int) -> Iterator[bool]:
        """Wait for a turn; yield False if the limit is reached."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            allowed = os.fstat(fd).st_size < most
            if allowed:
                os.pwrite(fd, b".", os.fstat(fd).st_size)
            yield allowed
        finally:
            os.close(fd)


class TestCaptures:
    """Captures tests that fail in this process. In a worker of xdist there is no `reporter`."""

    def __init__(
        self,
        config: pytest.Config,
        session: ModuleType,
        folder: Path,
        command: str,
        reporter: CaptureReporter | None,
    ) -> None:
        self._reporter = reporter
        self._config = config
        self._command = command
        self._session: Any = session
        self._folder = folder
        self._turns = CaptureTurns(folder / "turns")
        self._most: int = config.getoption("holdfast_max")
        self._worker = hasattr(config, "workerinput")
        self._unavailable = ""
        self._done: tuple[str, int] = ("", 0)
        """The last failure that was handled: the test, and the identity of the exception."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Hook into unittest's tests, which it would tear down before pytest learns of a failure."""
        if any(_testcase(item) for item in session.items):
            self._config.pluginmanager.register(UnittestFailures(self), "holdfast-unittests")

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Handle a test that has failed, or could not be set up: its fixtures are still there."""
        if isinstance(node, pytest.Item) and getattr(call, "when", "") in ("setup", "call"):
            self.failed(node, call.excinfo.value, _traceback(call.excinfo.value, call.excinfo.tb), report)

    def failed(
        self, item: pytest.Item, error: BaseException, trace: TracebackType | None, report: Any = None
    ) -> None:
        """Capture the session; continue in the run, open the debugger in a copy."""
        if self._done == (item.nodeid, id(error)) or trace is None:
            return
        self._done = (item.nodeid, id(error))
        if self._unavailable:
            return
        with self._turns.mine(self._most) as allowed:
            if not allowed:
                self._note(item, REFUSED, f"--holdfast-max={self._most} is reached")
                return
            with _stopped(self._others()):
                self._capture(item, error, trace, report)

    def _capture(self, item: pytest.Item, error: BaseException, trace: TracebackType, report: Any) -> None:
        try:
            done = self._session.capture(
                reason=f"{item.nodeid} failed"[:_LONGEST], failure=self._record(item, error, trace, report)
            )
        except self._session.CaptureFailed as refusal:
            if isinstance(refusal, self._session.CaptureUnavailable):
                self._unavailable = str(refusal)
            self._note(item, REFUSED, str(refusal)[:_LONGEST])
            return
        if done.kind == "resumed":
            self._note(item, REFERENCE, done.reference or done.snapshot)
        elif done.own:
            self._debug(item, error, trace, report)

    def _others(self) -> list[int]:
        return _workers(self._folder, os.getppid()) if self._worker else []

    def _note(self, item: pytest.Item, name: str, value: str) -> None:
        """Add the capture to all later reports of the test: Reports include JUnit's, and the workers'."""
        item.user_properties.append((name, value))
        if self._reporter is not None:
            self._reporter.note(item.nodeid, name, value)

    def _record(
        self, item: pytest.Item, error: BaseException, trace: TracebackType, report: Any
    ) -> dict[str, Any]:
        frame, line = _frame(trace)
        path = Path(frame.f_code.co_filename)
        with contextlib.suppress(ValueError):
            path = path.relative_to(self._config.rootpath)
        said = "".join(traceback.format_exception_only(type(error), error)).strip()
        tail = "".join(text for _, text in getattr(report, "sections", ()))
        program = ":".join(self._config.getoption("usepdb_cls") or ("pdb",))
        return {
            "reason": "exception",
            "command": self._command[:_LONGEST],
            "where": item.nodeid[:_LONGEST],
            "message": f"{path}:{line}: {said}"[:_LONGEST],
            "tail": tail[-_TAIL:],
            "debugger": {"program": program, "job": os.environ.get("HOLDFAST_JOB")},
        }

    # In a copy.

    def _debug(self, item: pytest.Item, error: BaseException, trace: TracebackType, report: Any) -> None:
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if capture:
            capture.suspend(in_=True)
        with _terminal(alone=self._worker) as there:
            if not there:
                _wait_frozen(item.nodeid)
            sys.stdout.write(_headline(item, error, trace, report))
            debugger = self._debugger()
            self._config.hook.pytest_enter_pdb(config=self._config, pdb=debugger)
            debugger.reset()
            debugger.interaction(None, trace)
            self._config.hook.pytest_leave_pdb(config=self._config, pdb=debugger)
        if debugger.quitting:
            if self._worker:  # as if Ctrl-C had been meant for all
                _signal([os.getppid(), *self._others()], signal.SIGINT)
            pytest.exit("Quitting debugger")
        if capture and report is None:  # in the middle of a test
            capture.resume()

    def _debugger(self) -> Any:
        module, name = self._config.getoption("usepdb_cls") or ("pdb", "Pdb")
        chosen: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))

        class OpenDebugger(chosen):  # type: ignore[misc]
            """The user's debugger, at the last frame that is not a helper's."""

            def get_stack(self, frame: Any, trace: Any) -> tuple[list[tuple[FrameType, int]], int]:
                """Return the frames and the index of the first to show."""
                stack, at = super().get_stack(frame, trace)
                if frame is None:
                    at = max(0, len(stack) - 1)
                    while at and _hidden(stack[at][0]):
                        at -= 1
                return stack, at

        return OpenDebugger()


class UnittestFailures:
    """Handles failures of unittest's tests where they occur: before their tearDown and cleanups."""

    def __init__(self, capturing: TestCaptures) -> None:
        self._capturing = capturing

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Wrap a test method so that its exceptions are seen."""
        found: Any = item
        if not _testcase(item) or _expected_to_fail(found):
            return
        method, failed = found.obj, self._failed
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def watched(*args: Any, **options: Any) -> Any:
                __tracebackhide__ = True
                try:
                    return await method(*args, **options)
                except BaseException as error:
                    failed(item, error)
                    raise

            setattr(method.__self__, method.__name__, watched)
        else:

            @functools.wraps(method)
            def watched_call(*args: Any, **options: Any) -> Any:
                __tracebackhide__ = True
                try:
                    return method(*args, **options)
                except BaseException as error:
                    failed(item, error)
                    raise

            found.obj = watched_call

    def _failed(self, item: pytest.Item, error: BaseException) -> None:
        skipped = (sys.modules["unittest"].SkipTest, pytest.skip.Exception, pytest.xfail.Exception)
        if not isinstance(error, (*skipped, *_ENDING)):
            self._capturing.failed(item, error, error.__traceback__)


def _testcase(item: Any) -> bool:
    of, found = getattr(item, "cls", None), sys.modules.get("unittest")
    return found is not None and isinstance(of, type) and issubclass(of, found.TestCase)


def _expected_to_fail(item: Any) -> bool:
    if any(getattr(each, "__unittest_expecting_failure__", False) for each in (item.obj, item.cls)):
        return True
    marked = item.get_closest_marker("xfail") is not None and not item.config.getoption("runxfail")
    return marked or not hasattr(item.obj, "__self__")


# The failing frame.


def _traceback(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback of the error; a doctest has it in its exception."""
    inner = getattr(error, "exc_info", None)
    found = inner[2] if isinstance(inner, tuple) and len(inner) == 3 else None
    return found if isinstance(found, TracebackType) else trace


def _frame(trace: TracebackType) -> tuple[FrameType, int]:
    """Return the last frame that is not a helper's, and its line."""
    frames = list(traceback.walk_tb(trace))
    shown = [each for each in frames if not _hidden(each[0])]
    return (shown or frames)[-1]


def _hidden(frame: FrameType) -> bool:
    """Return whether pytest hides a frame from tracebacks: marked helpers, and unittest's."""
    return frame.f_locals.get("__tracebackhide__", False) is True or "__unittest" in frame.f_globals


def _headline(item: pytest.Item, error: BaseException, trace: TracebackType, report: Any) -> str:
    said = report.longreprtext if report is not None else ""
    if not said:
        shown = ((frame, line) for frame, line in traceback.walk_tb(trace) if not _hidden(frame))
        lines = traceback.StackSummary.extract(shown).format()
        said = "".join((*lines, *traceback.format_exception_only(type(error), error)))
    sections = "".join(f"{name:-^80}\n{text}" for name, text in getattr(report, "sections", ()))
    title = f" {item.nodeid} "
    return f"\n{sections[-_TAIL:]}\n{title:=^80}\n{said[-_TAIL:]}\n{'>' * 20} post-mortem {'>' * 20}\n"


# Other processes, and the terminal.


def _workers(folder: Path, parent: int) -> list[int]:
    """Return the workers of a run that its first process has started, without this one."""
    found = [int(path.name[: -len(_WORKER)]) for path in folder.glob(f"*{_WORKER}")]
    return [pid for pid in found if pid != os.getpid() and _parent(pid) == parent]


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


@contextlib.contextmanager
def _stopped(others: list[int]) -> Iterator[None]:
    """Stop the other workers, in copies until the debugger is left."""
    _signal(others, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(others, signal.SIGCONT)


@contextlib.contextmanager
def _terminal(alone: bool) -> Iterator[bool]:
    """Use the controlling terminal as standard input and output; yield False if there is none.

    `alone`: in a process group of its own, so that Ctrl-C goes to the debugger and not to the run.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    group, streams = os.getpgrp(), (sys.stdin, sys.stdout, sys.stderr)
    kept = [os.dup(number) for number in range(3)]
    alone = alone and os.tcgetpgrp(terminal) == group
    try:
        if alone:
            _to_front(terminal, os.getpid())
        for number in range(3):
            os.dup2(terminal, number)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout, sys.stderr = (open(n, "w", 1, errors="backslashreplace", closefd=False) for n in (1, 2))  # noqa: SIM115
        yield True
    finally:
        sys.stdout.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, old in enumerate(kept):
            os.dup2(old, number)
            os.close(old)
        if alone:
            _to_front(terminal, group)
        os.close(terminal)


def _to_front(terminal: int, group: int) -> None:
    """Join a process group, which can have ended, and give it the terminal."""
    # A background process would be stopped for this.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, group)
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _wait_frozen(test: str) -> None:
    """Wait forever: a debugger needs a terminal, but files, servers and memory can be inspected."""
    sys.stderr.write(f"holdfast: {test} is paused here, pid {os.getpid()}: a debugger needs a terminal\n")
    sys.stderr.flush()
    while True:
        signal.pause()

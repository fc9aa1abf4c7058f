"""The suite behaves the same however it was started, and a test that hangs does not hang the suite.

`make test &`, nohup and services ignore signals. pytest-timeout ends a test by a single exception: a loop
can swallow it, and the cleanup after it can hang as well. The watchdog then ends the whole process, with
the stack of each thread. pytest-xdist starts another process, which does not try that test again.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from tests.second_try import FailedTests

# What a test starts would inherit it, and what it interrupts would go on.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(_number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
# Each of the many commands that tests start would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GRACE = 120.0  # seconds beyond the timeout of a test, for what it puts away
LEFT_OPEN = 12
"""Descriptors that tests of one file may leave, such as those of fixtures that others share."""
_OPEN: dict[Path, int] = {}
HUNG = Path(tempfile.gettempdir(), f"holdfast-hung-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch the whole of a test, its fixtures included."""
    limit = _seconds(item)
    if limit <= 0:  # as pytest-timeout has it: no limit
        return (yield)
    dog = threading.Timer(
        limit + GRACE, _end_process, (item.nodeid, item.config.stash[fault_handler_stderr_fd_key])
    )
    dog.daemon = True
    dog.start()
    try:
        return (yield)
    finally:
        dog.cancel()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _OPEN.setdefault(item.path, _descriptors())
    if HUNG.exists() and item.nodeid in HUNG.read_text().splitlines():
        pytest.fail("it hung, and took its process along", pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Refuse a test file that leaves descriptors open: the next file can need all of them."""
    result = yield
    if nextitem is not None and nextitem.path != item.path and item.get_closest_marker("engine") is None:
        if _descriptors() - _OPEN[item.path] > LEFT_OPEN:
            gc.collect()
        left = _descriptors() - _OPEN[item.path]
        assert left <= LEFT_OPEN, f"{item.path.name} leaves {left} descriptors open"
    return result


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class FailuresAtOnce:
    """Report failures immediately: a run that is cut off prints nothing at its end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.partition("\n")[0] if crash else str(report.longrepr)
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when}): {why[:200]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # pytest-xdist's workers have none
        config.pluginmanager.register(FailuresAtOnce(terminal))
        config.pluginmanager.register(FailedTests(config))


def _seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    if marker is not None and marker.args:
        return float(marker.args[0])
    option = item.config.getoption("timeout")
    return float(item.config.getini("timeout") if option is None else option)


def _end_process(name: str, stderr: int) -> None:
    with HUNG.open("a") as file:
        file.write(name + "\n")
    os.write(stderr, f"\n{name} hangs; its process ends:\n".encode())
    faulthandler.dump_traceback(stderr)
    os._exit(1)

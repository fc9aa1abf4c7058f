"""The second try of tests that failed in a long run: each once more, when no other test runs.

Owns the choice of failures that can be tried again, and their run: `python -m tests.second_try FILE`, in
the folder in which pytest ran, adds the names of tests that passed then to FILE. A run that was cut short,
or with more than a few failures, does not get a second try. It must not know any test, nor what CI makes of
the outcome.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

FEW = 5  # more failures at once are no accident
KEY = "holdfast/second-try"
KEPT = Path(".pytest_cache", "v", *KEY.split("/"))  # where pytest's own cache has a value of that name


class FailedTests:
    """Write down at the end of a run which tests failed, if every test that was collected came to its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: set[str] = set()
        self._ended: set[str] = set()
        self._failed: dict[str, None] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        """The process that hands out the tests collects none itself."""
        self._collected.update(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        # A test whose process died has only the report of that.
        if report.when == "teardown" or report.failed:
            self._ended.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        whole = bool(self._collected) and self._collected <= self._ended
        again = list(self._failed) if whole and len(self._failed) <= FEW else []
        cache = getattr(self._config, "cache", None)  # none with `-p no:cacheprovider`
        if cache is not None:
            cache.set(KEY, again)


def main() -> int:
    """Run the failed tests of the last run in this folder again, in one process.

    Returns 0 if all of them passed, and 1 if one failed or none can be tried again.
    """
    failed = json.loads(KEPT.read_text()) if KEPT.exists() else []
    if not failed:
        sys.exit("no second try: the run was cut short, or too much failed")
    sys.stdout.write(_list(f"second try of {len(failed)}, with nothing beside", failed))
    sys.stdout.flush()
    pytest_command = Path(sys.executable).with_name("pytest")  # `python -m` would put this folder on the path
    tried = subprocess.run([pytest_command, *failed])
    if tried.returncode:
        return 1
    with Path(sys.argv[1]).open("a") as unstable:
        unstable.write(_list("unstable, to be repaired (failed at first, passed by themselves)", failed))
    return 0


def _list(title: str, tests: Sequence[str]) -> str:
    return "\n  ".join([f"{title}:", *tests]) + "\n"


if __name__ == "__main__":
    sys.exit(main())

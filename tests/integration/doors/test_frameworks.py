"""Agent frameworks against a server: their own suites, whole and unedited, in environments of their own.

Each runs in a fresh session, and in one that was snapshotted live and restored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import ROOT, SESSIONS
from tests.integration.doors.framework_suites import SECONDS, passed
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

TESTS = {"inspect": ("check_inspect.py", 45), "deepagents": ("check_deepagents.py", 86)}
"""The file that has a framework's suite, and how many tests that is."""


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module", params=SESSIONS)
def session(request: pytest.FixtureRequest, shared_hf: Holdfast) -> Iterator[Session]:
    made = shared_hf.new()
    if request.param == "restored":
        made.exec("sleep 1000 &")
        original, taken = made, made.snapshot()
        made = taken.restore()
        original.remove()
    yield made
    made.remove()
    for snapshot in shared_hf.snapshots():
        snapshot.remove()


def in_session(server: Served, session: Session) -> dict[str, str]:
    """Return an environment that names a session, and has our adapters."""
    here = {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": server.token, "HOLDFAST_SESSION": session.name}
    return {**os.environ, **here, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("which", TESTS)
def test_a_suite_passes_whole(server: Served, session: Session, which: str, tmp_path: Path) -> None:
    file, count = TESTS[which]
    assert passed(which, file, in_session(server, session), tmp_path) == count


@pytest.mark.timeout(SECONDS + 60)
def test_mini_swe_agent(server: Served, session: Session, tmp_path: Path) -> None:
    known = in_session(server, session)
    assert passed("mini-swe-agent", "check_mini_swe_agent.py", known, tmp_path) == 5

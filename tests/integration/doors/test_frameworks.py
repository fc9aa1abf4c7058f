"""Agent frameworks against a server: their own suites, whole and unedited, in environments of their own.

Each runs in a fresh session, and in one that was snapshotted live and restored.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import ROOT, SUITES
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

CHECKS = Path(__file__).parent / "frameworks"
TESTS = {"inspect": ("check_inspect.py", 45), "deepagents": ("check_deepagents.py", 86)}
"""The file that has a framework's suite, and how many tests that is."""
SECONDS = 400


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module", params=["fresh", "restored"])
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


def through_e2b(server: Served) -> dict[str, str]:
    """Return an environment in which clients of E2B use a server."""
    known = {name: text for name, text in os.environ.items() if not name.startswith(("E2B_", "PYTEST_"))}
    return known | {
        "E2B_API_URL": server.url,
        "E2B_SANDBOX_URL": server.url,
        "E2B_API_KEY": f"e2b_{server.token}",
    }


def passed(which: str, file: str, environment: dict[str, str], place: Path) -> int:
    """Run tests in the environment of a framework; return how many passed, none may have failed."""
    checks = Path(shutil.copytree(CHECKS, place / "checks")) / file  # away from the project's own fixtures
    python = SUITES / which / "bin" / "python"
    assert python.exists(), "the frameworks are not installed: `make test-doors` does it"
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    words += ["-c", os.devnull, "--rootdir", str(checks.parent), str(checks)]
    known = environment | {"PYTHONDONTWRITEBYTECODE": "1"}
    known.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        words, env=known, cwd=checks.parent, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    count = re.search(r"(\d+) passed", done.stdout)
    assert count, done.stdout
    return int(count[1])


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


@pytest.mark.timeout(SECONDS + 60)
def test_openai_agents_through_the_wire_of_e2b(server: Served, shared_hf: Holdfast, tmp_path: Path) -> None:
    """The tracing of the SDK, and any key of this machine's owner, stay out of it."""
    before = {each.id for each in shared_hf.sessions()} | {each.id for each in shared_hf.snapshots()}
    known = through_e2b(server) | {
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "PAGE": str(ROOT / "docs" / "integrations" / "openai-agents.md"),
    }
    assert passed("openai-agents", "check_openai_agents.py", known, tmp_path) == 9
    assert {each.id for each in shared_hf.sessions()} <= before
    for snapshot in shared_hf.snapshots():
        if snapshot.id not in before:
            snapshot.remove()


@pytest.mark.timeout(SECONDS + 60)
def test_smolagents_through_the_wire_of_e2b(server: Served, tmp_path: Path) -> None:
    """Their tests need two lines that their source leaves out: a mark."""
    (source,) = (SUITES / "sources").glob("smolagents-*.tar.gz")
    with tarfile.open(source) as tar:
        tar.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    tests = folder / "tests"
    (tests / "utils").mkdir(exist_ok=True)
    for place in (tests, tests / "utils"):
        (place / "__init__.py").touch()
    (tests / "utils" / "markers.py").write_text("def require_run_all(test):\n    return test\n")
    python = SUITES / "smolagents" / "bin" / "python"
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_remote_executors.py"]
    done = subprocess.run(
        [*words, "-k", "E2BExecutorIntegration"],
        env=through_e2b(server),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "5 passed" in done.stdout

"""Agent frameworks that use the clients of E2B against a server: their suites, each in its environment."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import ROOT, SUITES
from tests.integration.doors.framework_suites import SECONDS, passed
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


def through_e2b(server: Served) -> dict[str, str]:
    """Return an environment in which clients of E2B use a server."""
    known = {name: text for name, text in os.environ.items() if not name.startswith(("E2B_", "PYTEST_"))}
    return known | {
        "E2B_API_URL": server.url,
        "E2B_SANDBOX_URL": server.url,
        "E2B_API_KEY": f"e2b_{server.token}",
    }


@pytest.mark.brief
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


@pytest.mark.brief
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

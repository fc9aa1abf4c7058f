"""SWE-ReX's own tests of execution, whole and unedited, with its remote runtime in an environment of its own.

They run in a fresh session, and in one that was snapshotted live and restored.
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
from tests.integration.doors.conftest import ROOT, SESSIONS, SUITES
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

OWN = Path(__file__).parent / "swe_rex"
PYTHON = SUITES / "swe-rex" / "bin" / "python"
PAGE = ROOT / "docs" / "integrations" / "swe-rex.md"
SECONDS = 400


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    assert PYTHON.exists(), "SWE-ReX is not installed: `make test-doors` does it"
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the tests and the session share: they write in one and read in the other."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module", params=SESSIONS)
def session(request: pytest.FixtureRequest, shared_hf: Holdfast, files: Path) -> Iterator[Session]:
    made = shared_hf.new(mounts=[f"{files}:{files}"])
    if request.param == "restored":
        made.exec("sleep 1000 &")
        original, taken = made, made.snapshot()
        made = taken.restore()
        original.remove()
    yield made
    made.remove()
    for snapshot in shared_hf.snapshots():
        snapshot.remove()


def environment(server: Served, session: Session) -> dict[str, str]:
    known = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return known | {
        "HOLDFAST_URL": server.url,
        "HOLDFAST_TOKEN": server.token,
        "HOLDFAST_SESSION": session.name,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(words: list[str], known: dict[str, str], place: Path) -> str:
    done = subprocess.run(
        [str(PYTHON), *words],
        env=known,
        cwd=place,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(SECONDS + 60)
def test_execution_passes_whole(server: Served, session: Session, files: Path, tmp_path: Path) -> None:
    """One of its tests is marked as failing by its authors, since it fails with their own server."""
    (source,) = (SUITES / "sources").glob("swe_rex-*.tar.gz")
    with tarfile.open(source) as tar:
        tar.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.glob("swe_rex-*")
    tests = folder / "tests"
    (tests / "__init__.py").touch()
    shutil.copy(OWN / "conftest.py", tests)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_execution.py"]
    told = run([*words, f"--basetemp={files / 'tests'}"], environment(server, session), folder)
    count = re.search(r"(\d+) passed, (?:(\d+) xfailed|(\d+) xpassed)", told)
    assert count, told
    assert int(count[1]) == 49


def test_the_example_of_the_page(server: Served, session: Session, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    address = "http://127.0.0.1:8420/swerex/work"
    assert address in example
    example = example.replace(address, f"{server.url}/swerex/{session.name}")
    assert run(["-c", example], environment(server, session), tmp_path) == "/tmp\ntest\n\nLinux\n\n"


def test_a_deployment_reaches_a_session(server: Served, session: Session, tmp_path: Path) -> None:
    """As the settings of SWE-agent name it."""
    script = """
import asyncio, os
from swerex.deployment.config import RemoteDeploymentConfig
async def main():
    address = f"{os.environ['HOLDFAST_URL']}/swerex/{os.environ['HOLDFAST_SESSION']}"
    config = RemoteDeploymentConfig(host=address, auth_token=os.environ["HOLDFAST_TOKEN"])
    deployment = config.get_deployment()
    await deployment.start()
    print(bool(await deployment.is_alive()))
    await deployment.stop()
asyncio.run(main())
"""
    assert "\nTrue\n" in run(["-c", script], environment(server, session), tmp_path)

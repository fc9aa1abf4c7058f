"""Suites of Jupyter's projects against the kernel of a session, unedited, in an environment of their own.

Each runs at a fresh session, and at one that was snapshotted live and restored. jupyter-kernel-client speaks
to the gateway itself, as editors do; the others reach it by the kernel provisioner. What fails by design has
its reason here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import ROOT, SESSIONS, SUITES
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

OWN = Path(__file__).parent / "jupyter_suites"
ENVIRONMENT = SUITES / "jupyter"
SECONDS = 900
GROUP = "jupyter_client.kernel_provisioners"


@dataclass(frozen=True, slots=True)
class Suite:
    """How many of its tests pass, and those that cannot, by a part of their names, with their reasons."""

    passing: int
    arguments: tuple[str, ...]
    known: dict[str, str]


RUN = {
    "jupyter_kernel_test": Suite(13, ("check_kernel.py",), {}),
    "jupyter_kernel_client": Suite(41, ("jupyter_kernel_client/tests",), {}),
    "nbclient": Suite(76, ("tests",), {}),
}


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module", params=SESSIONS)
def session(request: pytest.FixtureRequest, shared_hf: Holdfast) -> Iterator[Session]:
    made = shared_hf.new(image="data")
    if request.param == "restored":
        made.cell("kept = 1")
        original, taken = made, made.snapshot()
        made = taken.restore()
        original.remove()
        assert made.cell("kept").text == "1"
    yield made
    made.remove()
    for snapshot in shared_hf.snapshots():
        snapshot.remove()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the suites, and kernel specs that lead to the session of the environment."""
    for name in ("jupyter_kernel_client",):
        (package,) = ENVIRONMENT.glob(f"lib/python3.*/site-packages/{name}")
        shutil.copytree(package / "tests", tmp_path / name / "tests")
        shutil.copy(OWN / "gateway_conftest.py", tmp_path / name / "tests" / "conftest.py")
    shutil.copy(OWN / "check_kernel.py", tmp_path)
    (source,) = (SUITES / "sources").glob("nbclient-*.tar.gz")
    with tarfile.open(source) as tar:
        tar.extractall(tmp_path / "nbclient", filter="data")
    for spec, config in (("python3", {"fresh": True}), ("attached", {})):
        folder = tmp_path / "jupyter" / "kernels" / spec
        folder.mkdir(parents=True)
        chosen = {"kernel_provisioner": {"provisioner_name": "holdfast", "config": config}}
        written = {"argv": [], "display_name": spec, "language": "python", "metadata": chosen}
        (folder / "kernel.json").write_text(json.dumps(written))
    return tmp_path


def installed(folder: Path) -> Path:
    """Return a folder that makes this checkout known to an environment as an installed package."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    known = folder / "site" / "holdfast-0.dist-info"
    known.mkdir(parents=True)
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (known / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")
    return known.parent


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("which", RUN)
def test_a_suite_passes(server: Served, session: Session, which: str, place: Path) -> None:
    suite = RUN[which]
    report = place / "report.xml"
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "HOLDFAST_"))
    }
    environment |= {
        "HOLDFAST_URL": server.url,
        "HOLDFAST_TOKEN": server.token,
        "HOLDFAST_SESSION": session.name,
        "HOLDFAST_SPEC": "attached",
        "PYTHONPATH": f"{installed(place)}:{ROOT / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "JUPYTER_PATH": str(place / "jupyter"),
        "JUPYTER_DATA_DIR": str(place / "data"),
        "JUPYTER_RUNTIME_DIR": str(place / "runtime"),
        "IPYTHONDIR": str(place / "ipython"),
        "PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}",
    }
    (folder,) = place.glob("nbclient/nbclient-*") if which == "nbclient" else (place,)
    words = [str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    words += ["-c", os.devnull, "--rootdir", str(folder), "-o", "asyncio_mode=auto", "--timeout=120"]
    words += ["-W", "ignore::DeprecationWarning", f"--junitxml={report}", *suite.arguments]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert report.exists(), done.stdout[-4000:] + done.stderr[-2000:]
    passed, failed = outcome(report)
    unknown = [each for each in failed if not any(part in each for part in suite.known)]
    assert not unknown, (passed, unknown, done.stdout[-8000:])
    assert passed >= suite.passing, (passed, failed)


def test_the_library_of_an_editor_runs_a_cell(
    server: Served, session: Session, node: Path, tmp_path: Path
) -> None:
    """That of VS Code, in the order in which it uses it; the kernel of the agent is left as it was."""
    session.cell("agents = 'of the agent'")
    shutil.copy(OWN / "editor.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(SUITES / "node_modules")
    words = [
        node,
        tmp_path / "editor.mjs",
        server.url,
        server.token,
        f"holdfast-{session.name}",
        "print(agents)",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["specs"] == told["kernels"] == [f"holdfast-{session.name}"]
    assert (told["status"], told["text"].strip()) == ("ok", "of the agent")
    assert (told["known"], told["left"]) == (1, 0)
    assert session.cell("agents").text == "'of the agent'"


def outcome(report: Path) -> tuple[int, list[str]]:
    """Return how many tests passed, and the names of those that failed."""
    passed, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(str(case.get("name")))
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed


def test_each_known_failure_has_a_reason() -> None:
    """A sentence, and the page on Jupyter has the counts."""
    page = (ROOT / "docs" / "integrations" / "jupyter.md").read_text()
    for name, suite in RUN.items():
        assert all(reason.endswith(".") for reason in suite.known.values())
        assert re.search(rf"\| `?{name}`? .*\| {suite.passing} of", page), name

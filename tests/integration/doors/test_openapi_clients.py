"""The description of the API is valid, and clients that generators of others make of it work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import SUITES
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.session import Session

SCRIPTS = Path(__file__).parent / "openapi_clients"
PYTHON = SUITES / "openapi" / "bin"
SECONDS = 120


@pytest.fixture(scope="module")
def server(make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture
def description(server: Served, tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_bytes(server.client.get("/openapi.json").content)
    return path


def ran(folder: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return done.stderr + done.stdout


def checks(printed: str) -> int:
    found = re.fullmatch(r"ok: (\d+)", printed.splitlines()[-1])
    assert found, printed
    return int(found[1])


@pytest.mark.brief
@pytest.mark.timeout(3 * SECONDS)
def test_python(server: Served, shared: Session, description: Path, tmp_path: Path) -> None:
    """A validator accepts the description; a client of `openapi-python-client` makes ten calls and more."""
    ran(tmp_path, PYTHON / "openapi-spec-validator", description)
    generate = ("generate", "--path", description, "--meta", "none", "--output-path", tmp_path / "generated")
    said = ran(tmp_path, PYTHON / "openapi-python-client", *generate)
    left_out = re.findall(
        r"WARNING parsing (\S+ \S+) within \S+ Endpoint will not be generated", " ".join(said.split())
    )
    assert left_out == ["PUT /v1/sessions/{session}/files/tree"], said  # it has no form for a tar stream
    where = {"ADDRESS": server.url, "TOKEN": server.token, "SESSION": shared.id, "PYTHONPATH": str(tmp_path)}
    assert checks(ran(tmp_path, PYTHON / "python", SCRIPTS / "ten_calls.py", **where)) >= 13


@pytest.mark.brief
@pytest.mark.timeout(3 * SECONDS)
def test_typescript(server: Served, shared: Session, description: Path, tmp_path: Path, node: Path) -> None:
    """The types of `openapi-typescript` hold for ten calls, which the compiler has checked."""
    (tmp_path / "node_modules").symlink_to(SUITES / "node_modules")
    modules, script = tmp_path / "node_modules", shutil.copy(SCRIPTS / "ten_calls.mts", tmp_path)
    # Fields that have a default may be left out.
    options = ("--default-non-nullable", "false", "-o", tmp_path / "api.d.ts")
    ran(tmp_path, node, modules / "openapi-typescript" / "bin" / "cli.js", *options, description)
    strict = ("--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "--types", "node")
    ran(tmp_path, node, modules / "typescript" / "bin" / "tsc", *strict, script)
    where = {"ADDRESS": server.url, "TOKEN": server.token, "SESSION": shared.id}
    assert checks(ran(tmp_path, node, tmp_path / "ten_calls.mjs", **where)) >= 10

"""E2B's own tests of its clients, unedited, from checkouts of its repositories that are given by path.

`make test-doors E2B=FOLDER CODE_INTERPRETER=FOLDER`. Those in JavaScript need `npm install` in their folders.
Each failure has a reason in `e2b_suites/known.toml`, and with it on docs/integrations/e2b-suites.md, as
`tests/test_e2b_page.py` makes sure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import SUITES
from tests.integration.doors.tls_front import tls_front
from tests.integration.served import Served, serving

from holdfast.base.home import Home

HERE = Path(__file__).parent / "e2b_suites"
KNOWN = tomllib.loads((HERE / "known.toml").read_text())
SECONDS = 2400


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: the variable that names its checkout, its folder there, and the part of it that is run."""

    checkout: str
    folder: str
    tests: tuple[str, ...] = ()


RUN = {
    "sdk-python-sync": Suite(
        "HOLDFAST_E2B",
        "packages/python-sdk",
        ("tests/sync/api_sync", "tests/sync/sandbox_sync", "tests/sync/secret_sync"),
    ),
    "sdk-python-async": Suite(
        "HOLDFAST_E2B",
        "packages/python-sdk",
        ("tests/async/api_async", "tests/async/sandbox_async", "tests/async/secret_async"),
    ),
    "sdk-javascript": Suite("HOLDFAST_E2B", "packages/js-sdk"),
    "code-interpreter-python": Suite("HOLDFAST_CODE_INTERPRETER", "python", ("tests",)),
    "code-interpreter-javascript": Suite("HOLDFAST_CODE_INTERPRETER", "js"),
}


@pytest.fixture(scope="module")
def server(make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("name", RUN)
def test_known_failures_are_recognized(server: Served, name: str, tmp_path: Path) -> None:
    """No test fails except for the failures on the page, with their reasons; it prints the counts."""
    suite = RUN[name]
    if not (checkout := os.environ.get(suite.checkout)):
        pytest.skip(f"no checkout is given ({suite.checkout})")
    folder = Path(checkout).resolve() / suite.folder
    report = tmp_path / "report.xml"
    with tls_front(server.port, tmp_path, "sandboxes.localhost") as environment:
        address = f"http://{environment.pop('E2B_DOMAIN')}"
        own = {"E2B_API_URL": address, "E2B_SANDBOX_URL": address, "E2B_API_KEY": f"e2b_{server.token}"}
        clean = {each: text for each, text in os.environ.items() if not each.startswith("E2B_")}
        if suite.tests:
            # `python -m pytest` would take the client of the checkout for the installed one.
            command = [SUITES / "e2b-suites" / "bin" / "pytest", "-q", "-n", "2", "--timeout", "150"]
            command += ["-p", "no:cacheprovider", "-plocalhost_names", f"--junitxml={report}", *suite.tests]
            own |= {"PYTHONPATH": str(HERE)}
        else:
            command = [SUITES / "bin" / "node", "node_modules/vitest/vitest.mjs", "run"]
            command += ["--config", HERE / "vitest.config.mjs"]
            own |= {"HOLDFAST_SUITE": str(folder), "HOLDFAST_REPORT": str(report)}
            own |= {"NODE_OPTIONS": f"--require {HERE / 'localhost.cjs'}"}
            own |= {"NODE_EXTRA_CA_CERTS": environment["SSL_CERT_FILE"]}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=clean | environment | own | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert report.exists(), (done.stdout[-3000:], done.stderr[-3000:])
    count, failed = outcome(report)
    sys.stdout.write(f"{name}: {count - len(failed)} of {count} pass; fail: {sorted(failed)}\n")
    assert failed <= known(name), sorted(failed - known(name))


def outcome(report: Path) -> tuple[int, set[str]]:
    """Return the number of run tests, and the ids of the failed ones."""
    count, failed = 0, set()
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        count += 1
        if case.find("failure") is not None or case.find("error") is not None:
            place = case.get("classname", "")
            file = place if "/" in place else f"{place.replace('.', '/')}.py"
            failed.add(f"{file.removeprefix('tests/')}::{case.get('name')}")
    return count, failed


def known(suite: str) -> set[str]:
    return {test for reason in KNOWN["reasons"] for test in reason["fails"].get(suite, ())}

"""The protocol's own conformance tests, in both of its generations, against our server with our guard.

Many scenarios test a library by tools, prompts and resources of certain names, which a product does not have.
Those that need none are listed here; what they cannot test without such a tool is also listed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.integration.doors.conftest import SUITES

SUITE = SUITES / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
SCENARIOS = {
    "2025-11-25": (
        "server-initialize server-session-lifecycle ping tools-list tools-call-error "
        "server-sse-multiple-streams resources-list prompts-list dns-rebinding-protection"
    ),
    "2026-07-28": (
        "server-stateless tools-list tools-call-error server-sse-multiple-streams resources-list "
        "sep-2164-resource-not-found prompts-list dns-rebinding-protection caching http-header-validation "
        "input-required-result-unsupported-methods input-required-result-ignore-extra-params"
    ),
}
NEED_A_TOOL = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}
LEAST = {"2025-11-25": 20, "2026-07-28": 60}
"""Checks that passed when this was written: a suite that finds nothing to check must not pass."""


@pytest.mark.brief
@pytest.mark.parametrize("version", SCENARIOS)
def test_the_server_conforms(node: Path, served: str, version: str, tmp_path: Path) -> None:
    passed, failed = 0, []
    for scenario in SCENARIOS[version].split():
        out = tmp_path / scenario
        command = [str(node), str(SUITE), "server", "--url", served, "--scenario", scenario]
        command += ["--spec-version", version, "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        (report,) = out.glob("**/checks.json")
        for check in json.loads(report.read_text()):
            passed += check["status"] == "SUCCESS"
            if check["status"] == "FAILURE" and check["id"] not in NEED_A_TOOL:
                failed.append((scenario, check["id"], check.get("errorMessage"), done.stdout[-500:]))
    assert failed == []
    assert passed >= LEAST[version]

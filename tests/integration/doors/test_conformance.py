"""The protocol's own conformance tests, in both of its generations, against our server with our guard.

Many scenarios test a library by tools, prompts and resources of certain names, which a product does not
have. Tests that need none are listed here, as well as features that cannot be tested without such a tool.
All others are run with the tools of the library's own example, behind our door.
"""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.doors.conftest import SUITES, tokenless

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


EVERY = {"2025-11-25": 44, "2026-07-28": 150}
"""Checks of all scenarios of a version that passed when this was written."""
ALLOWED: dict[str, set[str]] = {"2025-11-25": set(), "2026-07-28": set()}
"""Checks that cannot pass behind a door, each with the reason beside it."""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the example server, from the sources of the library."""
    (source,) = (SUITES / "sources").glob("mcp-*.tar.gz")
    place = tmp_path_factory.mktemp("mcp")
    with tarfile.open(source) as tar:
        tar.extractall(place, filter="data")
    (found,) = place.glob("mcp-*/examples/servers/everything-server")
    return found


@pytest.mark.timeout(660)
@pytest.mark.parametrize("version", SCENARIOS)
def test_a_server_with_every_tool_conforms_behind_the_door(
    node: Path, example: Path, version: str, tmp_path: Path
) -> None:
    """Guard, limits and cancellations of the door leave everything as the protocol wants it."""
    out = tmp_path / "out"
    with tokenless(tmp_path / "home", example) as address:
        command = [str(node), str(SUITE), "server", "--url", address, "--suite", "all"]
        command += ["--spec-version", version, "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    checks = list(reported(out))
    failed = {each["id"]: each.get("errorMessage") for each in checks if each["status"] == "FAILURE"}
    assert failed.keys() <= ALLOWED[version], (failed, done.stdout[-2000:])
    assert sum(each["status"] == "SUCCESS" for each in checks) >= EVERY[version]


def reported(out: Path) -> Iterator[Any]:
    for report in out.glob("**/checks.json"):
        yield from json.loads(report.read_text())


TASKS = ("get", "result", "list", "cancel", "update")


@pytest.mark.brief
def test_tasks_are_neither_offered_nor_taken(served: str) -> None:
    """The extension of which the suite has scenarios of its own is refused by the name of each method."""
    accepted = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(headers=accepted, trust_env=False, timeout=60) as client:

        def ask(method: str, given: dict[str, Any], **headers: str) -> tuple[httpx.Response, Any]:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
            answer = client.post(served, json=message, headers=headers)
            found = re.search(r"^(?:data: )?(\{.*\})", answer.text, re.MULTILINE)
            assert found, answer.text
            return answer, json.loads(found[1])

        version = "2025-11-25"
        about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        answer, told = ask("initialize", about)
        conversation = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": version}
        client.post(
            served, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=conversation
        )
        assert "task" not in json.dumps(told["result"]["capabilities"])
        _, tools = ask("tools/list", {}, **conversation)
        assert "taskSupport" not in json.dumps(tools)
        codes = {name: ask(f"tasks/{name}", {"taskId": "x"}, **conversation)[1] for name in TASKS}
    assert {name: told["error"]["code"] for name, told in codes.items()} == dict.fromkeys(TASKS, -32601)

"""The README's steps to an agent of one's own, followed word for word on a busy machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.busy_machine import busy_machine
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import ROOT, SUITES
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

ADDRESS = "http://127.0.0.1:8420"
SECONDS = 120
PLACE = "project"
"""The folder in which the client of an agent starts `holdfast mcp`."""
pytestmark = pytest.mark.brief


@pytest.fixture(scope="module")
def section() -> str:
    """Return the text below the heading, with its blocks."""
    return (ROOT / "README.md").read_text().split("\n## Your own agent\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module", autouse=True)
def busy() -> Iterator[None]:
    """Keep every processor busy twice over: nothing that the README shows depends on a quiet machine."""
    spin = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            process = stack.enter_context(subprocess.Popen(spin))
            stack.callback(process.kill)
        yield


@pytest.fixture
def server(cli: Cli, home: Home) -> Iterator[Served]:
    with serving(cli, home) as found:
        yield found


@pytest.fixture(autouse=True)
def ended(hf: Holdfast) -> Iterator[None]:
    """Keep the machine busy, and remove the sessions that the examples leave: a newcomer's stay."""
    with busy_machine():
        yield
    for session in hf.sessions():
        session.remove()
    for snapshot in hf.snapshots():
        snapshot.remove()


def block(section: str, title: str, language: str) -> str:
    """Return the first block in a language of one paragraph."""
    paragraph = section.split(f"**{title}.**")[1].split("\n**")[0]
    found = re.search(rf"```{language}\n(.*?)```", paragraph, re.DOTALL)
    assert found, (title, language)
    return found[1]


def test_over_mcp(section: str, home: Home, hf: Holdfast, tmp_path: Path) -> None:
    lines = block(section, "Over MCP", "sh").splitlines()
    commands = {line.split(" -- ")[1] for line in lines}
    assert len(commands) == 1
    (folder := tmp_path / PLACE).mkdir()
    environment = os.environ | {
        "HOLDFAST_HOME": str(home.root),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with subprocess.Popen(
        ["sh", "-c", f"exec {commands.pop()}"],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            about = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "a", "version": "1"},
            }
            run = {"name": "run", "arguments": {"command": "echo done by $((40 + 2))"}}
            for number, (method, given) in enumerate([("initialize", about), ("tools/call", run)]):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
                print(json.dumps(message), file=process.stdin, flush=True)
                while (told := json.loads(process.stdout.readline())).get("id") != number:
                    pass
            assert "done by 42" in told["result"]["content"][0]["text"]
        finally:
            process.stdin.close()
            process.terminate()
    (session,) = hf.sessions()
    # The section names one for its folder, and how to find the real one.
    (example,) = set(re.findall(r"`(agent-[a-z0-9-]+)`", section))
    assert example.rpartition("-")[0] == session.name.rpartition("-")[0] == f"agent-{PLACE}"
    assert {"`holdfast ls`", "`holdfast attach NAME`"} <= set(re.findall(r"`[^`\n]+`", section))


def test_over_the_sdk_of_e2b(section: str, server: Served, tmp_path: Path) -> None:
    """The clients have a separate environment; the typed commands are run as they are, except for that."""
    python = SUITES / "e2b-newest" / "bin" / "python"
    assert python.exists(), "the clients are not installed: `make test-doors` does it"
    token_file = "~/.local/state/holdfast/server-token"
    script = block(section, "Over E2B's SDK", "sh").replace(ADDRESS, server.url)
    assert token_file in script
    (tmp_path / "token").write_text(server.token)
    exports = [line for line in script.splitlines() if line.startswith(("export", "python"))]
    typed = (
        "\n".join(exports).replace(token_file, str(tmp_path / "token")).replace("python ", f"{python} ", 1)
    )
    example = block(section, "Over E2B's SDK", "python")
    (name,) = re.findall(r"# (\S+\.py)\n", example)
    (tmp_path / name).write_text(example)
    assert output(["sh", "-ec", typed], {}, tmp_path) == "['this', 'that']\n" * 2


def test_over_our_sdk(section: str, server: Served, tmp_path: Path) -> None:
    example = block(section, "Over our SDK", "python").replace(ADDRESS, server.url)
    said = output([sys.executable, "-c", example], {"HOLDFAST_TOKEN": server.token}, tmp_path)
    assert said.split("\n") == ["attempt-1 this and that", "", "attempt-2 this and that", "", ""]


def test_examples_of_clients(server: Served, tmp_path: Path) -> None:
    """The programs in `examples/` for packages of others print what they show."""
    e2b = {"E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url, "E2B_API_KEY": f"e2b_{server.token}"}
    python = str(SUITES / "e2b-newest" / "bin" / "python")
    said = output([python, str(ROOT / "examples" / "e2b_migration.py")], e2b, tmp_path)
    assert said.endswith("lines: 3\ntimes 2: 12\ntimes 3: 18\n")
    inspect = {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": server.token, "PYTHONPATH": str(ROOT / "src")}
    python = str(SUITES / "inspect" / "bin" / "python")
    said = output([python, str(ROOT / "examples" / "inspect_eval.py")], inspect, tmp_path)
    assert said.endswith("the session: 100\nsuccess: C\n")


def output(words: list[str], environment: dict[str, str], place: Path) -> str:
    known = {name: text for name, text in os.environ.items() if not name.startswith("E2B_")}
    done = subprocess.run(
        words,
        env=known | environment,
        cwd=place,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout

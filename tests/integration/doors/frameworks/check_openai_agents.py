"""The sandbox for E2B of the OpenAI Agents SDK, as it is published, in sessions; its model is scripted."""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from agents import Runner
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.run import RunConfig
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, WorkspaceReadNotFoundError
from agents.sandbox.session import SandboxSession
from scripted_model import Item, Turn, calls, patches, says, scripted

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
MANIFEST = Manifest(entries={"numbers": File(content=b"1\n2\n3\n")})
COUNTER = "i=0; while :; do echo $((i+=1)) > /tmp/next; mv /tmp/next /tmp/count; sleep 0.05; done"
"""It replaces the file: one that is written again is empty for a moment."""


def options(**more: object) -> E2BSandboxClientOptions:
    return E2BSandboxClientOptions(sandbox_type="e2b", timeout=900, **more)


@pytest.fixture
async def sandbox() -> AsyncIterator[SandboxSession]:
    made = await E2BSandboxClient().create(manifest=MANIFEST, options=options())
    await made.start()
    yield made
    await made.shutdown()


async def output(session: SandboxSession, command: str) -> str:
    done = await session.exec(command)
    assert done.exit_code == 0, done
    return str(done.stdout.decode())


async def run(session: SandboxSession, turns: Sequence[Turn], monkeypatch: pytest.MonkeyPatch) -> str:
    agent = SandboxAgent(name="engineer", instructions="Work.", model="scripted")
    with scripted(turns) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        config = RunConfig(sandbox=SandboxRunConfig(session=session))
        return str((await Runner.run(agent, "Begin.", run_config=config)).final_output)


async def test_commands_run_in_the_workspace(sandbox: SandboxSession) -> None:
    assert await output(sandbox, "pwd; cat numbers") == "/workspace\n1\n2\n3\n"
    done = await sandbox.exec("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code) == (b"out\n", b"err\n", 3)
    assert (await sandbox.exec("id", "-un", shell=False, user="root")).stdout == b"root\n"
    with pytest.raises(ExecTimeoutError):
        await sandbox.exec("sleep 60", timeout=1)
    assert await sandbox.running()


async def test_files_keep_every_byte(sandbox: SandboxSession) -> None:
    content = bytes(range(256)) * 8192
    await sandbox.mkdir(Path("below"), parents=True)
    await sandbox.write(Path("below/bytes"), io.BytesIO(content))
    assert (await sandbox.read(Path("below/bytes"))).read() == content
    assert [Path(each.path).name for each in await sandbox.ls(Path("below"))] == ["bytes"]
    await sandbox.rm(Path("below"), recursive=True)
    with pytest.raises(WorkspaceReadNotFoundError):
        await sandbox.read(Path("below/bytes"))


async def test_an_agent_runs_commands_and_edits_files(
    sandbox: SandboxSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.write(Path("pixel.png"), io.BytesIO(PIXEL))
    patch = "*** Begin Patch\n*** Update File: numbers\n@@\n 1\n-2\n+20\n 3\n*** End Patch"

    def seen(outputs: list[str]) -> Item:
        assert "data:image/png;base64," in outputs[-1]
        return calls("exec_command", 4, cmd="awk '{ s += $1 } END { print s }' numbers")

    def summed(outputs: list[str]) -> Item:
        found = re.search(r"exited with code 0\nOutput:\n(\d+)", outputs[-1])
        return says(f"the sum is {found[1] if found else outputs[-1]}")

    said = await run(
        sandbox,
        [
            lambda _: calls("exec_command", 1, cmd="ls"),
            lambda outputs: patches(patch if "numbers" in outputs[0] else "", 2),
            lambda _: calls("view_image", 3, path="pixel.png"),
            seen,
            summed,
        ],
        monkeypatch,
    )
    assert said == "the sum is 24"
    assert await output(sandbox, "cat numbers") == "1\n20\n3\n"


async def test_an_agent_answers_what_a_terminal_asks(
    sandbox: SandboxSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(outputs: list[str]) -> Item:
        found = re.search(r"session ID (\d+)", outputs[-1])
        assert found, outputs
        return calls("write_stdin", 2, session_id=int(found[1]), chars="Ada\n", yield_time_ms=5000)

    ask = "read -p 'Name? ' name; echo \"Hello, $name\""
    said = await run(
        sandbox,
        [
            lambda _: calls("exec_command", 1, cmd=ask, shell="bash", tty=True, yield_time_ms=3000),
            answered,
            lambda outputs: says("greeted" if "Hello, Ada" in outputs[-1] else outputs[-1]),
        ],
        monkeypatch,
    )
    assert said == "greeted"


async def test_a_paused_sandbox_continues_where_it_was() -> None:
    client = E2BSandboxClient()
    made = await client.create(manifest=MANIFEST, options=options(pause_on_exit=True))
    await made.start()
    await made.exec(f"setsid sh -c {COUNTER!r} >/dev/null 2>&1 & echo $! > /tmp/pid")
    await _until(made, "test -s /tmp/count")
    kept = client.serialize_session_state(made.state)
    await made.stop()
    await made.shutdown()
    again = await client.resume(client.deserialize_session_state(kept))
    await again.start()
    try:
        assert again.state.sandbox_id == made.state.sandbox_id
        assert await output(again, "cat numbers") == "1\n2\n3\n"
        before = int(await output(again, "cat /tmp/count"))
        await _until(again, f"test $(cat /tmp/count) -gt {before}")  # the same program, which still counts
    finally:
        again.state.pause_on_exit = False
        await again.shutdown()


@pytest.mark.parametrize("kind", ["tar", "snapshot"])
async def test_a_workspace_outlives_its_sandbox(kind: str, tmp_path: Path) -> None:
    """A snapshot also keeps what runs; an archive has the files of the workspace."""
    client, keep = E2BSandboxClient(), LocalSnapshotSpec(base_path=tmp_path)
    made = await client.create(
        manifest=MANIFEST, snapshot=keep, options=options(workspace_persistence=kind, on_timeout="kill")
    )
    await made.start()
    await made.exec(f"setsid sh -c {COUNTER!r} >/dev/null 2>&1 & echo kept > more")
    await _until(made, "test -s /tmp/count")
    await made.stop()
    kept = client.serialize_session_state(made.state)
    await made.shutdown()
    again = await client.resume(client.deserialize_session_state(kept))
    await again.start()
    try:
        assert again.state.sandbox_id != made.state.sandbox_id
        assert await output(again, "cat more numbers") == "kept\n1\n2\n3\n"
        if kind == "snapshot":
            before = int(await output(again, "cat /tmp/count"))
            await _until(again, f"test $(cat /tmp/count) -gt {before}")
        else:
            assert not (await again.exec("test -e /tmp/count")).ok()
    finally:
        await again.shutdown()


async def test_an_exposed_port_is_reached() -> None:
    made = await E2BSandboxClient().create(manifest=MANIFEST, options=options(exposed_ports=(3000,)))
    await made.start()
    try:
        await made.exec("setsid python3 -m http.server 3000 >/dev/null 2>&1 &")
        await _until(made, "curl -sf localhost:3000/numbers")
        found = await made.resolve_exposed_port(3000)
        assert not found.tls
        # Not every system resolves names below localhost.
        asked = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
        asked.request("GET", "/numbers", headers={"Host": f"{found.host}:{found.port}"})
        assert asked.getresponse().read() == b"1\n2\n3\n"
    finally:
        await made.shutdown()


def test_the_example_of_its_page(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", Path(os.environ["PAGE"]).read_text(), re.DOTALL)
    program = tmp_path / "example.py"
    program.write_text(code)
    turns: list[Turn] = [
        lambda _: calls("exec_command", 1, cmd="cat numbers | paste -sd+ | bc || cat numbers"),
        lambda outputs: calls("exec_command", 2, cmd="awk '{ s += $1 } END { print s }' numbers"),
        lambda outputs: says(f"The sum is {outputs[-1].split()[-1]}."),
    ]
    with scripted(turns) as url:
        environment = {**os.environ, "OPENAI_BASE_URL": url}
        done = subprocess.run(
            [sys.executable, str(program)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The sum is 6.\n"


async def _until(session: SandboxSession, condition: str) -> None:
    for _ in range(600):
        if (await session.exec(condition)).ok():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(condition)

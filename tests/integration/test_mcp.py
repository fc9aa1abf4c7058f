"""An agent's client works in sessions, over the protocol's both generations, in process and over pipes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from bench.families.agent import BUILD
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.integration.conftest import Cli

from holdfast.base import polling
from holdfast.errors import KernelDied, SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.agent_sessions import AgentSessions, Default
from holdfast.runtime.mcp.plots import MOST_BYTES
from holdfast.runtime.store.entry import Entry

PLOT = """
import struct, zlib
from IPython.display import Image, display
def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
rows = b"".join(b"\\0" + os.urandom(3 * 900) for _ in range(600))
head = struct.pack(">IIBBBBB", 900, 600, 8, 2, 0, 0, 0)
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
png += chunk(b"IEND", b"")
display(Image(png)); len(png)
"""


Mode = Literal["auto", "legacy"]


class Agent:
    """A client, and the progress that was reported to it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[str] = []

    async def result(self, tool: str, **arguments: Any) -> Any:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(message or "")

        return await self.client.call_tool(tool, arguments, progress_callback=note)

    async def __call__(self, tool: str, **arguments: Any) -> str:
        result = await self.result(tool, **arguments)
        text = result.content[0].text
        assert not result.is_error, text
        return str(text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.result(tool, **arguments)
        assert result.is_error
        return str(result.content[0].text)


def talk(hf: Holdfast, script: Callable[[Agent], Awaitable[None]], mode: Mode = "auto") -> None:
    async def run() -> None:
        async with Client(AgentServer(hf.home, Default("work")), mode=mode) as client:
            await script(Agent(client))

    anyio.run(run)


async def until(look: Callable[[], Any]) -> Any:
    """Wait for a minute at most, in a thread, until something is so."""
    return await anyio.to_thread.run_sync(lambda: polling.until(look, 60))


def id_in(text: str) -> str:
    found = re.search(r"\bid ([\w-]+)", text)
    assert found, text
    return found[1]


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
def test_state_stays_from_call_to_call_and_from_server_to_server(hf: Holdfast, mode: Mode) -> None:
    async def first(agent: Agent) -> None:
        assert "does not exist yet" in await agent("status")
        assert hf.sessions() == []
        begun = await agent("run", command="cd /tmp; export COLOR=blue; echo ready")
        assert re.fullmatch(r"session work was made\nready\n\[exit 0 · [\d.]+ s · /tmp\]", begun)
        assert (await agent("cell", code="x = 6 * 7\nx")).startswith("42\n[ok · ")

    async def second(agent: Agent) -> None:
        assert re.match(r"blue\n\[exit 3 · .* · /tmp\]", await agent("run", command="echo $COLOR; (exit 3)"))
        assert (await agent("cell", code="x + 1")).startswith("43\n")
        assert "\n* " not in await agent("status")

    talk(hf, first, mode)
    talk(hf, second, mode)
    assert [session.name for session in hf.sessions()] == ["work"]
    actors = {str(entry.actor) for entry in commands(hf.session("work"))}
    assert all(re.fullmatch(r"agent:mcp/[0-9a-f]{4}", each) for each in actors), "each in a run of its own"


def test_a_command_that_lasts_is_followed_and_interrupted(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        begun = await agent(
            "run", command="echo first; until [ -e /tmp/go ]; do sleep 0.1; done; echo last", wait=1
        )
        assert "first\n[still runs after 1 s · id " in begun
        assert "is running in the shell" in await agent.refused("run", command="echo other")
        assert "echo other" not in await agent("status")
        await agent("file", path="/tmp/go", content="")
        ended = await agent("wait", id=id_in(begun))
        assert ended.startswith("last\n[exit 0 · ")  # only what is new
        assert (await agent("read", id=id_in(begun))).startswith("first\nlast\n[this is the end]")
        assert (await agent("read", id=id_in(begun), line=-1)).startswith("last\n")
        await agent("run", command="sleep 1000", wait=0.2)
        assert "[exit 130" in await agent("answer", key="C-c")

    talk(hf, script)


def test_prompts_are_answered(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        asked = await agent("run", command="read -s -p 'Password: ' word; echo; echo [$word]")
        assert "waits for a password ('Password: '); answer(text=…)" in asked
        assert "[sesame]\n[exit 0" in await agent("answer", text="sesame")
        prompt = await agent("run", command="python3 -q")
        assert "waits for the next line at its prompt ('>>> ')" in prompt
        assert "\n42\n>>>" in await agent("answer", text="6 * 7")
        assert "[exit 0" in await agent("answer", key="C-d")
        asked = await agent("cell", code="name = input('Name? '); name * 2")
        assert "waits for a line ('Name? ')" in asked
        assert (await agent("answer", text="bo")).startswith("'bobo'\n[ok")
        assert "the shell runs no command of `exec`" in await agent.refused("answer", text="x")

    talk(hf, script)


def test_cells_that_last_end_and_die(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        until = "import time, os\nprint('a')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.02)\n'b'"
        begun = await agent("cell", code=until, wait=0.2)
        assert "still runs" in begun
        await agent("run", command="touch /tmp/go")
        ended = await agent("wait", id=id_in(begun))
        assert begun.startswith("a\n") or ended.startswith("a\n")  # each line is shown once
        assert re.search(r"^'b'\n\[ok", ended, re.MULTILINE)
        await agent("cell", code="time.sleep(1000)", wait=0.2)
        assert "[interrupted" in await agent("answer", key="C-c")
        assert "a new one has started" in await agent.refused("cell", code="os._exit(1)")
        assert "NameError" in await agent("cell", code="time.time()")
        assert "cannot wait for cell-77: there" in await agent.refused("read", id="cell-77")

    talk(hf, script)


def test_a_cell_of_another_conversation_is_followed_answered_and_stopped(hf: Holdfast) -> None:
    """Its client has ended; the next one gets its id, sees what it shows, and stops it."""
    ids: list[str] = []

    async def first(agent: Agent) -> None:
        asking = "print('mine'); name = input('Name? '); print(name)\nimport time\ntime.sleep(1000)"
        ids.append(id_in(await agent("cell", code=asking, wait=60)))

    async def second(agent: Agent) -> None:
        (cell,) = ids
        assert f"cell {cell} has the kernel" in await agent("status")
        assert cell in await agent.refused("cell", code="1")
        asked = await agent("wait", id=cell)
        assert asked.startswith("mine\n")
        assert "waits for a line ('Name? ')" in asked
        assert "still runs" in await agent("answer", text="bo", wait=0.5)
        assert "mine\nbo" in await agent("read", id=cell)
        assert "does not ask for input" in await agent.refused("answer", text="x", id=cell)
        assert "[interrupted" in await agent("answer", key="C-c", id=cell)
        assert (await agent("cell", code="name")).startswith("'bo'\n")

    async def third(agent: Agent) -> None:
        begun = await agent("cell", code="time.sleep(1000)", wait=0.2)
        command = await agent("run", command="sleep 1000", wait=0.2)
        assert "[exit 130" in await agent("answer", key="C-c", id=id_in(command))
        assert "still runs" in await agent("wait", id=id_in(begun), seconds=0)
        assert "[interrupted" in await agent("answer", key="C-c")

    talk(hf, first)
    talk(hf, second)
    talk(hf, third)


def test_a_long_output_is_shown_with_its_true_beginning_and_lines(hf: Holdfast) -> None:
    """Of an output of megabytes the first lines are the first, and `read` gives the lines it names."""

    hf.new("work")

    async def script(agent: Agent) -> None:
        text = await agent("run", command="echo the first error; seq 2 400000", wait=120)
        assert text.startswith("the first error\n2\n3\n")
        assert "earlier bytes" not in text
        found = re.search(r"\n(\d+)\n… lines (\d+) to (\d+) of 400000 are not shown …\n(\d+)\n", text)
        assert found
        assert int(found[1]) == int(found[2]) - 1
        assert int(found[4]) == int(found[3]) + 1
        named = re.search(r"read\(id='(\w+)', line=(\d+)\)", text)
        assert named
        assert named[2] == found[2]
        assert (await agent("read", id=named[1], line=int(named[2]))).startswith(f"{named[2]}\n")
        assert (await agent("read", id=named[1], line=300_000)).startswith("300000\n300001\n")
        assert (await agent("read", id=named[1], line=-390_000)).startswith("10001\n")
        assert (await agent("read", id=named[1])).startswith("the first error\n2\n")
        running = await agent("run", command="seq 400000; sleep 1000", wait=0)
        with anyio.fail_after(120):
            while not (now := await agent("read", id=id_in(running), line=-2)).startswith("399999\n400000\n"):
                await agent("wait", id=id_in(running), seconds=1)
        assert now.endswith("[this is the end of the output so far; it still runs]")
        await agent("answer", key="C-c")

    talk(hf, script)


def test_a_key_is_waited_for_as_long_as_was_asked(hf: Holdfast) -> None:
    """The effect of the key takes longer than a second, and its end is in the answer."""

    async def script(agent: Agent) -> None:
        await agent("run", command="read -s -n 1; sleep 2; echo done")
        assert re.search(r"done\n\[exit 0", await agent("answer", key="Enter", wait=60))

    talk(hf, script)


def test_a_plot_is_one_small_picture(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        result = await agent.result("cell", code="import os" + PLOT)
        text, image = result.content
        assert re.search(r"\n1\d{6}\n\[ok", text.text)
        assert image.mime_type == "image/png"
        assert len(image.data) < MOST_BYTES * 1.4

    talk(hf, script)


def test_a_failing_build_costs_little_and_shows_the_failed_step(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        text = await agent("run", command=BUILD)
        lines = text.split("\n")
        assert lines[-2] == "main.c:7:1: error: expected ;"
        assert lines[-1].startswith("[exit 2 · ")
        assert len(text) < 8000
        assert "\x1b" not in text
        rest = await agent("read", id=id_in(lines[-1].replace("id='", "id ")), line=60)
        assert "unit59.c" in rest

    talk(hf, script)


def test_the_next_conversation_finds_the_task(hf: Holdfast) -> None:
    async def first(agent: Agent) -> None:
        assert "does not have one" in await agent.refused("task")
        await agent("task", action="goal", text="Port the store")
        plan = "Change\n- Look\n- Write :: grep ready answer"
        assert "[planned · 0 of 2 steps done]" in await agent("task", action="plan", text=plan)
        assert "[step 1.1 done]" in await agent("task", action="done", step="1.1")
        failed = await agent("task", action="done", step="1.2")
        assert "step 1.2 is not done · file_not_found" in failed
        await agent("task", action="decide", text="SQLite", why="no server")
        assert "[checkpoint work-" in await agent("task", action="checkpoint")

    async def second(agent: Agent) -> None:
        found = await agent("task", action="resume")
        assert "- 1.2 Write [active], verified by `grep ready answer`" in found
        assert "SQLite (no server)" in found
        await agent("run", command="echo ready > answer")
        assert "step 1.2 done · verified by #" in await agent("task", action="done", step="1.2")
        assert "done, 2 of 2 steps" in await agent("task")

    async def third(agent: Agent) -> None:
        """The remaining operations of the command line on a record."""
        await agent("run", command="true")
        (entry,) = hf.session("work").journal(kinds=["command_started"])[-1:]
        attempt = await agent("task", action="attempt", step="1.1", text=f"#{entry.seq}")
        assert f"attempt #{entry.seq} at step 1.1 passed" in attempt
        assert "still" not in attempt
        assert "no command started" in await agent.refused("task", action="attempt", step="1.1", text="#0")
        await agent("task", action="reread", text="store.py", why="the form")
        await agent("task", action="artifact", text="answer")
        await agent("run", command="echo left > left.over")
        kept = (await agent("task", action="artifacts")).splitlines()
        assert kept[0].startswith("answer of work: 6 B, answer, by #")
        assert kept[1] == "nothing accounts for /workspace/left.over, 5 B"
        taken = await agent.refused("task", action="fetch", text="answer")
        assert "something is already at answer" in taken
        assert "cannot find artifact 'none'" in await agent.refused("task", action="fetch", text="none")
        await agent("task", action="fetch", text="answer of work to /srv/an answer")
        assert "ready" in await agent("run", command="cat '/srv/an answer'")
        await agent("task", action="verify", text="true")
        await agent("task", action="question", text="Which?")
        for wrong in ("question", "question x", "question 9", "joke 1"):
            assert "cannot drop" in await agent.refused("task", action="drop", text=wrong)
        await agent("task", action="drop", text="question 1")
        exported = await agent("task", action="export")
        assert "## Open questions\n\nNone." in exported
        assert "- answer" in exported
        assert "section 'Risks' is missing" in await agent.refused(
            "task", action="import", text=exported.replace("## Risks\n", "")
        )
        assert "[done · 2 of 2 steps done]" in await agent("task", action="import", text=exported)
        board = await agent("task", action="board")
        assert "work [running] done 2/2: Port the store" in board

    talk(hf, first)
    talk(hf, second)
    talk(hf, third)


@pytest.mark.thorough
def test_commands_before_a_snapshot_are_shown_and_repeated(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        await agent("snapshot", label="first")
        await agent("run", command="echo same > kept; cat kept")
        await agent("run", command="date +%N")
        await agent("run", command="echo more >> kept; cat kept")
        await agent("snapshot", label="second")
        session = hf.sessions()[0]
        entries = [f"#{each.seq}" for each in session.journal(kinds=["command_started"])]
        actions = (await agent("task", action="actions", text="second")).splitlines()
        assert [line.split()[0] for line in actions[:3]] == entries
        stopped = await agent("task", action="redo", text="second from first")
        assert "it ended early, 1 actions were not reached" in stopped
        again = await agent("task", action="redo", text=f"second from first without {entries[1]}")
        made = again.partition("made ")[2].split()[0]
        assert "complete" in again.splitlines()[-1]
        assert (await agent("run", command="cat kept", session=made)).startswith("same\nmore\n")
        refused = await agent.refused("task", action="redo", text="second without the second")
        assert "cannot redo 'second without the second'" in refused

    talk(hf, script)


def test_an_agent_goes_back_and_copies(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        await agent("cell", code="stock = [1]")
        server = await agent("run", command="python3 -m http.server 8123", background=True)
        assert (await agent("wait", port=8123)).startswith("[port 8123 accepts connections · python3")
        assert "no program has accepted" in await agent.refused("wait", port=9, seconds=0)
        assert "snapshot good" in await agent("snapshot", label="good", reason="before the mess")
        await agent("cell", code="stock.append(2)")
        await agent("run", command="kill %1 2>/dev/null; pkill -f http.server; touch /tmp/mess")
        changed = await agent("changes")
        assert "/tmp/mess" in changed
        assert "http.server" in changed
        assert "back at good" in await agent("go_back")
        assert (await agent("cell", code="stock")).startswith("[1]\n")
        status = await agent("status")
        assert ":8123" in status
        assert "good (" in status
        assert "/opt/holdfast" not in status
        assert "/dev/.holdfast" not in status
        made = await agent("go_back", to="good", copies=2)
        first, second = re.findall(r"\b[a-z]+-[a-z]+\b", made)[:2]
        await agent("cell", code="stock.append('first')", session=first)
        assert (await agent("cell", code="stock", session=second)).startswith("[1]\n")
        assert "still runs" in await agent("wait", id=id_in(server), seconds=0.1, session=second)
        assert "was ended" in await agent("sessions", end=first)
        listed = await agent("sessions")
        assert "work · running (the default)" in listed
        assert first not in listed
        assert "cannot find snapshot" in await agent.refused("go_back", to="nothing")

    talk(hf, script)


def test_files_are_read_written_and_edited(hf: Holdfast) -> None:
    async def script(agent: Agent) -> None:
        await agent("file", path="/tmp/a.py", content="one = 1\ntwo = 2\n")
        assert "at line 2" in await agent("file", path="/tmp/a.py", old="two = 2", new="two = 22")
        assert await agent("file", path="/tmp/a.py") == "one = 1\ntwo = 22\n[17 bytes · this is the end]"
        assert "occurs 2 times" in await agent.refused("file", path="/tmp/a.py", old=" = ", new="")
        assert "occurs 0 times" in await agent.refused("file", path="/tmp/a.py", old="three", new="")
        await agent("run", command=r"printf 'caf\351 x\n' > /tmp/latin; head -c 20000 /dev/zero > /tmp/zeros")
        await agent("file", path="/tmp/latin", old="x", new="y")
        assert "e9 20 79" in await agent("run", command="od -An -tx1 /tmp/latin")
        assert "is binary" in await agent("file", path="/tmp/zeros")
        assert "a.py" in await agent("file", path="/tmp")
        assert "no such file" in await agent.refused("file", path="/tmp/none")
        await agent("run", command="seq 100000 > /tmp/long; truncate -s 1G /tmp/huge; mkfifo /tmp/pipe")
        assert "line=301 shows more" in await agent("file", path="/tmp/long")
        assert (await agent("file", path="/tmp/long", line=-2)).startswith("99999\n100000\n")
        assert "bytes" in await agent.refused("file", path="/tmp/huge")
        assert "cannot read" in await agent.refused("file", path="/tmp/pipe")

    talk(hf, script)


@pytest.mark.thorough
def test_a_cancelled_command_is_interrupted_and_one_whose_client_left_goes_on(hf: Holdfast, cli: Cli) -> None:
    """Over pipes, in both generations of the protocol; a long command reports its last line."""
    session = hf.new("work")
    command = [*cli.command("mcp", "--session", "work")]
    server = StdioServerParameters(command=command[0], args=command[1:], env=cli.environment)

    async def cancelled(mode: Mode) -> None:
        async with Client(stdio_client(server), mode=mode) as client:
            agent = Agent(client)
            with anyio.move_on_after(1.0):
                await agent("run", command="echo begun; sleep 1000")
            assert await anyio.to_thread.run_sync(lambda: polling.until(lambda: idle(session), 60))
            other = session.exec("sleep 1000", patience=0).command_id
            with anyio.move_on_after(0.5):
                await agent("run", command="echo never >> begun")
            await anyio.sleep(1.5)
            assert session.shell().command_id == other
            session.interrupt()
            assert session.exec("cat begun").exit_code == 1

    async def never_begun() -> None:
        """A cell whose kernel still starts when its client gives up never runs, and the kernel is free."""
        async with Client(stdio_client(server)) as client:
            agent = Agent(client)
            with suppress(KernelDied):
                session.cell("import os; os._exit(0)")
            async with anyio.create_task_group() as calls:
                code = "open('/tmp/it ran', 'w'); import time; time.sleep(1000)"
                calls.start_soon(partial(agent, "cell", code=code))
                assert await until(lambda: session.kernels.list()[0].cell_id)
                assert session.kernels.list()[0].state == "starting"
                calls.cancel_scope.cancel()
            assert await until(lambda: session.kernels.list()[0].cell_id is None)
            assert (await agent("cell", code="1 + 1")).startswith("2\n")
            assert "No such file" in await agent("run", command="ls '/tmp/it ran'")

    async def told() -> None:
        async with Client(stdio_client(server)) as client:
            agent = Agent(client)
            text = "for i in 1 2 3 4 5 6; do echo line $i; sleep 1; done"
            assert "line 6\n[exit 0" in await agent("run", command=text)
            assert re.fullmatch(r"line [456]", agent.progress[-1])

    for mode in ("auto", "legacy"):
        anyio.run(cancelled, mode)
    anyio.run(never_begun)
    anyio.run(told)
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                      "clientInfo": {"name": "Some Client", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call",
         "params": {"name": "run", "arguments": {"command": "sleep 4; echo it ran on"}}},
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=cli.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stdin
        for each in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n")
        process.stdin.flush()
        assert polling.until(lambda: not idle(session), 60)
        process.stdin.close()
        assert process.wait(60) == 0
    assert not idle(session)
    assert polling.until(lambda: idle(session), 60)
    assert "it ran on" in session.terminal.screen().text
    assert str(commands(session)[-1].actor).partition("/")[0] == "agent:Some-Client"


def idle(session: Session) -> bool:
    return session.shell().command_id is None


def commands(session: Session) -> list[Entry]:
    return [entry for entry in session.journal() if entry.kind == "command_started"]


@pytest.mark.thorough
def test_a_users_mistakes_are_explained(cli: Cli) -> None:
    for words, said in (
        (["--http", "0.0.0.0:80"], "must be a port of this machine's loopback"),
        (["--http", "x"], "must be a port"),
        (["extra"], "too many arguments"),
        (["--session", "no/name"], "cannot name session"),
        (["--memory", "much"], "memory"),
        (["--mount", "nowhere"], "mount"),
        (["--writable", "/srv"], "add --read-only"),
        (["--network", "everything"], "network"),
    ):
        done = cli("mcp", *words)
        assert done.code != 0
        assert said in done.err
        assert "Traceback" not in done.err
    refused = cli("mcp", DOCKER_HOST="ssh://user@nowhere.example.test")
    assert "the engine is on a different machine" in refused.err


def test_other_sessions_are_used_by_name(hf: Holdfast) -> None:
    hf.new("other")
    hf.session("other").suspend()

    async def script(agent: Agent) -> None:
        assert "other is suspended" in await agent("status", session="other")
        woken = await agent("run", command="echo hi", session="other")
        assert woken.startswith("session other was suspended, and has been resumed\nhi\n")
        assert "cannot find session" in await agent.refused("run", command="x", session="none")
        assert "was made" in await agent("sessions", new="third")
        assert "choose a different name" in await agent.refused("sessions", new="third")
        hf.session("third").remove()
        assert "cannot find session" in await agent.refused("run", command="x", session="third")

    talk(hf, script)


def test_missing_packages_of_the_server_are_explained(cli: Cli) -> None:
    """As after `pip install holdfast` without the extra."""
    hidden = "import sys; sys.modules['mcp'] = None; import holdfast.runtime.cli.main as m; m.main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "mcp"],
        env=cli.environment,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"{sys.executable} -m pip install 'mcp<3,>=2.3' 'pillow<13,>=11'" in done.stderr.decode()


@pytest.mark.thorough
def test_agents_in_two_folders_of_one_name_share_nothing(hf: Holdfast, tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "api", tmp_path / "b" / "api"]
    for folder in folders:
        folder.mkdir(parents=True)
        options = {"mounts": [f"{folder}:/workspace"]}
        found = AgentSessions(hf, Default.of_folder(folder, options)).of("")
        told = found.session.exec('echo "[$OF]"; OF=here; echo > made')
        assert told.text == "[]\n"
        assert (folder / "made").exists()
        again = AgentSessions(hf, Default.of_folder(folder, options)).of("")
        assert again.session.exec("echo $OF").text == "here\n"
        with pytest.raises(SessionExists, match=r"\(mounts, network\)"):
            AgentSessions(hf, Default.of_folder(folder, {"network": "none"})).of("")

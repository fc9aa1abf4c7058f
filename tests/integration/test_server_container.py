"""The server in a container next to the engine, started as the page says: sessions outlast it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RemoteHoldfast
from holdfast.engine.engine_place import SOCKET
from holdfast.runtime.remote import elsewhere

pytestmark = [pytest.mark.timeout(400), pytest.mark.thorough]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "server.md"
SCRIPT = "docs/recipes/server-container.sh"


def said(*words: str, **environment: str) -> str:
    """Return the output of a command, which must succeed."""
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def steps() -> str:
    """Return the commands of the page."""
    found = re.search(r"## In a container\n.*?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def free_port() -> int:
    """Return a port that no connection gets by chance: below the range that Linux assigns."""
    for port in range(21_000, 30_000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port is free")


@pytest.fixture
def variables(hf: Holdfast, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables for the script and the page's commands; their container is removed in any outcome."""
    name = f"holdfast-server-test-{os.getpid()}"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "holdfast").symlink_to(Path(shutil.which("holdfast", path=f"{ROOT}/.venv/bin") or ""))
    try:
        yield {
            "HOLDFAST_NAME": name,
            "HOLDFAST_HOME": str(hf.home.root),
            "PATH": f"{folder}:{os.environ['PATH']}",
        }
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False, timeout=60)


def test_the_steps_of_the_page_make_a_server_that_sessions_outlast(
    hf: Holdfast, variables: dict[str, str]
) -> None:
    name, home, port = variables["HOLDFAST_NAME"], variables["HOLDFAST_HOME"], str(free_port())
    text = steps().replace("8420", port).replace("holdfast-server", name).replace("/var/lib/holdfast", home)
    printed = said("bash", "-euo", "pipefail", "-c", text, **variables)
    assert f"serving http://127.0.0.1:{port}\n" in printed
    assert '{"status":"ok"' in printed
    token = said("docker", "exec", name, "cat", f"{home}/server-token")
    with RemoteHoldfast(f"http://127.0.0.1:{port}", token=token) as remote:
        work = remote.new("work")
        assert work.exec("cd /srv; export COLOR=green; echo kept > file; pwd").text == "/srv\n"
        assert work.cell("n = 6 * 7; n").text == "42"
        work.snapshot("before")
        assert remote.snapshot("before").fork(1, "copy")[0].exec("echo $COLOR").text == "green\n"
        left = work.exec("sleep 5; echo done", patience=1)
        assert left.running

        image = said("docker", "inspect", "--format", "{{.Config.Image}}", name)
        assert "serving" in said(SCRIPT, image, "--listen", port, **variables)  # in place of the first
        assert left.command_id is not None
        assert work.join(left.command_id).text == "done\n"
        assert work.exec("echo $COLOR; cat file").text == "green\nkept\n"
        assert "work" in said("docker", "exec", name, "holdfast", "ls")
        assert {each.name for each in hf.sessions()} == {"work", "copy"}
    said("docker", "stop", name)
    assert said("docker", "inspect", "--format", "{{.State.ExitCode}}", name) == "0"


def test_the_servers_container_has_the_posture_of_remote_commands(
    hf: Holdfast, variables: dict[str, str], tmp_path: Path
) -> None:
    """Over a unix socket in the home, which only its owner can use."""
    home, path = variables["HOLDFAST_HOME"], f"{variables['HOLDFAST_HOME']}/s"
    image = said("holdfast", "image", "build", "controller", **variables)
    assert said(SCRIPT, image, "--unix", path, **variables) == f"serving unix:{path}"
    assert Path(path).stat().st_mode & 0o777 == 0o600
    with RemoteHoldfast(
        f"unix://{path}", token=(hf.home.root / "server-token").read_text().strip()
    ) as remote:
        assert remote.sessions() == []
    found = json.loads(said("docker", "inspect", variables["HOLDFAST_NAME"]))[0]
    has: dict[str, Any] = found["HostConfig"]
    wanted = elsewhere.options(home, SOCKET, hf.engine.info())
    assert {each.removeprefix("CAP_") for each in has["CapAdd"]} == set(wanted["cap_add"])
    assert set(wanted["security_opt"]) <= set(has["SecurityOpt"])
    assert has["PidMode"] == wanted["pid_mode"]
    assert has["CgroupnsMode"] == wanted["cgroupns"]
    assert has["UsernsMode"] == wanted["userns_mode"]
    assert has["NetworkMode"] == wanted["network_mode"]
    assert not has["Privileged"]
    mounted = {each["Destination"]: each["RW"] for each in found["Mounts"]}
    assert mounted == {home: True} | {each["Target"]: not each["ReadOnly"] for each in wanted["mounts"]}
    assert (
        wanted["environment"].items() <= dict(each.split("=", 1) for each in found["Config"]["Env"]).items()
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "no image"),
        (["holdfast/controller:lost"], "does not have holdfast/controller:lost"),
    ],
)
def test_a_failure_to_start_is_one_line(variables: dict[str, str], words: list[str], why: str) -> None:
    done = subprocess.run(
        [SCRIPT, *words],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert why in done.stderr.splitlines()[-1]


def test_a_server_that_ends_at_once_says_why_and_leaves_nothing(variables: dict[str, str]) -> None:
    image = said("holdfast", "image", "build", "controller", **variables)
    done = subprocess.run(
        [SCRIPT, image, "--listen", "0.0.0.0:1"],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "must be a port of this machine's loopback" in done.stderr
    assert (
        said(
            "docker", "container", "ls", "--all", "--quiet", "--filter", f"name={variables['HOLDFAST_NAME']}"
        )
        == ""
    )

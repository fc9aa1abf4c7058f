"""A project's files at the build of its image: nothing of the host, by any way of asking.

The attacks are real: a listener on every address of the host counts who comes. Each is also made where it is
allowed, and succeeds there, so that it is known to have taken place.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.integration.conftest import Cli

from holdfast.base import polling
from holdfast.engine import buildkit_command
from holdfast.errors import ImageError
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.egress import host_network

pytestmark = pytest.mark.timeout(600)

ATTACK = r"""
import json, socket, struct, sys
port, where, *addresses = sys.argv[1:]
port = int(port)
found = {"capabilities": open("/proc/self/status").read().split("CapEff:")[1].split()[0], "tcp": {}}
def gateway():
    for line in open("/proc/net/route"):
        words = line.split()
        if words[1] == "00000000":
            return socket.inet_ntoa(bytes.fromhex(words[2])[::-1])
addresses.append(gateway())
for address in addresses:
    try:
        with socket.create_connection((address, port), timeout=5) as connection:
            found["tcp"][address] = connection.recv(10).decode()
    except OSError as error:
        found["tcp"][address] = ""
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("eth0", 0))
own = raw.getsockname()[4]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ask:
    ask.connect((gateway(), 9))
    source = ask.getsockname()[0]
for address in addresses:
    body = b"raw " + where.encode()
    udp = struct.pack("!HHHH", 4000, port, 8 + len(body), 0) + body
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton(address))
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    try:
        raw.send(b"\xff" * 6 + own + b"\x08\x00" + head + udp)
    except OSError as error:
        pass
with open("/attack.json", "w") as file:
    json.dump(found, file)
"""


class Listener:
    """Listens on every IPv4 address of the host, for TCP and UDP, and remembers what came."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("0.0.0.0", 0))
        self.port: int = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("0.0.0.0", self.port))
        self.came: list[str] = []
        self._own: set[str] = set()
        for target in (self._accept, self._receive):
            threading.Thread(target=target, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, (_, port) = self.tcp.accept()
                self.came.append(f"tcp {port}")
                with connection, suppress(OSError):
                    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def _receive(self) -> None:
        with suppress(OSError):
            while data := self.udp.recv(100):
                self.came.append(data.decode())

    def settled(self) -> list[str]:
        """Return the received packets, after everything sent before has been read: a packet of our own
        follows it."""
        mark = uuid4().hex
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            sending.sendto(mark.encode(), ("127.0.0.1", self.port))
        with socket.create_connection(("127.0.0.1", self.port)) as calling:
            self._own |= {mark, f"tcp {calling.getsockname()[1]}"}
        assert polling.until(lambda: self._own <= set(self.came), 60.0, 0.005)
        return ["tcp" if each.startswith("tcp ") else each for each in self.came if each not in self._own]


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    for each in (made.tcp, made.udp):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "attack.py").write_text(ATTACK)
    return made


def outcome(hf: Holdfast, image: str) -> Any:
    """The findings of the attack, as it left them in the image."""
    container = hf.engine.reserve(f"holdfast-test-{uuid4().hex[:12]}", image, {})
    assert container
    try:
        return json.loads(hf.engine.files.read(container, "/attack.json"))
    finally:
        hf.engine.kill_remove(container)


def attacking(hf: Holdfast, listener: Listener, where: str) -> str:
    own = [str(one) for one in host_network.look().addresses if one.version == 4 and not one.is_link_local]
    words = json.dumps(["/usr/bin/python3", "/attack.py", str(listener.port), where, *own])
    return f"FROM {build.ensure(hf.engine.images, 'session')}\nUSER 0\nCOPY attack.py /\nRUN {words}\n"


def test_no_step_of_a_build_reaches_the_host(
    hf: Holdfast, listener: Listener, project: Path, provided: Callable[[str], str]
) -> None:
    """Neither by its own sockets nor by packets that it gives to the link; allowed addresses are reached."""
    (project / "Dockerfile").write_text(attacking(hf, listener, "ruled"))
    found = outcome(hf, provided(hf.images.build(project)))
    assert found["tcp"]
    assert set(found["tcp"].values()) == {""}, found
    assert listener.settled() == []
    # The same attack in the engine's own network.
    (project / "Dockerfile").write_text(attacking(hf, listener, "free"))
    free = outcome(hf, provided(hf.images.build(project, network="engine")))
    assert "raw free" in listener.settled()
    reached = [address for address, said in free["tcp"].items() if said]
    assert reached
    assert int(str(free["capabilities"]), 16) >> 13 & 1  # CAP_NET_RAW, which no option takes from a step
    # And with one address opened.
    own = next(str(one) for one in host_network.look().addresses if str(one) in found["tcp"])
    (project / "Dockerfile").write_text(attacking(hf, listener, "opened"))
    opened = outcome(hf, provided(hf.images.build(project, allow=[f"{own}:{listener.port}"])))
    assert [address for address, said in opened["tcp"].items() if said] == [own]
    assert "raw opened" in listener.settled()


def test_a_build_without_a_network_has_none(
    hf: Holdfast, project: Path, provided: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    names = "import json, os; json.dump(os.listdir('/sys/class/net'), open('/attack.json', 'w'))"
    words = json.dumps(["/usr/bin/python3", "-c", names])
    (project / "Dockerfile").write_text(
        f"FROM {build.ensure(hf.engine.images, 'session')}\nUSER 0\nRUN {words}\n"
    )
    assert outcome(hf, provided(hf.images.build(project, network="none"))) == ["lo"]


def test_the_engine_fetches_nothing_for_a_project(
    hf: Holdfast, listener: Listener, project: Path, provided: Callable[[str], str]
) -> None:
    """By ADD, by a trigger of the base image, by the name of an image; only if the caller allows it."""
    url = f"http://127.0.0.1:{listener.port}/add"
    base = build.ensure(hf.engine.images, "session")
    trigger = provided(f"hf-test/{uuid4().hex[:12]}:1")
    parent = project.with_name("parent")
    parent.mkdir()
    (parent / "Dockerfile").write_text(f"FROM {base}\nONBUILD ADD {url} /added\n")
    hf.engine.images.tag(provided(hf.images.build(parent, remote_sources=True)), trigger)
    for text, why in (
        (f"FROM {base}\nADD {url} /added\n", "its Dockerfile makes the engine fetch .*: ADD http"),
        (f"FROM {trigger}\n", "its image hf-test/.* makes the engine fetch .*: ADD http"),
        (f"FROM 127.0.0.1:{listener.port}/x:1\n", "makes the engine contact a service of this machine"),
        (f"FROM {base}\nCOPY --from=localhost:{listener.port}/x /x /x\n", "a service of this machine"),
        (f"# syntax=127.0.0.1:{listener.port}/x\nFROM {base}\n", "the frontend 127"),
    ):
        (project / "Dockerfile").write_text(text)
        with pytest.raises(ImageError, match=why) as refused:
            hf.images.build(project)
        assert "--allow-remote-sources" in refused.value.hint
    assert listener.settled() == []
    (project / "Dockerfile").write_text(f"FROM {trigger}\n")
    provided(hf.images.build(project, remote_sources=True))
    assert set(listener.settled()) == {"tcp"}


def test_a_devcontainer_names_no_image_of_this_machine(
    hf: Holdfast, cli: Cli, listener: Listener, project: Path
) -> None:
    (project / ".devcontainer.json").write_text(json.dumps({"image": f"127.0.0.1:{listener.port}/x:1"}))
    refused = cli("new", "never", "--devcontainer", str(project))
    assert (refused.code, "a service of this machine" in refused.err) == (1, True), refused.err
    assert listener.settled() == []
    asked = cli("new", "never", "--devcontainer", str(project), "--allow-remote-sources")
    assert asked.code == 1
    assert "tcp" in listener.settled()
    assert hf.sessions() == []


def test_arguments_of_a_project_decide_nothing_on_the_host(
    hf: Holdfast, cli: Cli, project: Path, tmp_path: Path
) -> None:
    """A project brings a plugin of Docker's command, and an argument that names its folder."""
    command = shutil.which("docker")
    said = subprocess.run([command or "false", "--version"], capture_output=True, text=True, check=False)
    if command is None or buildkit_command.has_own(said.stdout):
        pytest.skip("Docker's command here has no plugin for builds")
    own, hostile = tmp_path / "own", project / "conf"
    for folder, marker in ((own, tmp_path / "asked"), (hostile, tmp_path / "attacked")):
        plugin = folder / "cli-plugins" / "docker-buildx"
        plugin.parent.mkdir(parents=True)
        about = '{"SchemaVersion":"0.1.0","Vendor":"x","Version":"v0.1","ShortDescription":"x"}'
        plugin.write_text(
            f"#!/bin/sh\n[ \"$1\" != docker-cli-plugin-metadata ] || exec echo '{about}'\n"
            f'[ "$2" != version ] || exec echo github.com/docker/buildx v0.1\n'
            f'echo "$*" >{marker}; env >>{marker}; exit 3\n'
        )
        plugin.chmod(0o755)
    base = build.ensure(hf.engine.images, "session")
    (project / "Dockerfile").write_text(f"FROM {base}\nARG DOCKER_CONFIG\nARG LD_PRELOAD\n")
    arguments = {
        "DOCKER_CONFIG": "${localWorkspaceFolder}/conf",
        "DOCKER_HOST": "unix:///nowhere",
        "LD_PRELOAD": "${localWorkspaceFolder}/x.so",
        "PATH": "${localWorkspaceFolder}",
        "VERSION": "7",
    }
    asked = {"build": {"dockerfile": "Dockerfile", "args": arguments}}
    (project / ".devcontainer.json").write_text(json.dumps(asked))
    words = ("new", "never", "--devcontainer", str(project), "--build-network", "none")
    done = cli(*words, DOCKER_CONFIG=str(own))
    assert done.code == 1, done.err
    lines = (tmp_path / "asked").read_text().splitlines()
    assert f"--build-arg DOCKER_CONFIG={project}/conf" in lines[0]
    assert "--build-arg VERSION=7" in lines[0]
    assert "--network none" in lines[0]
    environment = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
    assert environment["DOCKER_CONFIG"] == str(own)
    assert str(project) not in json.dumps(environment | {"PWD": ""})
    assert not (tmp_path / "attacked").exists()
    # The plugin of the project works: the caller may choose it.
    cli(*words, DOCKER_CONFIG=str(hostile))
    assert (tmp_path / "attacked").exists()

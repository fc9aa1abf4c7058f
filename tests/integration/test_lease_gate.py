"""The gate at a session's network, set by the real nft of the checkpointer's image: the kernel closes it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from holdfast import Holdfast
from holdfast.images import build
from holdfast.snapshots.checkpointer.egress import lease_gate

PATIENCE = 60.0
SET = """
import sys, nftables
nft = nftables.Nftables()
code, _, errors = nft.cmd(sys.argv[1])
assert code == 0, errors
nft.set_json_output(True)
print(nft.cmd("list table inet holdfast_lease")[1])
"""
INSIDE = "import socket; socket.create_connection(('127.0.0.1', 8000), 5).close(); print('reached')"


class Network:
    """A container that listens, whose network has the gate."""

    def __init__(self, image: str) -> None:
        words = ("--detach", "--cap-add", "NET_ADMIN", "--entrypoint", "python3", image, "-m", "http.server")
        self.container = _docker("run", *words, "8000")
        self._address = _docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", self.container)

    def open_for(self, seconds: float) -> dict[str, object]:
        """Set the gate; return nft's listing of it."""
        said = self.inside(SET, lease_gate.text(seconds))
        listed: dict[str, object] = json.loads(said)
        return listed

    def inside(self, program: str, *arguments: str) -> str:
        """Return what a program prints that runs in it."""
        return _docker("exec", self.container, "python3", "-c", program, *arguments)

    def answers(self) -> bool:
        """Return whether it takes a connection from this machine."""
        try:
            socket.create_connection((self._address, 8000), 1).close()
        except OSError:
            return False
        return True

    def until(self, answers: bool) -> None:
        """Wait until it answers, or until it does not."""
        deadline = time.monotonic() + PATIENCE
        while self.answers() != answers:
            assert time.monotonic() < deadline, f"answers {not answers} for {PATIENCE} s"
            time.sleep(0.05)


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def network(hf: Holdfast) -> Iterator[Network]:
    made = Network(build.ensure(hf.engine.images, "toolbox"))
    yield made
    _docker("rm", "--force", "--volumes", made.container)


def test_the_kernel_closes_a_network_whose_lease_is_not_renewed(network: Network) -> None:
    """No process has a part in it; loopback stays open, and another lease opens all again."""
    network.until(answers=True)
    assert lease_gate.is_set(network.open_for(600))
    assert network.answers()
    assert lease_gate.is_set(network.open_for(0.5))
    network.until(answers=False)
    assert network.inside(INSIDE) == "reached"
    assert lease_gate.is_set(network.open_for(600))
    network.until(answers=True)

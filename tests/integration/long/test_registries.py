"""Full transfers through a registry: to an empty engine, and through kills in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.machines.registry import Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine

from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.snapshots.bundle.keys import Keys

MEMORY = 256 << 20
"""Bytes that a kernel holds, and that no compression makes smaller."""
ENOUGH = 220 << 20
"""Bytes of a push, which is somewhat larger, after which it is killed: most layers have arrived."""


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory, shared_hf: Holdfast) -> Iterator[Machine]:
    """A second machine whose engine has the checkpointer's image, and no other."""
    toolbox = build.ensure(shared_hf.engine.images, "toolbox")
    with Machine(Path(tmp_path_factory.mktemp("bare")), [toolbox], of=shared_hf.engine) as machine:
        yield machine


@pytest.fixture
def session(shared: Session, shared_hf: Holdfast) -> Session:
    if not Keys(shared_hf.home).known():
        Keys(shared_hf.home).new("default")
    shared.exec("MOMENT=kept; echo text > /workspace/file")
    return shared


def test_an_empty_engine_gets_all_of_it(
    session: Session, registry: Registry, bare: Machine, tell: Callable[[str], None]
) -> None:
    """With `docker pull` its files, with `holdfast pull` its processes; prints the durations."""

    def timed(what: str, begun: float, more: str = "") -> None:
        tell(f"{what}: {time.monotonic() - begun:.1f} s{more}")

    session.cell(f"import mmap, os; data = mmap.mmap(-1, {MEMORY}); data.write(os.urandom({MEMORY}))")
    snapshot = session.snapshot("all")
    reference = f"{registry.address}/long/all:one"
    for what in ("the first time", "again"):
        begun = time.monotonic()
        pushed = snapshot.push(reference)
        timed(f"push, {what}", begun, f", {pushed.sent:,} of {pushed.bytes:,} bytes")
    session.exec("echo more > /workspace/more")
    begun = time.monotonic()
    later = session.snapshot("later").push(f"{registry.address}/long/all:two")
    timed("push after a command", begun, f", {later.sent:,} of {later.bytes:,} bytes")
    begun = time.monotonic()
    other = snapshot.push(f"{registry.address}/long/other:one")
    timed("push to another repository", begun, f", {other.sent:,} bytes")
    assert other.sent < 4 << 20

    with Relay(registry.port, port=registry.port, network_of=bare.daemon.pid) as door:
        assert bare.cli("key", "trust", str(pushed.signed_by)).returncode == 0
        for tag in ("one", "two"):
            before, begun = door.down, time.monotonic()
            pulled = bare.cli("pull", f"{registry.address}/long/all:{tag}")
            assert pulled.returncode == 0, pulled.stderr
            timed(f"pull {tag}", begun, f", {door.down - before:,} bytes")
        begun = time.monotonic()
        assert bare.cli("restore", "all", "--name", "back").returncode == 0
        timed("restore", begun)
        assert bare.cli("exec", "back", "echo $MOMENT").stdout == "kept\n"
        with bare.holdfast() as there:
            for one in there.sessions():
                one.remove()
            for copy in reversed(there.snapshots()):
                copy.remove()
        begun = time.monotonic()
        ran = bare.run("docker", "run", "--rm", reference, "cat", "/workspace/file")
        timed("docker pull and run", begun)
        assert (ran.returncode, ran.stdout) == (0, "text\n"), ran.stderr


def test_a_killed_push_continues(
    session: Session, tmp_path: Path, shared_hf: Holdfast, tell: Callable[[str], None]
) -> None:
    """In the middle of a layer: arrived data is not sent again, and nothing is visible before the end."""
    session.snapshot("killed")
    with Registry(tmp_path / "registry") as registry, Relay(registry.port) as relay:
        reference = f"{relay.address}/long/killed:one"
        command = [sys.executable, "-m", "holdfast", "push", "killed", reference]
        environment = {**os.environ, "HOLDFAST_HOME": str(shared_hf.home.root)}
        relay.hold_after(up=ENOUGH)
        with subprocess.Popen(command, env=environment) as pushing:
            relay.wait()
            os.kill(pushing.pid, signal.SIGKILL)
        relay.release(drop=True)
        first = relay.up
        arrived = sum(path.stat().st_size for path in tmp_path.glob("registry/blobs/**/blobs/**/data"))
        tags = httpx.get(f"http://{registry.address}/v2/long/killed/tags/list").json()
        assert not tags.get("tags")
        assert subprocess.run(command, env=environment, check=False).returncode == 0
        second = relay.up - first
        tell(f"killed after {first:,} bytes, of which {arrived:,} count; then {second:,} were sent")
        whole = shared_hf.snapshot("killed").push(reference).bytes
    assert arrived > 0
    assert second < whole - arrived + (2 << 20)

"""Snapshots go to another machine through a registry, and ordinary tools see an ordinary image there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.machines.fixtures import Warm
from tests.machines.registry import PASSWORD, SHARED, USER, Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine
from tests.machines.seed import know_layers
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.errors import SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.transfer.push_pull import Pushed
from holdfast.snapshots.bundle.keys import Keys

DATA = 24 << 20
"""Bytes that a kernel holds, and that no compression makes smaller."""
# Shared memory has a file of its own among the images: activity around it does not move its parts.
HOLD = f"import mmap, os; {{0}} = mmap.mmap(-1, {DATA}); {{0}}.write(os.urandom({DATA}))"
SMALL = 1 << 20
"""Manifests, a layer with a few files, headers."""


@dataclass
class World:
    """A pushed snapshot, and the machine it is wanted on."""

    session: Session
    snapshot: Snapshot
    pushed: Pushed
    machine: Machine
    door: Relay
    registry: Registry

    @property
    def reference(self) -> str:
        return f"{self.registry.address}/{SHARED}:one"

    def get(self, path: str, accept: str = "") -> Any:
        url = f"http://{self.registry.address}/v2/{path}"
        return httpx.get(url, headers={"Accept": accept} if accept else {}).raise_for_status().json()

    def manifest(self, tag: str, system: str) -> Any:
        """Return the manifest of the ordinary image (`linux`), or of the live state (`unknown`)."""
        index = self.get(f"{SHARED}/manifests/{tag}", "application/vnd.oci.image.index.v1+json")
        (found,) = [each for each in index["manifests"] if each["platform"]["os"] == system]
        return self.get(f"{SHARED}/manifests/{found['digest']}", found["mediaType"])

    def segments(self, tag: str) -> dict[str, int]:
        """Return the parts of the live state in the registry: their sizes by digest."""
        return {each["digest"]: int(each["size"]) for each in self.manifest(tag, "unknown")["layers"]}


@pytest.fixture(scope="module")
def world(
    shared_hf: Holdfast,
    shared: Session,
    second: Machine,
    registry: Registry,
    door: Callable[[Registry], Relay],
    warm: Warm,
) -> Iterator[World]:
    Keys(shared_hf.home).new("default")
    shared.exec(f"echo {SECRETS['npm token'][0]} > /workspace/token")
    shared.exec("MOMENT=kept; echo text > /workspace/file; echo shared > /dev/shm/part")
    shared.exec("python3 -m http.server -d /workspace 8000 >/dev/null 2>&1 &")
    shared.task.set(goal="Port the store", artifacts="*.whl")
    shared.task.plan("Change\n- Keep :: test $MOMENT = kept\n- Write :: test -s /workspace/file")
    assert shared.task.done("1.1").done
    shared.cell(HOLD.format("data"))
    shared.cell("import hashlib; digest = hashlib.sha256(data).hexdigest()")
    snapshot = shared.snapshot("one")
    warm.into(shared_hf.home)
    pushed = snapshot.push(f"{registry.address}/{SHARED}:one")
    warm.of(shared_hf.home)
    made = World(shared, snapshot, pushed, second, door(registry), registry)
    yield made
    with second.holdfast() as there:
        for session in there.sessions():
            session.remove()
        for one in reversed(there.snapshots()):
            one.remove()
    assert list(second.home.snapshots.iterdir()) == []


def test_untrusted_signers_are_refused_in_one_line(world: World) -> None:
    """With the command that would trust the key; nothing is left of the attempt."""
    refused = world.machine.cli("pull", world.reference)
    assert refused.returncode == 1
    first, hint = refused.stderr.splitlines()
    assert "it is signed by a key you do not trust" in first
    assert f"holdfast key trust {world.pushed.signed_by}" in hint
    assert list(world.machine.home.snapshots.iterdir()) == []


def test_pushed_snapshots_were_searched(world: World) -> None:
    """Even if layers are not read because the registry has them."""
    found = {(one.rule, one.where) for one in world.pushed.findings}
    assert ("npm token", "/workspace/token") in found
    assert world.pushed.scrubbed["npm token"] >= 1


def test_a_pulled_snapshot_continues(world: World) -> None:
    """Trusted, pulled and restored: shell, kernel, server, files and memory are unchanged."""
    assert world.machine.cli("key", "trust", str(world.pushed.signed_by)).returncode == 0
    pulled = world.machine.cli("pull", world.reference, "--json")
    assert pulled.returncode == 0, pulled.stderr
    told = json.loads(pulled.stdout)
    assert told["label"] == "one"
    assert told["origin"]["from"] == world.pushed.pinned
    with world.machine.holdfast() as there:
        back = there.snapshot("one").restore("back")
        said = back.exec("echo $MOMENT; cat /dev/shm/part; curl -s localhost:8000/file").text.split()
        assert said == ["kept", "shared", "text"]
        assert back.cell("hashlib.sha256(data).hexdigest() == digest").text == "True"
        record = back.task.resume().record
        assert record == world.session.task.record()
        assert record.finished == (1, 2)
        assert back.task.done("1.2").done
        assert [(each.session, each.state) for each in there.board()] == [("back", "done")]
        back.remove()


def test_ordinary_tools_see_an_image(world: World) -> None:
    """A registry lists it, `docker manifest` shows it, and `docker run` starts its files."""
    assert SHARED in world.get("_catalog")["repositories"]
    assert "one" in world.get(f"{SHARED}/tags/list")["tags"]
    manifest = world.manifest("one", "linux")
    config = world.get(f"{SHARED}/blobs/{manifest['config']['digest']}")
    # Parts of the session's image that it has are not fetched again, as if it had come from a registry.
    digests = [layer["digest"] for layer in manifest["layers"]]
    know_layers(world.machine.daemon.data, zip(digests, config["rootfs"]["diff_ids"], strict=True))
    shown = world.machine.run("docker", "manifest", "inspect", "--insecure", world.reference)
    assert shown.returncode == 0, shown.stderr
    platforms = [each["platform"]["architecture"] for each in json.loads(shown.stdout)["manifests"]]
    assert platforms == [config["architecture"], "unknown"]
    ran = world.machine.run("docker", "run", "--rm", world.reference, "cat", "/workspace/file")
    assert (ran.returncode, ran.stdout) == (0, "text\n"), ran.stderr
    assert world.machine.run("docker", "rmi", world.reference).returncode == 0


def test_only_new_data_is_sent(world: World, shared_cli: Any) -> None:
    """For the same snapshot, the index; for a session that continued, neither its image nor
    unchanged memory.
    """
    again = shared_cli("push", "one", world.reference, "--json").json
    assert (again["pinned"], again["bytes"]) == (world.pushed.pinned, world.pushed.bytes)
    assert again["sent"] < 4096
    world.session.exec("echo more > /workspace/more")
    world.session.cell(HOLD.format("more"))
    later = world.session.snapshot("two")
    pushed = later.push(f"{world.registry.address}/{SHARED}:two")
    assert pushed.bytes > world.pushed.bytes - (1 << 20)
    assert pushed.sent < pushed.bytes - DATA - (200 << 20)
    assert pushed.sent > DATA


def test_a_tag_with_the_session_as_another_machine_continued_it_is_not_replaced(
    world: World, shared_hf: Holdfast
) -> None:
    """A push says that two machines have it, before anything is sent; other tags are free."""
    mine = world.session.refresh().row.details["tenures"]
    shared_hf.store.keep_details(world.session.id, tenures=Tenures.begun(0.0, "here").kept())
    with pytest.raises(SessionExists, match=r"another machine has continued session .* two machines have it"):
        world.snapshot.push(f"{world.registry.address}/{SHARED}:one")
    shared_hf.store.keep_details(world.session.id, tenures=mine)


def test_a_killed_pull_continues(world: World) -> None:
    """Received data is not fetched again, nor memory that an earlier snapshot had."""
    reference = f"{world.registry.address}/{SHARED}:two"
    old, wanted = world.segments("one"), world.segments("two")
    new = {digest: size for digest, size in wanted.items() if digest not in old}
    assert sum(new.values()) < sum(wanted.values()) - DATA + (1 << 20)
    world.door.hold_after(down=DATA)
    command = world.machine.command(*world.machine.holdfast_command, "pull", reference)
    with subprocess.Popen(command, env=world.machine.environment) as pulling:
        world.door.wait()
        os.kill(pulling.pid, signal.SIGKILL)
    world.door.release(drop=True)
    downloads = world.machine.home.root / "downloads"
    here = {f"sha256:{path.stem}": path.stat().st_size for path in downloads.iterdir()}
    came = sum(size for digest, size in here.items() if digest in new)
    # Not all that the door let through: some was in the buffers of the connections.
    assert came > 4 << 20
    before = world.door.down
    pulled = world.machine.cli("pull", reference)
    assert pulled.returncode == 0, pulled.stderr
    with world.machine.holdfast() as there:
        assert there.snapshot("two").kind == "live"
    assert world.door.down - before < sum(new.values()) - came + SMALL


def test_refusals_are_one_line(world: World, password_registry: Registry, shared_cli: Any) -> None:
    """A wrong password, a missing name: reported once, with advice."""
    reference = f"{password_registry.address}/{SHARED}:one"
    wrong = {"HOLDFAST_REGISTRY_USER": USER, "HOLDFAST_REGISTRY_PASSWORD": f"not {PASSWORD}"}
    denied = shared_cli("push", "one", reference, **wrong)
    assert denied.code == 1
    first, hint = denied.err.splitlines()
    assert first == (
        f"holdfast: cannot log in to {password_registry.address}: "
        "user 'holdfast' or the password is not accepted"
    )
    assert "docker login" in hint
    refused = world.machine.cli("pull", world.reference.replace(":one", ":none"))
    assert refused.returncode == 1
    missing = f"holdfast: cannot pull {world.reference[:-4]}:none: the registry does not have it"
    assert refused.stderr.startswith(missing)

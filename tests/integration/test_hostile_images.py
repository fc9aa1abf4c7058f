"""Images whose links lead away from where we mount something: no program of theirs is the first process.

The engine finds the place for a mount, and the kernel what it starts, each on its own. `/proc/self/cwd` and
`/proc/self/fd/N` are different places for each.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from docker.types import Mount
from tests.integration.test_egress import HostService

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.engine import networks
from holdfast.errors import ImageError, NetworkNotClosed
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest import layout
from holdfast.runtime.sessions import init_program

pytestmark = pytest.mark.thorough

KNOWN = "/opt/holdfast/bin/init"
"""A place that the author of an image may know. The first process was started from it once."""
# Calls the host, leaves a word, and becomes our first process, which it finds where the engine mounted it.
PROGRAM = """#!/bin/bash
echo "$0" >>/srv/ran
for address in {addresses}; do (exec 3<>"/dev/tcp/$address/{port}") 2>/dev/null; done
exec "$(awk '$4 ~ "/init/" {{print $5; exit}}' /proc/self/mountinfo)" "$@"
"""


@dataclass
class Images:
    """Makes images from ours, with files of an attacker's in them."""

    hf: Holdfast
    made: list[str] = field(default_factory=list)

    def make(self, links: dict[str, str], program: str = "") -> str:
        """Return an image in which paths are these links, and `program` lies where its programs begin."""
        layer, context = io.BytesIO(), io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            for path, target in links.items():
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                archive.addfile(entry)
            if program:
                for folder in ("workspace/", ""):  # where sessions began once, and where containers do
                    _add(archive, f"{folder}init", program.encode())
        base = build.ensure(self.hf.engine.images, "session")
        with tarfile.open(fileobj=context, mode="w") as archive:
            _add(archive, "Dockerfile", f"FROM {base}\nADD layer.tar /\n".encode())
            _add(archive, "layer.tar", layer.getvalue())
        context.seek(0)
        name = f"holdfast-test/links-{len(self.made)}:{self.hf.home.digest}"
        self.made.append(name)
        self.hf.engine.client.images.build(fileobj=context, custom_context=True, rm=True, tag=name)
        return name


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))


@pytest.fixture(scope="module")
def images(shared_hf: Holdfast) -> Iterator[Images]:
    found = Images(shared_hf)
    yield found
    for session in shared_hf.sessions():
        session.remove()
    for snapshot in reversed(shared_hf.snapshots()):
        snapshot.remove()
    for name in found.made:
        shared_hf.engine.client.images.remove(name, force=True)


@pytest.fixture
def service() -> Iterator[HostService]:
    """A service of the host, which notes who comes."""
    made = HostService()
    yield made
    made.close()


@pytest.fixture
def program(shared_hf: Holdfast, service: HostService) -> str:
    """A program that calls that service."""
    network = shared_hf.engine.client.api.inspect_network(networks.ensure(shared_hf.engine))
    addresses = f"{network['IPAM']['Config'][0]['Gateway']} 172.17.0.1"
    return PROGRAM.format(addresses=addresses, port=service.port)


def assert_ours(hf: Holdfast, *sessions: Session) -> None:
    """The first process of each is our program, and it is at a place of its own."""
    known = {(path.stat().st_dev, path.stat().st_ino) for path in hf.home.init.glob("*/*")}
    places = set()
    for session in sessions:
        state = hf.engine.inspect(str(session.row.container_id))
        assert state is not None
        running = Path(f"/proc/{state.pid}/exe").stat()
        assert (running.st_dev, running.st_ino) in known
        assert state.program.startswith(layout.FIRST_PROCESS)
        places.add(state.program)
    assert len(places) == len(sessions)


@contextmanager
def started_as_before(hf: Holdfast, image: str) -> Iterator[str]:
    """Start the image as sessions once were: its program runs first. Yield the id of the container."""
    init = init_program.obtain(hf.engine, hf.home, print)
    container = hf.engine.client.containers.create(
        image,
        entrypoint=[KNOWN],
        command=["start"],
        network=networks.ensure(hf.engine),
        working_dir="/workspace",
        mounts=[Mount(KNOWN, str(init), type="bind", read_only=True)],
    )
    try:
        container.start()
        yield str(container.id)
    finally:
        container.remove(force=True)


def perform(hf: Holdfast, image: str, service: HostService) -> None:
    """Have a program of the image run first: it reaches the host."""
    with started_as_before(hf, image) as container:
        assert polling.until(lambda: service.came, 60), container
        assert hf.engine.files.read(container, "/srv/ran")
    service.came.clear()


def test_a_program_of_an_image_does_not_run_before_the_rules(
    shared_hf: Holdfast, images: Images, service: HostService, program: str
) -> None:
    """Neither in a session of that image, nor, after root has replaced it, in copies of the session."""
    image = images.make({"/opt/holdfast/bin": "/proc/self/cwd"}, program)
    perform(shared_hf, image, service)

    session = shared_hf.new("evil", image=image)
    again = session.exec("x=42; sed -i '2a echo again >>/srv/ran' init && ! test -e /srv/ran && ./init x")
    assert "usage: init start" in again.text, again.text  # it ran, and became ours
    assert session.exec("cat /srv/ran && rm /srv/ran").text.split() == ["./init", "again"]
    assert service.came == []
    taken = session.snapshot("taken")
    copies = [*taken.fork(1, "fork"), session.snapshot("files", kind="filesystem").restore("files")]
    session.rewind(taken)
    session.suspend()
    session.resume()

    assert copies[0].exec("echo $x").text == "42\n"
    for each in (session, *copies):
        assert each.exec("cat /workspace/init").text.splitlines()[2] == "echo again >>/srv/ran"
        assert each.exec("test -e /srv/ran").exit_code == 1
    assert service.came == []
    assert_ours(shared_hf, session, *copies)


STAYS = """#!/bin/bash
exec sleep 600
"""


def test_a_program_of_an_image_is_refused_if_it_is_the_first_after_all(
    shared_hf: Holdfast, images: Images, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the name were known: whether it became our program in time, or remains a foreign one."""
    monkeypatch.setattr(init_program, "place", lambda: KNOWN)
    became = images.make({"/opt/holdfast/bin": "/proc/self/cwd"}, program)
    stays = images.make({"/opt/holdfast/bin": "/proc/self/cwd"}, STAYS)

    with pytest.raises(ImageError, match=f"{KNOWN} does not lead to the folder mounted there"):
        shared_hf.new("never", image=became)
    with pytest.raises(NetworkNotClosed, match="first process is not Holdfast's own"):
        shared_hf.new("never", image=stays)


def test_a_program_of_a_bundle_by_a_stranger_does_not_run_before_the_rules(
    shared_hf: Holdfast, images: Images, service: HostService, program: str, tmp_path: Path, clear: Any
) -> None:
    """Its files are all that is taken; links are among these."""
    image = images.make({"/opt/holdfast/bin": "/proc/self/cwd"}, program)
    perform(shared_hf, image, service)
    bundle = tmp_path / "bundle.tar"
    session = shared_hf.new("author", image=image)
    session.snapshot("sent", kind="filesystem").export(bundle, thin=True)
    session.remove()

    with Holdfast(Home(tmp_path / "stranger").create()) as stranger:
        came = stranger.import_(bundle, files_only=True)
        copy = came.restore("copy")
        try:
            assert copy.exec("readlink /opt/holdfast/bin; test -x init; echo $?; ls /srv").text.split() == [
                "/proc/self/cwd",
                "0",
            ]
            assert service.came == []
            assert_ours(stranger, copy)
        finally:
            clear(stranger)


ELSEWHERE = ("/proc/self/cwd", "/proc/self/fd/5", "/dev/shm", "/run")


@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_link_in_the_way_of_the_shared_folder_is_refused(
    shared_hf: Holdfast, images: Images, target: str
) -> None:
    """On each step of its path, in one clear line; also where no checkpointer is needed."""
    before = {session.name for session in shared_hf.sessions()}
    for path in ("/run", "/run/holdfast"):
        image = images.make({path: target})
        for network in ("internet", "none"):
            with pytest.raises(ImageError, match=r"cannot start .*/run/holdfast") as refused:
                shared_hf.new("never", image=image, network=network)
            assert "\n" not in str(refused.value)
    assert {session.name for session in shared_hf.sessions()} == before


def test_a_link_in_the_way_of_the_first_process_is_of_no_use(
    shared_hf: Holdfast, images: Images, service: HostService, program: str
) -> None:
    """No image knows the name below; where the engine lets a link stay above, the session does not start."""
    for target in ("/proc/self/cwd", "/proc/self/fd/5", "/workspace"):
        image = images.make({"/dev": target}, program)
        with suppress(ImageError):
            session = shared_hf.new(image=image)
            assert session.exec("test -e /srv/ran").exit_code == 1
            assert_ours(shared_hf, session)
            session.remove()
    assert service.came == []


def test_a_link_in_the_way_of_a_trusted_file_is_refused(shared_hf: Holdfast, images: Images) -> None:
    """On each step of its path: programs would trust what the image has there."""
    targets = {"/opt": "/proc/self/cwd", "/opt/holdfast": "/proc/self/fd/5", "/opt/holdfast/trust": "/srv"}
    for path, target in targets.items():
        with pytest.raises(ImageError, match=r"cannot start .*/opt/holdfast/trust"):
            shared_hf.new("never", image=images.make({path: target}), secrets=["TOKEN@example.org=its-value"])


def test_a_link_in_the_way_of_a_chosen_folder_is_followed_only_within_the_image(
    shared_hf: Holdfast, images: Images, tmp_path: Path
) -> None:
    """Files that a session writes there would be lost otherwise."""
    (tmp_path / "file").write_text("of the host")
    hostile = {"/cwd": "/proc/self/cwd/new", "/fd": "/proc/self/fd/5", "/pid": "/proc/1/root/srv"}
    image = images.make(hostile | {"/in": "/srv"})
    for path in hostile:
        with pytest.raises(ImageError, match=rf"cannot start .* {path}"):
            shared_hf.new("never", image=image, mounts=[f"{tmp_path}:{path}:ro"])

    session = shared_hf.new(image=image, mounts=[f"{tmp_path}:/in/here:ro"])
    assert session.exec("cat /srv/here/file").text == "of the host"

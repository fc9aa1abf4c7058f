"""An engine whose disk is full or nearly so: verbs that need room say so, and leave nothing half-made."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.errors import EngineError, ImageError
from holdfast.images import build
from holdfast.images.build_context import BuildContext, ContextFile

FULL = "the engine's disk is full"
SIZE = "3g"
"""Of the engine's disk; the images of sessions take 1.2 GB of it."""
LARGE = 20_000_000
"""Bytes of a file in the session, more than is ever left free."""


class Small:
    """A machine whose engine's disk can be filled."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._filler = machine.daemon.data / "filler"

    def leave(self, free: int) -> None:
        """Fill the disk but for this many bytes."""
        self._filler.unlink(missing_ok=True)
        with self._filler.open("wb") as file:
            while (missing := self._free() - free) > 0:
                file.write(bytes(min(missing, 1 << 20)))
                file.flush()

    def _free(self) -> int:
        room = os.statvfs(self._filler.parent)
        return room.f_bavail * room.f_frsize

    def clear(self) -> None:
        """Make room again."""
        self._filler.unlink(missing_ok=True)

    def refuses(self, *words: str) -> None:
        """Run a verb that must fail for lack of room, in one line with a hint, and change nothing."""
        before = self._kept()
        done = self.machine.cli(*words)
        found = [line for line in done.stderr.splitlines() if line.startswith("holdfast: cannot ")]
        assert (done.returncode, len(found)) == (1, 1), (words, done.stderr)
        assert FULL in found[0], (words, done.stderr)
        assert "make room there" in done.stderr.partition(found[0])[2], (words, done.stderr)
        assert self._kept() == before, words

    def does(self, *words: str) -> str:
        """Return the output of a verb, which must succeed."""
        done = self.machine.cli(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def _kept(self) -> tuple[object, ...]:
        engine = self.machine.engine
        sessions, snapshots = (json.loads(self.does(verb, "--json")) for verb in ("ls", "snapshots"))
        return (
            [one["id"] for one in sessions],
            [one["id"] for one in snapshots],
            set(engine.containers(holdfast_role="session")),
            self.images(),
        )

    def images(self) -> set[str]:
        """Return the ids of all images of the engine, including unfinished ones of a build."""
        return set(self.machine.engine.client.api.images(all=True, quiet=True))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    disk = tmp_path / "disk"
    (disk / "data").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=710", "none", disk / "data"], check=True)
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        images.append(build.obtain_base(engine.images, print))
        (tmp_path / "m").mkdir()
        with Machine(tmp_path / "m", images, of=engine, disk=disk) as machine:
            yield Small(machine)
    finally:
        engine.close()
        subprocess.run(["umount", "--lazy", disk / "data"], check=True)


def test_verbs_that_need_room_are_refused(small: Small) -> None:
    """Also verbs that have begun; existing sessions continue, and verbs that free room do not need any."""
    small.leave(0)
    small.refuses("new", "--name", "none")
    small.clear()
    small.does("new", "--name", "work")
    small.does("exec", "work", f"head -c {LARGE} /dev/urandom > /root/large; kept=here")
    small.does("snapshot", "work", "--label", "before")
    small.does("exec", "work", f"head -c {LARGE} /dev/urandom > /root/more")
    small.leave(0)
    small.refuses("restore", "before", "--name", "copy")
    small.leave(4 << 20)
    small.refuses("snapshot", "work")
    small.refuses("snapshot", "work", "--kind", "filesystem")
    small.refuses("fork", "work", "--name", "other")
    small.refuses("suspend", "work")
    small.refuses("rewind", "work", "before")
    assert small.does("exec", "work", "echo $kept") == "here\n"
    found = {line["name"]: line for line in json.loads(small.machine.cli("doctor", "--json").stdout)}
    assert (found["engine disk"]["ok"], found["engine disk"]["detail"][:3]) == (False, "0.0")
    small.leave(0)
    for words in (["rm", "work"], ["rmi", "before"], ["gc"]):
        small.does(*words)


def test_a_build_without_room_leaves_nothing(small: Small, tmp_path: Path) -> None:
    """Neither the import of a base, nor a build that cannot begin, nor one whose steps fill the disk. With
    room, the same build succeeds.
    """
    engine = small.machine.engine
    toolbox, session = (build.reference(kind) for kind in ("toolbox", "session"))
    engine.images.untag(toolbox)
    small.leave(0)
    small.refuses("image", "build", "toolbox")
    before = small.images()
    archive = tmp_path / "base.tar"
    with tarfile.open(archive, "w") as made:
        member = tarfile.TarInfo("large")
        member.size = LARGE
        made.addfile(member, io.BytesIO(bytes(LARGE)))
    with pytest.raises((ImageError, EngineError), match=FULL):
        build.import_system(engine.images, archive, "holdfast/rootfs:full-trial")
    assert small.images() == before

    kind = "full-trial"
    steps = "".join(f"RUN head -c {size}M /dev/urandom > /{size} && sync\n" for size in (8, 60))
    recipe = ContextFile(f"ARG BASE\nFROM ${{BASE}}\nCOPY {kind} /{kind}\n{steps}".encode())
    made_of = BuildContext(kind, {f"{kind}/Dockerfile": recipe})
    tag = f"holdfast/{kind}:{made_of.digest}"

    def once() -> str:
        return build.once(engine.images, made_of, tag, lambda: session, print, tmp_path, turn=kind)

    small.leave(40 << 20)
    containers = engine.containers()
    with pytest.raises(ImageError, match=f"^cannot build {tag}: {FULL}$") as refused:
        once()
    assert "make room there" in refused.value.hint
    assert small.images() == before
    assert engine.containers() == containers
    small.clear()
    assert once() == tag

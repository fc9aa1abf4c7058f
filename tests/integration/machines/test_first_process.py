"""Hostile images on a newer engine, with either store: the first process is ours on each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.test_hostile_images import (
    PROGRAM,
    Images,
    assert_ours,
    started_as_before,
)
from tests.machines.cells import OLDER, EngineSpec
from tests.machines.engine_kinds import CONTAINERD
from tests.machines.engines import Engines

from holdfast.base import polling
from holdfast.errors import ImageError
from holdfast.runtime.api.controller import Holdfast

SPECS = (OLDER, EngineSpec("trixie", CONTAINERD))


@pytest.fixture(params=SPECS, ids=lambda spec: str(spec.name))
def there(request: pytest.FixtureRequest, engines: Engines) -> Iterator[Holdfast]:
    """A controller on each engine, whose home is left empty."""
    engines.only(request.param)
    with engines.get(request.param).holdfast() as controller:
        yield controller
        for session in controller.sessions():
            session.remove()
        for snapshot in reversed(controller.snapshots()):
            snapshot.remove()


@pytest.fixture
def images(there: Holdfast) -> Iterator[Images]:
    """Images of an attacker, made by that engine."""
    made = Images(there)
    yield made
    for name in made.made:
        there.engine.client.images.remove(name, force=True)


def test_no_program_of_an_image_is_the_first(images: Images, there: Holdfast) -> None:
    """Neither in a session of it, nor in its copies; links in the way of other mounts are refused."""
    program = PROGRAM.format(addresses="", port=1)
    image = images.make({"/opt/holdfast/bin": "/proc/self/cwd"}, program)
    with started_as_before(there, image) as container:  # the attack takes place on this engine
        assert polling.until(lambda: there.engine.files.read(container, "/srv/ran"), 60)

    session = there.new("evil", image=image)
    assert session.exec("x=42; readlink /opt/holdfast/bin; test -x init").text == "/proc/self/cwd\n"
    copies = [*session.snapshot("taken").fork(1, "fork")]
    copies.append(session.snapshot("files", kind="filesystem").restore("files"))
    session.suspend()
    session.resume()
    assert copies[0].exec("echo $x").text == "42\n"
    for each in (session, *copies):
        assert each.exec("test -e /srv/ran").exit_code == 1
    assert_ours(there, session, *copies)

    for path in ("/run", "/run/holdfast"):
        for target in ("/proc/self/cwd", "/proc/self/fd/5", "/dev/shm"):
            with pytest.raises(ImageError, match=r"cannot start .*/run/holdfast"):
                there.new("never", image=images.make({path: target}))

"""The second machine and the registries, as fixtures that are started once for all tests that use them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.machines.registry import PASSWORD, USER, Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine
from tests.machines.tokens import TokenServer

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.images import build


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry without authentication. Each test uses repositories of its own."""
    with Registry(tmp_path_factory.mktemp("registry")) as started:
        yield started


@pytest.fixture(scope="session")
def password_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with basic authentication: USER and PASSWORD of tests.machines.registry."""
    with Registry.with_password(tmp_path_factory.mktemp("password-registry")) as started:
        yield started


@pytest.fixture(scope="session")
def token_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    """The token server of `token_registry`."""
    with TokenServer(USER, PASSWORD, tmp_path_factory.mktemp("tokens")) as started:
        yield started


@pytest.fixture(scope="session")
def token_registry(tmp_path_factory: pytest.TempPathFactory, token_server: TokenServer) -> Iterator[Registry]:
    """A registry that only accepts tokens of `token_server`, which wants USER and PASSWORD."""
    with Registry(tmp_path_factory.mktemp("token-registry"), auth=token_server.config()) as started:
        yield started


class Warm:
    """Compressed layers, shared by the homes of tests.

    Compressing the session's image takes ten seconds. A push to SHARED of `registry` after `into`
    does not repeat it: layers known to be there are not even read.
    """

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "layers.json"

    def into(self, home: Home) -> None:
        """Pass the results of others to a home, before a push."""
        if self._kept.exists():
            (home.root / "cache").mkdir(mode=0o700, exist_ok=True)
            shutil.copy(self._kept, home.root / "cache")

    def of(self, home: Home) -> None:
        """Keep the results of a home, after a push."""
        with suppress(FileNotFoundError):
            shutil.copy(home.root / "cache" / "layers.json", self._kept)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Warm:
    """Fast pushes to `registry`, once one test has pushed."""
    return Warm(tmp_path_factory.mktemp("warm"))


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A second machine, with an engine that has the images of Holdfast and nothing else.

    Tests leave it as they find it, except for images from a registry.
    """
    # The path of a Unix socket has 108 bytes at most: no deep folder.
    root = Path(tmp_path_factory.mktemp("m2"))
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        with Machine(root, images, of=engine) as machine:
            yield machine
    finally:
        engine.close()
    assert not root.exists()


@pytest.fixture(scope="session")
def door(second: Machine) -> Iterator[Callable[[Registry], Relay]]:
    """A relay that makes a registry, and nothing else, reachable on the second machine under its usual
    address.
    """
    with ExitStack() as opened:
        made: dict[int, Relay] = {}

        def open_door(to: Registry) -> Relay:
            if to.port not in made:
                relay = Relay(to.port, port=to.port, network_of=second.daemon.pid)
                made[to.port] = opened.enter_context(relay)
            return made[to.port]

        yield open_door

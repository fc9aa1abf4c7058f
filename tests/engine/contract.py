"""Behavior of every engine, the real one and the fake: tests for classes with fixtures `engine` and `image`.

`image` is the id of an image whose containers run `sleep`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from holdfast.base import polling
from holdfast.engine.engine import Engine
from holdfast.errors import EngineError, ImageError

Make = Callable[[], str]


class EngineContract:
    @pytest.fixture
    def label(self) -> str:
        return uuid4().hex

    @pytest.fixture
    def make(self, engine: Engine, image: str, label: str) -> Any:
        """Creates a container; all of them are removed at the end."""
        made = []

        def create(name: str = "") -> str:
            made.append(
                engine.create_session_container(
                    image=image,
                    name=name or f"holdfast-test-{uuid4().hex[:12]}",
                    labels={"holdfast.test": label},
                    entrypoint=["sleep"],
                    command=["600"],
                )
            )
            return made[-1]

        yield create
        for identity in made:
            engine.kill_remove(identity)

    def test_a_container_is_found_by_id_name_and_label(self, engine: Engine, make: Any, label: str) -> None:
        name = f"holdfast-test-{uuid4().hex[:12]}"
        identity = make(name)
        for ref in (identity, name):
            state = engine.inspect(ref)
            assert state is not None
            assert (state.id, state.running, state.labels["holdfast.test"]) == (identity, False, label)
        assert list(engine.containers(holdfast_test=label)) == [identity]
        assert engine.containers(holdfast_test="another") == {}

    def test_only_started_containers_run(self, engine: Engine, make: Make, label: str) -> None:
        make()
        started = make()
        assert engine.running(holdfast_test=label) == set()
        engine.start(started)
        assert engine.running(holdfast_test=label) == {started}
        state = engine.inspect(started)
        assert state is not None
        assert state.pid > 0

    def test_a_name_is_given_once(self, engine: Engine, image: str, make: Any, label: str) -> None:
        name = f"holdfast-test-{uuid4().hex[:12]}"
        first = make(name)
        with pytest.raises(EngineError):
            make(name)
        assert engine.reserve(name, image, {"holdfast.test": label}) is None
        assert engine.kill_remove(first)
        reserved = engine.reserve(name, image, {"holdfast.test": label})
        assert reserved is not None
        assert engine.kill_remove(reserved)

    def test_a_renamed_container_is_found_by_its_new_name(self, engine: Engine, make: Make) -> None:
        identity, name = make(), f"holdfast-test-{uuid4().hex[:12]}"
        engine.rename(identity, name)
        state = engine.inspect(name)
        assert state is not None
        assert state.id == identity

    def test_a_paused_container_runs_and_may_be_paused_again(self, engine: Engine, make: Make) -> None:
        identity = make()
        engine.start(identity)
        for _ in range(2):
            engine.pause(identity)
            state = engine.inspect(identity)
            assert state is not None
            assert (state.running, state.paused) == (True, True)
        engine.unpause(identity)

        def continues() -> bool:
            # An engine that is busy may still believe that it is paused: events of before reach it later.
            state = engine.inspect(identity)
            return state is not None and not state.paused

        assert polling.until(continues, 30.0, 0.05)

    def test_a_removed_container_is_gone(self, engine: Engine, make: Make) -> None:
        identity = make()
        engine.start(identity)
        assert engine.kill_remove(identity)
        assert engine.inspect(identity) is None
        assert not engine.kill_remove(identity)

    def test_a_missing_container_is_an_engine_error(self, engine: Engine) -> None:
        missing = uuid4().hex
        for act in (engine.start, engine.pause, engine.unpause, lambda ref: engine.rename(ref, "other")):
            with pytest.raises(EngineError, match=r"cannot .*[Nn]o such container"):
                act(missing)

    def test_an_image_has_names(self, engine: Engine, image: str) -> None:
        names = [f"holdfast-test/{uuid4().hex[:12]}:{number}" for number in (1, 2)]
        for name in names:
            engine.images.tag(image, name)
            assert engine.images.id(name) == image
        assert set(names) <= {tag for each in engine.images.listed() for tag in each.tags}
        for name in names:
            engine.images.untag(name)
            assert not engine.images.exists(name)
        assert engine.images.exists(image)

    def test_a_missing_image_is_an_image_error(self, engine: Engine) -> None:
        missing = f"holdfast-test/{uuid4().hex}:1"
        assert engine.images.inspect(missing) is None
        assert not engine.images.remove(missing)
        engine.images.untag(missing)
        with pytest.raises(ImageError):
            engine.images.described(missing)

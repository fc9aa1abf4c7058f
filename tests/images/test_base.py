"""The source of a base image: the engine, a registry, or a bootstrap, in this order."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from holdfast.engine.engine_images import EngineImages
from holdfast.errors import EngineError, ImageError
from holdfast.images import build
from holdfast.images.apt_sources import AptMirror

REGISTRY = "debian:trixie-slim"


class FakeImages:
    """An engine that has some images and whose registry answers in a given way."""

    def __init__(self, has: tuple[str, ...] = (), registry: Any = ()) -> None:
        self.has = has
        self.registry = registry
        self.pulls = 0

    def exists(self, reference: str) -> bool:
        return reference in self.has

    def pull(self, _repository: str, _tag: str) -> Iterator[dict[str, Any]]:
        self.pulls += 1
        if isinstance(self.registry, Exception):
            raise self.registry
        return iter(self.registry)


def obtain(engine: FakeImages, said: list[str] | None = None) -> str:
    return build.obtain_base(cast(EngineImages, engine), (said if said is not None else []).append)


@pytest.fixture
def bootstrapped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    monkeypatch.setattr(
        build, "_bootstrap", lambda _client, reference, _mirror, _progress: made.append(reference)
    )
    return made


def test_a_base_the_engine_has_is_used_without_asking(bootstrapped: list[str]) -> None:
    """No network is needed for the second image."""
    engine = FakeImages(has=(REGISTRY,))

    assert obtain(engine) == REGISTRY
    assert engine.pulls == 0
    assert bootstrapped == []


def test_a_registry_that_answers_gives_the_base(bootstrapped: list[str]) -> None:
    """The status of the pull is reported, the status of its layers is not."""
    said: list[str] = []
    events = [
        {"status": "Pulling from library/debian", "id": "trixie-slim"},
        {"status": "Status: Downloaded"},
    ]

    assert obtain(FakeImages(registry=events), said) == REGISTRY
    assert said[-1] == "base: Status: Downloaded"
    assert bootstrapped == []


@pytest.mark.parametrize(
    "registry",
    [
        EngineError('cannot pull image: Get "https://r/v2/": dial tcp: lookup r: no such host'),
        [{"status": "Pulling"}, {"error": "unexpected: no such host"}],
    ],
    ids=["at once", "in the stream"],
)
def test_no_registry_means_a_bootstrap(bootstrapped: list[str], registry: Any) -> None:
    """The reason is reported in a few words."""
    said: list[str] = []

    made = obtain(FakeImages(registry=registry), said)

    assert bootstrapped == [made]
    assert made.startswith("holdfast/rootfs:")
    assert "no registry (no such host)" in said[-1]


def test_a_silent_registry_means_a_bootstrap(
    bootstrapped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that swallows requests is not waited for."""
    monkeypatch.setattr(build, "REGISTRY_PATIENCE", 0.01)
    never = threading.Event()

    def silence() -> Iterator[dict[str, Any]]:
        never.wait()
        yield {}

    made = obtain(FakeImages(registry=silence()))
    never.set()

    assert bootstrapped == [made]


def test_without_registry_root_or_tool_the_hint_names_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pull the image elsewhere, or install the tool."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(ImageError, match="mmdebstrap is not installed") as caught:
        obtain(FakeImages(registry=EngineError("cannot pull image: no such host")))

    assert "docker pull debian:trixie-slim" in caught.value.hint


def test_a_failed_bootstrap_shows_the_end_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last output of mmdebstrap is the hint; the host's own mirror is tried first, then the default."""
    tried: list[list[str]] = []

    def lines(command: list[str]) -> Iterator[str | None]:
        tried.append(command)
        yield "E: no such mirror"
        yield None

    monkeypatch.setattr(build, "_lines", lines)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(build, "host_mirror", lambda: AptMirror("http://mirror.example/debian"))

    with pytest.raises(ImageError) as caught:
        obtain(FakeImages(registry=EngineError("cannot pull image: no such host")))

    assert caught.value.hint == "E: no such mirror"
    assert ["mirror.example" in " ".join(command) for command in tried] == [True, False]

"""How many layers an engine has: from one image that probably has them, else from all."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.engine.image_store import ImageStore
from holdfast.snapshots.bundle import loading


class Images:
    """An engine's images by name; counts the images that are looked at."""

    def __init__(self) -> None:
        self.layers = {"base": ["a", "b"], "first": ["a", "b", "c"], "other": ["x"], "empty": list[str]()}
        self.inspected: list[str] = []

    def inspect(self, ref: str) -> dict[str, Any] | None:
        self.inspected.append(ref)
        return {"RootFS": {"Layers": self.layers[ref]}} if ref in self.layers else None

    def layer_digests(self) -> Iterator[tuple[str, ...]]:
        for ref in [*self.layers]:
            found = self.inspect(ref)
            assert found is not None
            yield tuple(found["RootFS"]["Layers"])


@pytest.fixture
def images() -> Images:
    return Images()


@pytest.fixture
def engine(images: Images) -> Any:
    return SimpleNamespace(images=images, layers=SimpleNamespace(store=lambda: ImageStore.OVERLAY2))


@pytest.mark.parametrize("layers", [["a", "b", "c"], ["a", "b", "c", "d"]], ids=["all", "one-more"])
def test_an_image_with_all_but_the_topmost_layer_is_the_only_one_looked_at(
    engine: Any, images: Images, layers: list[str]
) -> None:
    """The others can be hundreds, each a request to the engine, while a session that moves is frozen."""
    assert loading.there(engine, layers, "first") == 3
    assert images.inspected == ["first"]


@pytest.mark.parametrize(
    ("likely", "layers", "there"),
    [
        ("", ["a", "b", "c", "d"], 3),
        ("gone", ["a", "b", "c", "d"], 3),
        ("base", ["a", "b", "c", "d"], 3),
        ("first", ["a", "b"], 2),
        ("other", ["a", "b", "c"], 3),
        ("empty", ["a", "b"], 2),
        ("first", ["a", "z", "c"], 1),
    ],
    ids=["none", "gone", "fewer", "more", "different", "empty", "changed"],
)
def test_all_images_are_looked_at_if_that_one_is_of_no_use(
    engine: Any, images: Images, likely: str, layers: list[str], there: int
) -> None:
    """The number never depends on the image that was expected to have them."""
    assert loading.there(engine, layers, likely) == there
    assert len(images.inspected) > 1

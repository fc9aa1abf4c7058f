"""The layers of an image that leaves: in the engine, or as copies of which it has yet to make the image.

Both are read by their digests. Which layers of an image leave as one is the business of `squashed_layers`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.engine.engine import Engine
from holdfast.errors import SnapshotDamaged
from holdfast.snapshots.bundle import image_layers
from holdfast.snapshots.bundle.image_layers import Hashed, ImageFacts
from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.layer import unmade_image
from holdfast.snapshots.layer.archive import LayerArchive
from holdfast.snapshots.layer.unmade_image import UnmadeImage


class ImageSource(Protocol):
    """An image whose layers can be read. `facts` are those of the image as it is here."""

    facts: ImageFacts

    def each(self, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
        """Read layers, like `image_layers.each`.

        Raises:
            EngineError: the engine fails, or a layer is missing.
            SnapshotDamaged: a copy is not the layer that was recorded.
        """

    def folders(self) -> list[Path]:
        """Return the engine's folders of the layers it has, the topmost first; none if they are unknown."""

    def copied_names(self) -> frozenset[str]:
        """Return the paths of folders and non-empty files in layers that the engine lacks."""


class MadeImage:
    """An image in the engine."""

    def __init__(self, engine: Engine, ref: str) -> None:
        """Inspect the image called `ref`.

        Raises:
            EngineError: the engine fails, or has no such image.
        """
        self._engine = engine
        self._ref = ref
        self.facts = image_layers.look(engine, ref)

    def each(self, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
        """Read layers from the engine."""
        image_layers.each(self._engine, self._ref, wanted, take)

    def folders(self) -> list[Path]:
        """Return the folders of all its layers."""
        found = self._engine.images.layers(self._ref)
        return found if len(found) == len(self.facts.layers) else []

    def copied_names(self) -> frozenset[str]:
        """Return nothing: no layer is a copy."""
        return frozenset()


class UnmadeLayers:
    """The image that the engine has yet to make of copies and of the layers of an image below."""

    def __init__(self, engine: Engine, folder: Path, unmade: UnmadeImage) -> None:
        """Describe the image.

        Args:
            engine: the engine that has the image below.
            folder: has links to the copies, so that the engine can make the image meanwhile.
            unmade: the record of the image.
        """
        self._engine = engine
        self._folder = folder
        self._unmade = unmade
        config = json.loads(unmade.config)
        self.facts = ImageFacts(
            str(config["architecture"]), str(config["os"]), dict(config["config"] or {}), unmade.layers
        )

    def each(self, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
        """Read layers from copies, and the layers below from the engine."""
        copied = self._unmade.layers[self._unmade.present :]
        below = [diff_id for diff_id in wanted if diff_id not in copied]
        image_layers.each(self._engine, self._unmade.below, below, take)
        for number, diff_id in enumerate(copied):
            if diff_id not in wanted:
                continue
            layer = Hashed(LayerArchive(unmade_image.copy_of(self._folder, number)).read(), diff_id)
            take(layer)
            if layer.digest != diff_id:
                raise SnapshotDamaged("cannot read the files of a snapshot: a copy does not match its digest")

    def folders(self) -> list[Path]:
        """Return the folders of the layers below its copies."""
        found, present = self._engine.images.layers(self._unmade.below), self._unmade.present
        return found[len(found) - present :] if len(found) >= present else []

    def copied_names(self) -> frozenset[str]:
        """Return the folders and non-empty files in its copies."""
        copies = unmade_image.copies(self._folder, self._unmade.missing)
        kinds = (file_entry.FILE, file_entry.DIRECTORY)
        return frozenset(
            item.path
            for copy in copies
            for item in copy.entries
            if item.kind in kinds and (item.size or item.kind == file_entry.DIRECTORY)
        )

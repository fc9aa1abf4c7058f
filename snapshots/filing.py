"""Conversion of a session's files to an image: from a copy of its layer, or by the engine.

Most of a copy is made before the session is frozen, so that the freeze grows only with the files being
written, not with everything ever written. Files in the image of an earlier snapshot are neither copied nor
stored again: the new image is made on top of that one (`layer/layer_chain.py`). The engine's own store gets
it later, when it is needed (`layer/unmade_image.py`), others immediately. Where the layer cannot be read,
the engine commits the container during the freeze.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from holdfast.engine import overlay
from holdfast.engine.container_state import ContainerState
from holdfast.engine.engine import Engine
from holdfast.engine.engine_faults import is_lost_unpacking
from holdfast.errors import CaptureFailed, EngineError, ImageError, LiveUnsupported, SnapshotDamaged
from holdfast.snapshots.checkpointer.layers import apart, file_entry
from holdfast.snapshots.layer import image, unmade_image
from holdfast.snapshots.layer.archive import CopiedFiles, LayerArchive
from holdfast.snapshots.layer.layer_chain import EarlierImage, LayerChain
from holdfast.snapshots.layer.oci import KnownBlobs
from holdfast.snapshots.layer.unmade_image import UnmadeImage
from holdfast.snapshots.link import CheckpointerFailed, CheckpointerLink, LinkLost

# Overlays are limited to about 120 layers, and each makes the first lookup of a file slower.
MOST_LAYERS = 24


class Ask(Protocol):
    """A function that sends a request to the checkpointer."""

    def __call__(self, op: str, /, **fields: object) -> CheckpointerLink:
        """Send one request, like `snapshots.service.ask`."""


class LayersLater:
    """The layers of an image that is to be made later, the topmost first; layers in the engine are folders.

    The engine is asked, and lower copies are read, only as far down as is needed.
    """

    def __init__(self, engine: Engine, folder: Path, unmade: UnmadeImage, top: CopiedFiles) -> None:
        self._engine = engine
        self._folder = folder
        self._unmade = unmade
        self._top = top

    def __iter__(self) -> Iterator[Path | CopiedFiles]:
        """Yield each layer."""
        yield self._top
        yield from self._copied
        yield from self._present

    @cached_property
    def _copied(self) -> list[CopiedFiles]:
        return unmade_image.copies(self._folder, self._unmade.missing - 1)

    @cached_property
    def _present(self) -> list[Path]:
        found = self._engine.images.layers(self._unmade.below)
        return found[max(0, len(found) - self._unmade.present) :]


class Filing:
    """The files of one session's container while a snapshot of it is taken.

    Args:
        engine: the engine that runs the container.
        ask: sends a request to the checkpointer.
        container: must be running; for `pausing` it may have ended.
        staging: the folder of the capture; the checkpointer knows it by its name.
        place: the folder that it becomes, called like the snapshot, next to earlier snapshots.
        ref: the name of the image to be made.
        labels: the labels of the image.
        known: what is known of images' layers.
        chain: the container's earlier images.
    """

    def __init__(
        self,
        engine: Engine,
        ask: Ask,
        container: ContainerState,
        staging: Path,
        place: Path,
        ref: str,
        labels: Mapping[str, str],
        known: KnownBlobs,
        chain: LayerChain,
    ) -> None:
        self._engine = engine
        self._ask = ask
        self._container = container
        self._staging = staging
        self._place = place
        self._ref = ref
        self._labels = labels
        self._known = known
        self._chain = chain
        self._parent: image.ParentImage | None = None
        self._earlier: EarlierImage | None = None
        self._layers_below: dict[str, int] = {}
        self._made: tuple[image.ExtendedImage, LayerArchive] | None = None
        self._below = container.image_id
        self._unmade: UnmadeImage | None = None
        self._is_later = self._is_last = False
        self._later: LayersLater | None = None
        self._looking: Future[tuple[image.ParentImage, int, EarlierImage | None] | None] | None = None

    def look_ahead(self, pool: ThreadPoolExecutor, *, is_last: bool = False) -> None:
        """Have a thread ask the engine what `begin` has to know, while something else is asked.

        `is_last`: the container ends with this image.
        """
        self._is_last = is_last
        self._looking = pool.submit(self._look)

    def begin(self) -> None:
        """Copy the files that can be copied while the session runs.

        Raises:
            CaptureFailed: something cannot be read or written.
            LinkLost, EngineError: the checkpointer or the engine failed.
        """
        if self._parent is not None:
            return  # the copy made for an earlier attempt is as good
        looking, self._looking = self._looking, None
        found = looking.result() if looking is not None else self._look()
        if found is None:
            return
        below, flatten, earlier = found
        # What leaves the machine has the layers of this container as one.
        self._labels = {**self._labels, **below.labels(len(below.layers) - flatten)}
        if earlier is not None:
            if self._asked():
                self._earlier, self._layers_below = earlier, self._chain.layers()
                self._parent = replace(below, layers=earlier.layers, blobs=earlier.blobs)
            return
        if self._asked(flatten=flatten):
            self._parent = below.without(flatten)

    def _look(self) -> tuple[image.ParentImage, int, EarlierImage | None] | None:
        """Return the image to build on, the layers of it to copy, and an earlier image that has more.

        The engine holds what is built on. None if the engine has to make the image.
        """
        below = image.below(self._engine, self._container.image_id, self._known)
        if below is None:
            return None
        self._is_later = below.blobs is None
        above = len(below.layers) - below.base
        earlier = self._offered(below.base + MOST_LAYERS)
        if earlier is None:
            self._hold_own()
        return below, above if above >= MOST_LAYERS else 0, earlier

    def _hold_own(self) -> None:
        """Have the engine keep the container's image under the name of the new one, until that is made."""
        self._below, self._unmade = self._container.image_id, None
        shutil.rmtree(self._staging / unmade_image.FOLDER, ignore_errors=True)
        if self._is_later:
            self._engine.images.tag(self._below, self._ref)

    def _offered(self, most: int) -> EarlierImage | None:
        """Offer the index of an earlier image to the checkpointer; None if the copy must be complete.

        `most` is the number of layers that the earlier image has at most.
        """
        found = self._chain.choose(self._held, most, is_last=self._is_last)
        if found is None:
            return None
        try:
            self._staging.mkdir(mode=0o700, exist_ok=True)
            self._chain.offer(self._staging / file_entry.BELOW)
            if self._unmade is not None:
                self._unmade = unmade_image.cut(self._staging, self._unmade, len(found.layers))
        except OSError:
            self._chain.forget()
            return None
        return found

    def _held(self, earlier: EarlierImage) -> bool:
        """Keep an earlier image: the layers still to be made, and in the engine what is below that.

        The engine keeps the image that gets the name of the new one, which takes it over later. False if
        the earlier image was removed.
        """
        unmade = self._shared(earlier)
        self._below, self._unmade = (earlier.image, None) if unmade is None else (unmade.below, unmade)
        with suppress(EngineError, ImageError):
            self._engine.images.tag(self._below, self._ref)
            return True
        return False

    def _shared(self, earlier: EarlierImage) -> UnmadeImage | None:
        shutil.rmtree(self._staging / unmade_image.FOLDER, ignore_errors=True)
        if self._is_later and earlier.snapshot:
            source = self._place.with_name(earlier.snapshot)
            with suppress(SnapshotDamaged, OSError):
                self._staging.mkdir(mode=0o700, exist_ok=True)
                return unmade_image.share(source, self._staging, whole=False)
        return None

    @property
    def by_engine(self) -> bool:
        """True if the engine has to commit the container while it is frozen."""
        return self._parent is None

    def pausing(self, last: Callable[[], None] = lambda: None) -> str:
        """Make an image of the container while it is paused, without its processes; return its id.

        `last` is called once its files have been read, before it continues.

        Raises:
            EngineError, CaptureFailed, OSError: it could not be made; the container continues to run.
        """
        if not self._container.running:
            return self.commit()
        with suppress(LiveUnsupported, ImageError):  # the engine can do it without a checkpointer
            self.begin()
        with self._engine.paused(self._container.id):
            if self.by_engine:
                made = self.commit()
                last()
                return made
            self._asked(last=True)
            last()
        return self.keep()

    def commit(self) -> str:
        """Let the engine make the image of the idle container, and return its id.

        Raises:
            EngineError: it refuses.
            CaptureFailed: a file has a name that the engine would leave out.
        """
        self._check_names()
        below = image.parent(self._engine, self._container.image_id)
        labels = {**self._labels, **below.labels(len(below.layers))}
        return self._engine.commit(self._container.id, self._ref, labels)

    def _check_names(self) -> None:
        """Check that an archive of the engine can have all names that the container has made."""
        found = self._engine.files.differences(self._container.id)
        names = (path.strip("/") for path, kind in found if kind != overlay.DELETED)
        if lost := next(filter(apart.is_unnameable, names), ""):
            raise CaptureFailed(
                "cannot keep the files of the session: the engine makes the image here, and "
                f"would leave out {apart.shown(lost)}, whose name images cannot hold",
                hint="rename or remove the file"
                + ("" if self._container.running else ", or start the session again: `holdfast resume`"),
            )

    def keep(self) -> str:
        """Keep the copy as an image, and return its id; once more if the engine lost what unpacks it.

        In the engine's own store it is made later, from the capture's folder at that time.

        Raises:
            EngineError: the engine refuses.
            OSError: the copy cannot be read.
        """
        layer = self._staging / file_entry.FOLDER
        if self._is_later:
            return self._left(layer)
        try:
            made = self._added(layer)
        except EngineError as error:
            if not is_lost_unpacking(str(error)):
                raise
            made = self._added(layer)
        if made.blobs is not None:
            self._known.add(made.id, made.layers, made.blobs)
        with suppress(OSError):  # the next image has the whole layer then
            self._chain.take(layer / file_entry.INDEX)
        shutil.rmtree(layer)
        return made.id

    def _left(self, layer: Path) -> str:
        """Leave the copy in the folder of the capture, for the image to be made of it."""
        assert self._parent is not None
        archive = self._archive(layer)
        for _ in archive.read():  # for its digest
            pass
        config = image.config_of(self._parent, self._labels, archive.digest).decode()
        copied = self._unmade.missing if self._unmade is not None else 0
        present = len(self._parent.layers) - copied
        lower = self._unmade.lower if self._unmade is not None else ()
        unmade = UnmadeImage(config, self._below, present, copied + 1, lower)
        with suppress(OSError):  # the next image has the whole layer then
            self._chain.take(layer / file_entry.INDEX)
        unmade_image.write(self._staging, unmade, archive.files)
        shutil.rmtree(layer)
        self._made = image.ExtendedImage(unmade.id, unmade.layers), archive
        self._later = LayersLater(self._engine, self._staging, unmade, archive.files)
        return unmade.id

    @property
    def later(self) -> LayersLater | None:
        """The layers of the image, if it is to be made later."""
        return self._later

    def counted(self, size: int | None, own: Callable[[], int]) -> tuple[int, dict[str, int]]:
        """Note the new image for the next one; return the bytes that it adds to the images below it.

        Also the bytes of each layer with files of the container, by digest; none if the engine made it.

        Args:
            size: the bytes of the image, as the engine counts them; None if it is to be made later.
            own: returns the bytes of the container's own image.
        """
        if size is None:
            assert self._made is not None
            grown = self._made[1].unpacked
            size = grown + (self._earlier.size if self._earlier is not None else 0)
        else:
            grown = max(0, size - (own() if self._earlier is None else self._earlier.size))
        if self._made is None:
            return grown, {}
        added, archive = self._made
        self._chain.add(
            added,
            written=archive.size,
            whole=archive.whole,
            grown=grown,
            size=size,
            snapshot=self._place.name,
        )
        return grown, {**self._layers_below, added.layers[-1]: grown}

    def _archive(self, layer: Path) -> LayerArchive:
        archive = LayerArchive(layer)
        if archive.apart and not (self._staging / apart.LIST).exists():
            apart.write(self._staging, archive.apart, layer / file_entry.DATA)
        return archive

    def _added(self, layer: Path) -> image.ExtendedImage:
        assert self._parent is not None
        archive = self._archive(layer)
        made = image.add(self._engine, self._parent, archive, self._ref, self._labels)
        self._made = made, archive
        return made

    def _asked(self, **fields: object) -> bool:
        target = {
            "container": self._container.id,
            "init_pid": self._container.pid,
            "folder": self._staging.name,
        }
        kept = False
        try:
            with self._ask("files", **target, **fields) as link:
                kept = bool(link.until("done")["kept"])
            return kept
        except CheckpointerFailed as refusal:
            raise CaptureFailed(f"cannot copy the session's files: {refusal}") from refusal
        except LinkLost as error:
            raise CaptureFailed(
                "cannot copy the session's files: the checkpointer ended during the capture"
            ) from error
        finally:
            if not kept:
                (self._staging / file_entry.BELOW).unlink(missing_ok=True)

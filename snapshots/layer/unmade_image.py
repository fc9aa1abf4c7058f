"""An image that the engine does not have yet, in the folder of a snapshot: made when it is needed.

    unmade/image.json   the image's config, the image below it, and the layers that the engine lacks
    unmade/N/           the copy of each of these layers, the lowest first (`checkpointer/layers/`)
    unmade/begun        the boot of the machine in which the engine began to make it, if it has

An image's id is a digest of its config, which names digests of its layers: the id is known before the engine
makes it, and the result is checked by it. Until then the name of the snapshot's image is on the image
below, whose layers the engine keeps by this. Copies of layers are shared with earlier snapshots as hard
links, so each snapshot is whole alone. Layers of earlier snapshots' images that the engine has made in the
meantime are not given to it again. Only for the engine's own store of images; rows are not known here.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.base import private_files
from holdfast.engine.engine import Engine
from holdfast.engine.engine_faults import is_lost_unpacking
from holdfast.errors import EngineError, ImageError, SnapshotDamaged
from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.layer import image
from holdfast.snapshots.layer.archive import CopiedFiles, LayerArchive

FOLDER = "unmade"
_RECORD = "image.json"
_BEGUN = "begun"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PARTS = (file_entry.ENTRIES, file_entry.DATA)


@dataclass(frozen=True, slots=True)
class UnmadeImage:
    """The layers to make an image of. `below` is the id of an image with the first `present` of the layers.

    There are copies of the other layers, as many as are `missing`. `lower` are the ids of earlier snapshots'
    images that end with each of these except the topmost; they count in the `boot` of the machine in which
    the copy was made. Both are empty if they are not known.
    """

    config: str
    below: str
    present: int
    missing: int
    lower: tuple[str, ...] = ()
    boot: str = ""

    @property
    def id(self) -> str:
        """The id of the image."""
        return image.id_of(self.config.encode())

    @property
    def layers(self) -> tuple[str, ...]:
        """The digests of all its layers, the lowest first."""
        return tuple(json.loads(self.config)["rootfs"]["diff_ids"])


def read(folder: Path) -> UnmadeImage | None:
    """Return the image to make for the snapshot in a folder; None if there is nothing.

    Raises:
        SnapshotDamaged: the record cannot be understood.
    """
    try:
        found = json.loads((folder / FOLDER / _RECORD).read_text())
        unmade = UnmadeImage(
            str(found["config"]),
            str(found["below"]),
            int(found["present"]),
            int(found["missing"]),
            tuple(map(str, found.get("lower", ()))),
            str(found.get("boot", "")),
        )
        if unmade.missing < 1 or unmade.present + unmade.missing != len(unmade.layers):
            raise ValueError("its layers and copies differ in number")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise SnapshotDamaged(
            f"cannot use snapshot {folder.name}: the record of its image cannot be read ({error})"
        ) from error
    return unmade


def write(folder: Path, unmade: UnmadeImage, top: CopiedFiles) -> None:
    """Keep what there is to make; the copy of the topmost layer is moved there.

    The copies of the other layers are there already (`share`).

    Raises:
        OSError: it cannot be written.
    """
    place = copy_of(folder, unmade.missing - 1)
    (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
    place.mkdir(mode=0o700)
    top.move(place)
    text = json.dumps({**asdict(unmade), "boot": _BOOT.read_text()})
    private_files.replace(folder / FOLDER / _BEGUN, b"", durable=False)
    private_files.replace(folder / FOLDER / _RECORD, text, durable=False)


def share(source: Path, target: Path, *, whole: bool = True) -> UnmadeImage | None:
    """Give the snapshot in `target` what there is to make of `source`; None if there is nothing.

    Unless it is `whole`, only the copies of layers: for an image on top of them.

    Raises:
        SnapshotDamaged: the record cannot be understood.
        OSError: the copies cannot be linked.
    """
    found = read(source)
    if found is None:
        return None
    names = [f"{number}/{name}" for number in range(found.missing) for name in _PARTS]
    (target / FOLDER).mkdir(mode=0o700)
    try:
        for number in range(found.missing):
            copy_of(target, number).mkdir(mode=0o700)
        for name in (*names, *((_BEGUN, _RECORD) if whole else ())):
            os.link(source / FOLDER / name, target / FOLDER / name)
    except FileNotFoundError:  # it was made and removed meanwhile
        shutil.rmtree(target / FOLDER, ignore_errors=True)
        return None
    return found


def not_on_disk(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the paths that need to be synced, folders last, and then all names below a folder.

    Copies of lower layers were written to the disk with the snapshot that they are shared with; only their
    names here are new.

    Raises:
        SnapshotDamaged: the record cannot be understood.
        OSError: a folder cannot be read.
    """
    unmade = read(folder)
    if unmade is None:
        return [], []
    place = folder / FOLDER
    copied = [copy_of(folder, number) for number in range(unmade.missing)]
    new = [*copied[-1].iterdir(), place / _RECORD, place / _BEGUN]
    shared = [path / name for path in copied[:-1] for name in _PARTS]
    names = [path.relative_to(folder).as_posix() for path in (*new, *shared, *copied, place)]
    return [*new, *copied, place], names


def cut(folder: Path, unmade: UnmadeImage, count: int) -> UnmadeImage:
    """Remove copies of layers above the lowest `count` of all, and return the remaining layers to build on.

    Its `lower` are the images that end with each of these.

    Raises:
        OSError: a copy cannot be removed.
    """
    left = max(0, count - unmade.present)
    for number in range(left, unmade.missing):
        shutil.rmtree(copy_of(folder, number))
    images = (*unmade.lower, unmade.id) if len(unmade.lower) == unmade.missing - 1 else ()
    return replace(unmade, present=min(unmade.present, count), missing=left, lower=images[:left])


def copies(folder: Path, count: int) -> list[CopiedFiles]:
    """Return the copies of the lowest layers that the engine lacks, the topmost first.

    Raises:
        OSError: they cannot be read.
    """
    return [CopiedFiles(copy_of(folder, number)) for number in reversed(range(count))]


def obtain(engine: Engine, folder: Path, ref: str) -> None:
    """See that the engine has the image of the snapshot in a folder; one caller makes it, others wait.

    Nothing happens without an image to make: it was made, and can have been removed since.

    Args:
        engine: the engine.
        folder: the folder of the snapshot.
        ref: the name of its image.

    Raises:
        SnapshotDamaged: a layer below is missing in the engine, or a copy has changed.
        EngineError: the engine refuses.
        OSError: a copy cannot be read.
    """
    if not (folder / FOLDER / _RECORD).exists():
        return
    with _turn(folder):
        _obtain(engine, folder, ref)


def _obtain(engine: Engine, folder: Path, ref: str) -> None:
    found = read(folder)
    if found is None:
        return
    begun, boot = folder / FOLDER / _BEGUN, _BOOT.read_text()
    there, when = engine.images.inspect(found.id), begun.read_text()
    if there is not None and when and when != boot:
        # The engine does not sync what it unpacks: after a power failure files of the image can be empty.
        engine.images.remove(found.id)
        there = None
    if there is None:
        _note(begun, boot)
        _make(engine, folder, ref, found)
    elif ref not in (there.get("RepoTags") or ()):
        engine.images.tag(found.id, ref)


def _note(begun: Path, boot: str) -> None:
    """Write in place, for all snapshots that share the image."""
    descriptor = os.open(begun, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, boot.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make(engine: Engine, folder: Path, ref: str, unmade: UnmadeImage) -> None:
    what = "make the image of the session's files"

    def load(there: int) -> None:
        archives = [LayerArchive(copy_of(folder, number)) for number in range(there, unmade.missing)]
        engine.images.load(_checked(folder, unmade, archives, ref), what)

    there = _made_in_the_meantime(engine, unmade)
    try:
        try:
            load(there)
        except (EngineError, ImageError) as error:
            # An earlier snapshot may have been removed just now, with its image.
            if not there and not is_lost_unpacking(str(error)):
                raise
            load(0)
    except (EngineError, ImageError) as error:
        if engine.images.inspect(unmade.below) is None:
            raise SnapshotDamaged(
                f"cannot use snapshot {folder.name}: the image below its files was removed from the engine",
                hint=f"`holdfast rmi {folder.name}` removes the rest",
            ) from error
        raise
    if engine.images.inspect(unmade.id) is None:
        raise EngineError(f"cannot {what}: it is not the recorded one")


def _made_in_the_meantime(engine: Engine, unmade: UnmadeImage) -> int:
    """Return how many copies, from the lowest, are layers of an earlier snapshot's image in the engine.

    None after a restart of the machine: that image may have been unpacked right before a power failure, which
    only the record of its own snapshot tells (`begun`).
    """
    if len(unmade.lower) != unmade.missing - 1 or unmade.boot != _BOOT.read_text():
        return 0
    for number in range(len(unmade.lower), 0, -1):
        if engine.images.inspect(unmade.lower[number - 1]) is not None:
            return number
    return 0


def _checked(
    folder: Path, unmade: UnmadeImage, archives: Sequence[LayerArchive], ref: str
) -> Iterator[bytes]:
    present = len(unmade.layers) - len(archives)

    def check() -> None:
        made = tuple(archive.digest for archive in archives)
        if made != unmade.layers[present:]:
            raise SnapshotDamaged(
                f"cannot use snapshot {folder.name}: the copy of its files does not match its digest",
                hint=f"`holdfast rmi {folder.name}` removes it",
            )

    yield from image.as_archive(present, archives, unmade.config.encode(), ref, check)


def folders_of(folder: Path) -> list[Path]:
    """Return the folders of images to make for one snapshot, outer ones last."""
    found = [path for path in (folder / FOLDER).glob("*") if path.is_dir()]
    return [*found, folder / FOLDER] if found else []


def folders(snapshots: Path) -> list[Path]:
    """Return the folders of snapshots with something to make, or to remove once it is on the disk."""
    with suppress(OSError):
        return [folder for folder in snapshots.iterdir() if (folder / FOLDER).is_dir()]
    return []


def settle(engine: Engine, snapshots: Path, only: Collection[str] | None = None) -> list[str]:
    """Make the images of all snapshots in a folder, or `only` of some, and remove what they were made of.

    Returns why some of them could not be made; damage is left to restores and `verify`.
    """
    made: list[Path] = []
    failed: list[str] = []
    wanted = [folder for folder in folders(snapshots) if only is None or folder.name in only]
    for folder in sorted(wanted, key=lambda folder: len(folders_of(folder))):  # earlier ones first
        try:
            obtain(engine, folder, image.ref_of(folder.name))
            made.append(folder)
        except SnapshotDamaged:
            continue
        except (EngineError, ImageError, OSError) as error:
            failed.append(str(error))
    try:
        if made:
            engine.layers.make_durable()
    except (EngineError, OSError) as error:
        return [*failed, str(error)]
    for folder in made:
        release(folder)
    return failed


def release(folder: Path) -> None:
    """Remove the copies of a snapshot whose image the engine has made and has on its disk."""
    with _turn(folder):
        (folder / FOLDER / _RECORD).unlink(missing_ok=True)  # first: with it, all of the rest is there
        shutil.rmtree(folder / FOLDER, ignore_errors=True)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Hold the lock of images to make; the kernel releases it when the holder dies."""
    try:
        descriptor = os.open(folder / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # it was made just now
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def copy_of(folder: Path, number: int) -> Path:
    """Return the folder of the copy with a number, 0 for the lowest."""
    return folder / FOLDER / str(number)

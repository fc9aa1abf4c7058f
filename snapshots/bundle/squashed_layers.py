"""The layers of an image as they leave this machine: the layers of one container become a single layer.

The image of a snapshot can be several layers on top of each other, each with the changes of the container
since an earlier snapshot (`layer/layer_chain.py`). Files that were removed or overwritten in between are
still in a lower one, but a person who gives the image away does not expect that. So the topmost wins here, as
in an overlay: a name of a lower layer is left out if an upper one has or deletes it, or hides a folder above
it. Layers of other containers and of the image below stay as they are.

The result has the bytes of the entries as they were, so the same layers always become the same one.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from holdfast.base import private_files
from holdfast.engine.joined import Joined
from holdfast.errors import EngineError, StoreError
from holdfast.snapshots.bundle import names_below
from holdfast.snapshots.bundle.image_layers import Hashed, ImageFacts
from holdfast.snapshots.bundle.image_source import ImageSource
from holdfast.snapshots.checkpointer.layers.file_entry import DELETES, HIDES
from holdfast.snapshots.layer import image
from holdfast.snapshots.layer.archive import END

FORM = 1
"""Changes whenever the same layers would become different bytes."""
MOST_REMEMBERED = 1000
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name in an archive: its header from `begin`, its contents from `data` to `end`."""

    member: tarfile.TarInfo
    begin: int
    data: int
    end: int

    @property
    def path(self) -> str:
        return _path(self.member.name)


class SquashedLayer:
    """Archives of layers as one archive, which is generated while it is read."""

    def __init__(self, archives: Sequence[Path], shown: Callable[[set[str]], set[str]]) -> None:
        """Compare the names in archives of layers.

        Args:
            archives: the topmost first.
            shown: returns the names, of some, that the layers below show.

        Raises:
            OSError, tarfile.TarError: one cannot be read.
        """
        self._archives = archives
        self._kept: dict[str, _Entry] = {}
        self._deleted: set[str] = set()
        self._opaque: set[str] = set()
        self._order = [self._examined(each) for each in archives]
        self._deleted = shown({path for path in self._deleted if not self._is_in_opaque(path)})

    def _is_in_opaque(self, path: str) -> bool:
        return any(above in self._opaque for above in _above(path))

    def _examined(self, archive: Path) -> list[_Entry]:
        """Return the entries of a layer that remain visible under the layers above."""
        taken: list[_Entry] = []
        kept: dict[str, _Entry] = {}
        deleted, opaque = set[str](), set[str]()
        sources: dict[str, _Entry] = {}
        for entry in _entries(archive):
            path, name = entry.path, entry.path.rpartition("/")[2]
            is_deletion = name.startswith(DELETES) and name != HIDES
            path = _deleted(path) if is_deletion else path
            if not entry.member.islnk():
                sources[path] = entry
            if self._is_hidden(path):
                continue
            above = self._kept.get(path)
            if name == HIDES:
                opaque.add(path.rpartition("/")[0])
            elif above is not None:
                if above.member.isdir() and (is_deletion or not entry.member.isdir()):
                    opaque.add(path)
            else:
                taken.append(entry)
                if is_deletion:
                    deleted.add(path)
                else:
                    kept[path] = entry
        self._kept |= kept
        self._deleted |= deleted
        self._opaque |= opaque
        return _with_sources(taken, kept, sources)

    def _is_hidden(self, path: str) -> bool:
        """Check whether an upper layer deletes a name, or has a non-folder above it."""
        if path in self._deleted:
            return True
        for above in _above(path):
            known = self._kept.get(above)
            if above in self._deleted or above in self._opaque or (known and not known.member.isdir()):
                return True
        return False

    def read(self) -> Iterator[bytes]:
        """Yield the archive, in pieces.

        Raises:
            OSError: a layer cannot be read.
        """
        for archive, entries in zip(self._archives, self._order, strict=True):
            with archive.open("rb", buffering=0) as file:
                for entry in entries:
                    path = entry.path
                    if path.rpartition("/")[2].startswith(DELETES) and _deleted(path) not in self._deleted:
                        continue  # the layers below do not have it, and the name would leave
                    if entry.begin < 0:
                        yield _header(entry.member)
                    else:
                        yield from _range(file.fileno(), entry.begin, entry.data)
                    yield from _range(file.fileno(), entry.data, entry.end)
                    if path in self._opaque and entry.member.isdir():
                        yield _header(tarfile.TarInfo(f"{path}/{HIDES}"))
        yield END


def _with_sources(taken: list[_Entry], kept: dict[str, _Entry], sources: dict[str, _Entry]) -> list[_Entry]:
    """Return entries of a layer, with a file's first remaining name in the place of a hidden one."""
    made: list[_Entry] = []
    moved: dict[str, str] = {}
    for entry in taken:
        target = _path(entry.member.linkname) if entry.member.islnk() else ""
        if not target or target in kept:
            made.append(entry)
            continue
        if target in moved:
            member = copy.copy(entry.member)
            member.linkname = moved[target]
            member.pax_headers = _without_names(member)
            made.append(_Entry(member, -1, 0, 0))
            continue
        source = sources.get(target)
        if source is None:
            raise tarfile.ReadError(f"a link to {target[:200]!r}, which the layer does not have")
        member = copy.copy(source.member)
        member.name = entry.member.name
        member.pax_headers = _without_names(member)
        moved[target] = member.name
        made.append(_Entry(member, -1, source.data, source.end))
    return made


def _without_names(member: tarfile.TarInfo) -> dict[str, str]:
    """Return the extended header without names and size, which are different now."""
    return {
        name: value for name, value in member.pax_headers.items() if name not in ("path", "linkpath", "size")
    }


def _entries(path: Path) -> Iterator[_Entry]:
    with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as archive:
        while (member := archive.next()) is not None:
            yield _Entry(member, member.offset, member.offset_data, archive.offset)


def _path(name: str) -> str:
    return name.removeprefix("./").strip("/")


def _deleted(path: str) -> str:
    """Return the name that a deletion refers to."""
    above, slash, name = path.rpartition("/")
    return f"{above}{slash}{name.removeprefix(DELETES)}"


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _range(descriptor: int, begin: int, end: int) -> Iterator[bytes]:
    while begin < end:
        piece = os.pread(descriptor, min(_BLOCK, end - begin), begin)
        if not piece:
            raise OSError("an archive has become shorter")
        begin += len(piece)
        yield piece


class LeavingImage:
    """An image as it leaves: `facts` name its layers after a container's are merged."""

    def __init__(self, source: ImageSource, scratch: Path, cache: Path, there: tuple[str, ...] = ()) -> None:
        """Read layers to be merged unless they were merged before.

        Args:
            source: the image.
            scratch: an empty folder for archives of layers; the caller clears it.
            cache: a file with the digests of earlier results.
            there: the layers, as they are here, of an earlier image of the same container, which the receiver
                has in its leaving form: layers on top of them are not merged with them.

        Raises:
            EngineError: the engine fails, or a layer cannot be read.
            SnapshotDamaged: a copy of a layer is damaged.
            StoreError: they do not fit on the disk.
        """
        self._source = source
        self._scratch = scratch
        self._cache = cache
        found = source.facts
        self._all = found.layers
        self._groups: dict[str, tuple[str, ...]] = {}
        self._made: dict[str, SquashedLayer] = {}
        self._known = self._read_cache()
        parts = image.parts(found.config, len(found.layers))
        base = image.base_layers(found.config, len(found.layers))
        first, end = parts[-1] if parts else (0, 0)
        written = ""
        if first < len(there) < end and found.layers[: len(there)] == there:
            parts[-1:] = [(first, len(there)), (len(there), end)]
            written = str(len(parts) - 2)
        layers: list[str] = []
        for first, end in parts:
            group = found.layers[first:end]
            layers.append(group[0] if len(group) == 1 else self._named(group))
        labels = {
            **(found.config.get("Labels") or {}),
            image.BASE_LABEL: str(sum(end <= base for _, end in parts)),
            image.WRITTEN_LABEL: written,
        }
        self.facts: ImageFacts = replace(
            found, layers=tuple(layers), config={**found.config, "Labels": labels}
        )

    @property
    def unmerged(self) -> tuple[str, ...]:
        """Its layers as they are here."""
        return self._all

    def each(self, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
        """Read layers of it, like `image_layers.each`.

        Raises:
            EngineError: the engine fails, or some are missing.
            StoreError: they do not fit on the disk.
        """
        self._source.each([one for one in wanted if one not in self._groups], take)
        for diff_id in wanted:
            if diff_id not in self._groups:
                continue
            group = self._groups[diff_id]
            try:
                layer = Hashed(self._squashed(group).read(), diff_id)
                take(layer)
            except OSError as error:
                raise self._unwritable(error) from error
            if layer.digest != diff_id:
                self._remember(group, None)
                raise EngineError("cannot read the files of a snapshot: its layers have changed")

    def _named(self, group: tuple[str, ...]) -> str:
        """Return the digest of the merged layer."""
        diff_id = self._known.get(_key(group))
        if diff_id is None:
            layer = Hashed(self._squashed(group).read())
            try:
                for _ in layer:
                    pass
            except OSError as error:
                raise self._unwritable(error) from error
            diff_id = layer.digest
            self._remember(group, diff_id)
        self._groups[diff_id] = group
        return diff_id

    def _squashed(self, group: tuple[str, ...]) -> SquashedLayer:
        key = _key(group)
        if key not in self._made:
            wanted = set(group)

            def take(layer: Hashed) -> None:
                """Keep a layer, with holes for zeros, if it is to be merged."""
                place = self._scratch / "read"
                with private_files.create(place) as file:
                    for piece in layer:
                        if piece.count(0) == len(piece):
                            file.seek(len(piece), os.SEEK_CUR)
                        else:
                            file.write(piece)
                    file.truncate()
                if layer.digest in wanted:
                    place.replace(self._archive(layer.digest))

            try:
                self._source.each(group, take)
                (self._scratch / "read").unlink(missing_ok=True)
                self._made[key] = SquashedLayer(
                    [self._archive(each) for each in reversed(group)],
                    lambda names: self._shown(names, self._all.index(group[0])),
                )
            except OSError as error:
                raise self._unwritable(error) from error
            except tarfile.TarError as error:
                raise EngineError(
                    f"cannot read the files of a snapshot: a layer is damaged ({error})"
                ) from error
        return self._made[key]

    def _shown(self, names: set[str], count: int) -> set[str]:
        """Return the names visible in the lowest `count` layers."""
        if not names:
            return set()
        folders = self._source.folders()
        if len(folders) >= count and all(os.access(each, os.R_OK | os.X_OK) for each in folders[-count:]):
            return names_below.shown(names, [names_below.of_folder(each) for each in folders[-count:]])
        found: dict[str, names_below.Lookup] = {}

        def take(layer: Hashed) -> None:
            """Record the names in a layer. Only its digest at the end identifies it."""
            lookup: names_below.Lookup | None = None
            with suppress(tarfile.TarError):
                lookup = names_below.of_archive(_names(layer), names)
            for _ in layer:
                pass
            if lookup is not None:
                found[layer.digest] = lookup
            elif layer.digest in self._all:
                raise EngineError("cannot read the files of a snapshot: a layer is damaged")

        self._source.each(self._all[:count], take)
        return names_below.shown(names, [found[each] for each in reversed(self._all[:count])])

    def _archive(self, diff_id: str) -> Path:
        return self._scratch / f"{diff_id.partition(':')[2]}.tar"

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot write to {self._scratch}: {error.strerror or error}")

    def _read_cache(self) -> dict[str, str]:
        with suppress(OSError, ValueError):
            found = json.loads(self._cache.read_text())
            if isinstance(found, dict):
                return {str(key): str(value) for key, value in found.items()}
        return {}

    def _remember(self, group: tuple[str, ...], diff_id: str | None) -> None:
        """Remember, or forget, the digest of the merged layer. Losing it only costs time."""
        self._known.pop(_key(group), None)
        if diff_id is not None:
            self._known[_key(group)] = diff_id
        for old in list(self._known)[: max(0, len(self._known) - MOST_REMEMBERED)]:
            del self._known[old]
        with suppress(OSError):
            self._cache.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(self._cache, json.dumps(self._known), durable=False)


def _names(layer: Hashed) -> Iterator[tuple[str, bool]]:
    """Yield the names in a layer, and whether each is a folder."""
    stream = cast("BinaryIO", Joined(iter(layer)))
    with tarfile.open(
        fileobj=stream, mode="r|", bufsize=_BLOCK, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for member in archive:
            yield _path(member.name), member.isdir()


def _key(group: Sequence[str]) -> str:
    return hashlib.sha256(f"{FORM} {' '.join(group)}".encode()).hexdigest()

"""The sweep of packs: finds the pages some recipe still needs, accounts for them, and removes the rest.

Nothing is removed while a recipe cannot be read: what it needs is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.base import private_files
from holdfast.snapshots.chunks import pack_turn, recipe
from holdfast.snapshots.chunks.chunks import Chunks
from holdfast.snapshots.chunks.pack_writer import PackWriter
from holdfast.snapshots.chunks.packs import PAGES, Pack, PackDamaged
from holdfast.snapshots.chunks.pages import BLOCK, DIGEST, GROUP, NOWHERE, PAGE
from holdfast.snapshots.chunks.recipe import Recipe

THIN = 0.5
"""A pack of which less than this is needed is rewritten without the rest."""


@dataclass(slots=True)
class PackUsage:
    """Bytes a snapshot's pages take in packs: `shared` if an older snapshot also needs them, else `own`."""

    own: int = 0
    shared: int = 0


@dataclass(slots=True)
class Marks:
    """The pages needed, one byte for each page of a pack, and each snapshot's account."""

    needed: dict[str, bytearray] = field(default_factory=dict)
    accounts: dict[str, PackUsage] = field(default_factory=dict)

    def add(self, chunks: Chunks, found: Recipe) -> None:
        """Mark what a recipe needs; older ones come first."""
        own: dict[str, int] = {}
        shared: dict[str, int] = {}
        for file in found.files.values():
            for run in file.runs:
                if run.pack == NOWHERE:
                    continue
                flags = self.needed.setdefault(run.pack, bytearray(PAGES))
                known = flags.count(1, run.first, run.first + run.count)
                flags[run.first : run.first + run.count] = b"\1" * run.count
                own[run.pack] = own.get(run.pack, 0) + run.count - known
                shared[run.pack] = shared.get(run.pack, 0) + known
        account = self.accounts.setdefault(found.snapshot, PackUsage())
        for name in own:
            with suppress(PackDamaged):
                pack = chunks.pack(name)
                page = pack.bytes / max(1, pack.directory.present.count(1))
                account.own += round(own[name] * page)
                account.shared += round(shared[name] * page)


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep: bytes freed, packs removed and packs made smaller."""

    bytes: int = 0
    removed: int = 0
    thinned: int = 0


def mark(chunks: Chunks, folders: Iterable[Path]) -> Marks:
    """Read the recipes in folders.

    Raises:
        RecipeDamaged: a recipe cannot be read.
    """
    found: list[tuple[int, Recipe]] = []
    for folder in folders:
        # A folder may be renamed or removed meanwhile; then it is found under its new name, or not needed.
        with suppress(FileNotFoundError, NotADirectoryError):
            one = recipe.read(folder)
            if one is not None:
                found.append(((folder / recipe.FILE).stat().st_mtime_ns, one))
    marks = Marks()
    for _, one in sorted(found, key=lambda item: item[0]):
        marks.add(chunks, one)
    return marks


def waste(chunks: Chunks, folders: Iterable[Path], thin: float = THIN) -> int:
    """Return about how many bytes `sweep` would free.

    Raises:
        RecipeDamaged: a recipe cannot be read.
    """
    marks, total = mark(chunks, folders), 0
    for name in chunks.names():
        with suppress(PackDamaged, OSError):
            there = max(1, chunks.pack(name).directory.present.count(1))
            needed = marks.needed.get(name, bytearray()).count(1)
            if needed == 0 or needed < there * thin:
                total += chunks.pack(name).bytes * (there - needed) // there
    return total


def sweep(chunks: Chunks, folders: Iterable[Path], thin: float = THIN) -> tuple[Swept, Marks]:
    """Remove packs no snapshot needs; shrink those of which little is needed. It is the caller's turn.

    Packs stay as they are while a process relies on them that has not written its recipe yet.

    Raises:
        RecipeDamaged: a recipe cannot be read; nothing was removed.
        OSError: a pack cannot be written; everything that is needed is still there.
    """
    marks = mark(chunks, folders)
    freed = removed = thinned = 0
    for name in chunks.names():
        flags = marks.needed.get(name)
        if pack_turn.claimed(chunks.path(name)):
            continue
        if flags is None:
            freed += chunks.path(name).stat().st_size
            chunks.path(name).unlink()
            chunks.forget(name)
            removed += 1
            continue
        with suppress(PackDamaged):
            pack = chunks.pack(name)
            there = pack.directory.present.count(1)
            if flags.count(1) < there * thin:
                before = pack.bytes
                thin_out(chunks, pack, flags)
                freed += before - chunks.path(name).stat().st_size
                thinned += 1
    private_files.sync_folder(chunks.packs)
    return Swept(freed, removed, thinned), marks


def thin_out(chunks: Chunks, pack: Pack, keep: bytearray) -> None:
    """Rewrite a pack with only some of its pages, under the same name.

    Raises:
        PackDamaged: the pack cannot be read.
        OSError: it cannot be written.
    """
    held = pack.directory
    with ThreadPoolExecutor(1, thread_name_prefix="compress") as pool:
        writer = PackWriter(chunks.packs, pool, pack.name)
        try:
            for block in range(len(held.places)):
                first, end = block * BLOCK, min((block + 1) * BLOCK, held.pages)
                present = bytes(
                    there & wanted
                    for there, wanted in zip(held.present[first:end], keep[first:end], strict=True)
                )
                writer.thin(
                    _kept(pack, block, present) if any(present) else b"",
                    present,
                    held.digests[first * DIGEST : end * DIGEST],
                    held.groups[first // GROUP * DIGEST : -(-end // GROUP) * DIGEST],
                )
            writer.close()
        except BaseException:
            writer.abandon()
            raise
    chunks.forget(pack.name)


def _kept(pack: Pack, block: int, present: bytes) -> bytes:
    data = pack.block(block)
    first = block * BLOCK
    before = pack.directory.present[first : first + len(present)]
    parts, at = [], 0
    for there, wanted in zip(before, present, strict=True):
        if wanted:
            parts.append(data[at : at + PAGE])
        at += PAGE * there
    return b"".join(parts)

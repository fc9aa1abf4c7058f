"""The upkeep of packs: a sweep removes pages that no recipe needs, a check reports changed ones.

Nothing is removed while a recipe cannot be read: its needs are not known.
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
from holdfast.snapshots.chunks.index import PackIndex
from holdfast.snapshots.chunks.pack_writer import PackWriter
from holdfast.snapshots.chunks.packs import (
    BLOCK,
    DIGEST,
    GROUP,
    NOWHERE,
    PAGE,
    PAGES,
    Pack,
    PackDamaged,
    digest,
)
from holdfast.snapshots.chunks.recipe import Recipe

THIN = 0.5
"""A pack of which less than this is needed is rewritten without the rest."""


@dataclass(slots=True)
class PackUsage:
    """Bytes of a snapshot's pages in packs: `shared` if an older snapshot also needs them, else `own`."""

    own: int = 0
    shared: int = 0


@dataclass(slots=True)
class Marks:
    """The pages needed, one byte for each page of a pack, and each snapshot's account."""

    needed: dict[str, bytearray] = field(default_factory=dict)
    accounts: dict[str, PackUsage] = field(default_factory=dict)

    def add(self, chunks: Chunks, found: Recipe) -> None:
        """Mark a recipe's pages; older ones come first."""
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
    """Remove unneeded packs; shrink those with few needed pages. The caller has the turn.

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


@dataclass(slots=True)
class Findings:
    """The damage: packs that cannot be read at all, and pages of others, one byte for each."""

    lost: dict[str, str] = field(default_factory=dict)
    pages: dict[str, bytearray] = field(default_factory=dict)
    checked: int = 0
    """Bytes of pages that were checked."""

    def damage(self, chunks: Chunks, found: Recipe) -> str | None:
        """Return the data that a recipe needs and cannot get, as the end of a sentence."""
        for name, file in found.files.items():
            for run in file.runs:
                if run.pack == NOWHERE:
                    continue
                if run.pack in self.lost:
                    return f"{name} needs pack {run.pack}, which {self.lost[run.pack]}"
                bad = self.pages.get(run.pack)
                if bad is not None and bad.count(1, run.first, run.first + run.count):
                    return f"{name} needs pages of pack {run.pack} that are damaged"
                try:
                    if not chunks.pack(run.pack).holds(run.first, run.count):
                        return f"{name} needs pages that pack {run.pack} does not have"
                except PackDamaged:
                    return f"{name} needs pack {run.pack}, which is missing"
        return None


def check_packs(chunks: Chunks) -> Findings:
    """Read all existing packs. Packs added or removed in the meantime can be left out."""
    findings = Findings()
    for name in chunks.names():
        try:
            pack = Pack(chunks.path(name))
        except PackDamaged:
            if chunks.path(name).exists():
                findings.lost[name] = "is damaged or cut short"
            continue
        try:
            _check_pack(pack, findings)
        finally:
            pack.close()
    return findings


def _check_pack(pack: Pack, findings: Findings) -> None:
    present = pack.directory.present
    bad = bytearray(len(present))
    for block in range(len(pack.directory.places)):
        numbers = range(block * BLOCK, min((block + 1) * BLOCK, len(present)))
        kept = [number for number in numbers if present[number]]
        try:
            data = pack.block(block)
        except PackDamaged:
            data = b""
        findings.checked += len(data)
        for at, number in enumerate(kept):
            if digest(data[at * PAGE : (at + 1) * PAGE]) != pack.digest(number):
                bad[number] = 1
    if any(bad):
        findings.pages[pack.name] = bad


def mend_packs(chunks: Chunks, found: Findings) -> list[tuple[str, bool]]:
    """Remove damaged pages from packs, so that new snapshots do not rely on them; rebuild the index if
    necessary.

    Returns each fault found, and whether it is now repaired. The caller holds the lock.

    Raises:
        OSError: a pack or the index cannot be written.
    """
    sentences = [(f"pack {name} {why}", False) for name, why in found.lost.items()]
    for name, bad in found.pages.items():
        chunks.forget(name)
        thin_out(chunks, chunks.pack(name), bytearray(1 - flag for flag in bad))
        sentences.append((f"pack {name} had {bad.count(1)} damaged pages; they were taken out", True))
    index = chunks.folder / "index"
    if chunks.names() and not PackIndex.usable(index):
        PackIndex(index, chunks.listing).close()
        sentences.append(("the index of pages was missing or damaged", True))
    return sentences

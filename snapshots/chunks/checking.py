"""A check of every page of every pack that reports those that changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.snapshots.chunks.chunks import Chunks
from holdfast.snapshots.chunks.index import PackIndex
from holdfast.snapshots.chunks.packs import Pack, PackDamaged
from holdfast.snapshots.chunks.pages import BLOCK, NOWHERE, PAGE, digest
from holdfast.snapshots.chunks.recipe import Recipe
from holdfast.snapshots.chunks.sweeping import thin_out


@dataclass(slots=True)
class Findings:
    """The damage: packs that cannot be read at all, and pages of others, one byte for each."""

    lost: dict[str, str] = field(default_factory=dict)
    pages: dict[str, bytearray] = field(default_factory=dict)
    checked: int = 0
    """Bytes of pages that were checked."""

    def damage(self, chunks: Chunks, found: Recipe) -> str | None:
        """Return what a recipe needs and cannot get, as the end of a sentence."""
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


def check(chunks: Chunks) -> Findings:
    """Read all existing packs. Those added or removed meanwhile may be left out."""
    findings = Findings()
    for name in chunks.names():
        try:
            pack = Pack(chunks.path(name))
        except PackDamaged:
            if chunks.path(name).exists():
                findings.lost[name] = "is damaged or cut short"
            continue
        try:
            _check(pack, findings)
        finally:
            pack.close()
    return findings


def _check(pack: Pack, findings: Findings) -> None:
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


def mend(chunks: Chunks, found: Findings) -> list[tuple[str, bool]]:
    """Remove damaged pages from packs, so that nothing new relies on them; rebuild the index if necessary.

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

"""Reconstruction of files from packs, with holes where pages are zeros. Memory stays bounded.

The caller checks the whole file against its digest; only unreadable pages are detected here.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

from holdfast.snapshots.chunks.chunks import Chunks
from holdfast.snapshots.chunks.packs import PackDamaged
from holdfast.snapshots.chunks.pages import BLOCK, NOWHERE, PAGE, PageRun
from holdfast.snapshots.chunks.recipe import RecipeFile

BLOCKS = 64
"""Unpacked blocks kept for later reads: 16 MiB."""


class Unpacking:
    """A reader of pages that keeps the few most recently unpacked blocks."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def write(self, file: RecipeFile, path: Path) -> None:
        """Make a new file.

        Raises:
            PackDamaged: a pack cannot be read.
            OSError: the file cannot be written.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            at = 0
            for run in file.runs:
                if run.pack != NOWHERE:
                    self._write(descriptor, run, at)
                at += run.count * PAGE
            os.truncate(descriptor, file.bytes)
        finally:
            os.close(descriptor)

    def pages(self, pack_name: str, first: int, count: int) -> bytes:
        """Return some pages of one block.

        Raises:
            PackDamaged: the pack cannot be read or lacks the pages.
        """
        pack = self._chunks.pack(pack_name)
        if not pack.holds(first, count):
            raise PackDamaged(f"pack {pack_name} lacks pages")
        key = (pack_name, first // BLOCK)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = pack.block(key[1])
            if len(self._blocks) > BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(key)
        start = pack.before(first) * PAGE
        return block[start : start + count * PAGE]

    def _write(self, descriptor: int, run: PageRun, at: int) -> None:
        number, end = run.first, run.first + run.count
        while number < end:
            count = min(end, number - number % BLOCK + BLOCK) - number
            os.pwrite(descriptor, self.pages(run.pack, number, count), at)
            number, at = number + count, at + count * PAGE

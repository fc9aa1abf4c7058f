"""The course that a file takes through the packs: where its next page probably is.

Memory stays where it was, so the parent snapshot's file tells it at the same offset. After something was
inserted or moved, the next page that is found tells it again. A wrong guess costs time and nothing else:
its user compares digests. Pure; knows nothing of packs but their names.
"""

from __future__ import annotations

from bisect import bisect_right

from holdfast.snapshots.chunks.packs import NOWHERE, PageRun
from holdfast.snapshots.chunks.recipe import Recipe

ENDLESS = 1 << 62


class Course:
    """The expected places of a snapshot's pages, one after the other.

    Attributes:
        pack: the pack expected to hold the next page; `NOWHERE` for zeros, None if nothing is known.
        page: its number there.
        left: how many pages follow each other from there.
        apart: True if the course follows a pack, in which zeros are left out, and not the parent's file.
    """

    def __init__(self, parent: Recipe | None) -> None:
        """`parent` is the recipe of a snapshot with similar files."""
        self._runs: list[PageRun] = []
        self._starts: dict[str, int] = {}
        for name, file in parent.files.items() if parent is not None else ():
            self._starts[name] = len(self._runs)
            self._runs += file.runs
        self._sorted: list[tuple[str, int, int]] | None = None
        self._at = len(self._runs)
        self.apart = False
        self.pack: str | None = None
        self.page = 0
        self.left = 0

    @property
    def gapped(self) -> bool:
        """True if zeros follow what is expected here."""
        after = self._at + 1
        return not self.apart and after < len(self._runs) and self._runs[after].pack == NOWHERE

    def begin(self, name: str) -> None:
        """Expect a file as the parent has it under the same name."""
        self._go(self._starts.get(name, len(self._runs)))

    def advance(self, count: int) -> None:
        """Pass pages of the file, whether or not they were where they were expected."""
        while self.pack is not None and count >= self.left:
            count -= self.left
            self._go(self._at + 1)
        self.page += count
        self.left -= count

    def advance_zeros(self, count: int) -> None:
        """Pass pages of zeros, which take no place in packs."""
        if not self.apart:
            self.advance(count)

    def follow(self, pack: str, page: int) -> None:
        """Expect what comes after a page that was found elsewhere."""
        if self._sorted is None:
            self._sorted = sorted((run.pack, run.first, at) for at, run in enumerate(self._runs))
        near = bisect_right(self._sorted, (pack, page, ENDLESS)) - 1
        if near >= 0:
            at = self._sorted[near][2]
            run = self._runs[at]
            if run.pack == pack and pack != NOWHERE and page < run.first + run.count:
                self._go(at)
                self.advance(page + 1 - run.first)
                return
        self._at, self.apart = len(self._runs), True
        self.pack, self.page, self.left = pack, page + 1, ENDLESS

    def _go(self, at: int) -> None:
        self._at, self.apart = at, False
        if at < len(self._runs):
            run = self._runs[at]
            self.pack, self.page, self.left = run.pack, run.first, run.count
        else:
            self.pack, self.page, self.left = None, 0, 0

"""Searches files of a snapshot for secrets: all of a file, or what an earlier one does not have.

Knows no rules, and keeps nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.runtime.scrubbing.members import Members
from holdfast.runtime.scrubbing.rule import LONGEST
from holdfast.runtime.scrubbing.secret_search import Search

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.earlier_pages import PageRange

_BLOCK = 1 << 20


def read(path: Path, search: Search, members: Members | None = None) -> None:
    """Feed a file to the search, skipping holes of a sparse one; `members` follows an archive.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            at = 0
            while at < size:
                start = at if members is not None else _data_after(file.fileno(), at, size)
                if start > at:
                    search.skip(start - at)
                file.seek(start)
                data = file.read(_BLOCK)
                if not data:
                    break
                if members is not None:
                    members.feed(data)
                search.feed(data)
                at = start + len(data)
    except OSError as error:
        raise _unreadable(path, error) from error
    search.end()


def read_new(path: Path, search: Search, ranges: Sequence[PageRange]) -> None:
    """Search the new ranges of a file, with as much around each as a match can reach into.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            for first, last in stretches(ranges):
                for at in range(first, last, _BLOCK):
                    end = min(last, at + _BLOCK)
                    begin = max(0, at - LONGEST)
                    data = os.pread(file.fileno(), end + LONGEST - begin, begin)
                    search.within(data, at - begin, end - begin, alone=at == first)
    except OSError as error:
        raise _unreadable(path, error) from error


def stretches(ranges: Sequence[PageRange]) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of what is new. What lies close together is one stretch. Pure."""
    at, first, last = 0, 0, 0
    for one in ranges:
        if one.name is None:
            if last and at - last > 2 * LONGEST:
                yield first, last
                last = 0
            first, last = (first if last else at), at + one.size
        at += one.size
    if last:
        yield first, last


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot read {path}: {error.strerror or error}")


def _data_after(descriptor: int, at: int, size: int) -> int:
    """Return the offset of the next bytes that are not a hole (lseek(2)); the end if only a hole follows."""
    try:
        return min(size, os.lseek(descriptor, at, os.SEEK_DATA))
    except OSError:
        return size

"""The processors, memory and disk that a session used in the last day, in a file of fixed size.

The last hour has a sample every 5 s, the day one a minute. A sample's place follows from its time, so that a
later one replaces the sample of a round before, and nothing is ever moved. The processor's time is kept
as Linux counts it, from the beginning of the container: a share is the difference between two samples.

It knows neither the sampler nor the sessions.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import as_table

FINE_SECONDS, COARSE_SECONDS = 5, 60
_FINE, _COARSE = 720, 1440
"""Samples of an hour, and of a day."""
_SAMPLE = struct.Struct("<ddfQQQQQ")
_SIZE = (_FINE + _COARSE) * _SAMPLE.size
LONGEST_GAP = 3 * COARSE_SECONDS
"""Seconds between two samples, beyond which the time between them is left out."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a session: Unix time, processor seconds since its container began, and bytes."""

    at: float
    spent: float
    processors: float
    memory_used: int
    memory_total: int
    memory_cache: int
    disk_used: int
    disk_total: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of a session at a time.

    Attributes:
        at: the time.
        processors: how many it can use.
        processor_percent: the share of these that it used since the sample before, from 0 to 100.
        memory_used: bytes, without pages that would be reclaimed before any limit.
        memory_total: its limit, or the memory of the machine.
        memory_cache: bytes of files that Linux keeps in memory for it.
        disk_used: bytes that it has written since its image, as of the last count.
        disk_total: its limit, or the size of the disk.
    """

    at: datetime
    processors: float
    processor_percent: float
    memory_used: int
    memory_total: int
    memory_cache: int
    disk_used: int
    disk_total: int

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics for programs."""
        return {**as_table(self), "at": self.at.isoformat(timespec="milliseconds")}


class MetricsHistory:
    """The file of one session."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, sample: Sample) -> None:
        """Write a sample.

        Raises:
            OSError: the file cannot be written.
        """
        packed = _SAMPLE.pack(
            sample.at,
            sample.spent,
            sample.processors,
            *(sample.memory_used, sample.memory_total, sample.memory_cache),
            *(sample.disk_used, sample.disk_total),
        )
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, packed, int(sample.at / FINE_SECONDS) % _FINE * _SAMPLE.size)
            os.pwrite(file, packed, (_FINE + int(sample.at / COARSE_SECONDS) % _COARSE) * _SAMPLE.size)
        finally:
            os.close(file)

    def samples(self, since: float) -> list[Sample]:
        """Return the samples since a Unix time, oldest first: an empty list without a file.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            data = self._path.read_bytes()[:_SIZE]
        except FileNotFoundError:
            return []
        found = {
            values[0]: Sample(*values)
            for values in _SAMPLE.iter_unpack(data[: len(data) // _SAMPLE.size * _SAMPLE.size])
            if values[0] > 0 and values[0] >= since
        }
        return [found[at] for at in sorted(found)]

    def metrics(self, since: float) -> list[Metrics]:
        """Return the metrics since a Unix time, oldest first; raises as `samples` does."""
        return [each for each in between(self.samples(since - LONGEST_GAP)) if each.at.timestamp() >= since]


def between(samples: Sequence[Sample]) -> Iterator[Metrics]:
    """Yield the metrics of samples; the first sample only marks the start of the processor's time. Pure.

    A new container counts from 0: its first count is all that it used.
    """
    for before, after in pairwise(samples):
        seconds = after.at - before.at
        if seconds > LONGEST_GAP:
            continue
        spent = after.spent - before.spent if after.spent >= before.spent else after.spent
        share = 100 * spent / seconds / after.processors if after.processors > 0 else 0.0
        yield Metrics(
            datetime.fromtimestamp(after.at, UTC),
            round(after.processors, 3),
            round(min(max(share, 0.0), 100.0), 2),
            *(after.memory_used, after.memory_total, after.memory_cache, after.disk_used, after.disk_total),
        )

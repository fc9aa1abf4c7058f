"""A bundle through a pipe: the same archive as in a file, on the way between two programs.

A pipe cannot be read twice, and the index of a bundle comes last. So the reader keeps all of it first, in a
file without a name, which is gone however this ends. Knows nothing of what the bundle holds.
"""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from holdfast.errors import StoreError
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin

LEAST = 1 << 30
"""Bytes that stay free in the folder: what comes through a pipe may have no end."""
_BLOCK = 1 << 20
_LOOK = 64
"""Blocks after which the room is looked at again."""


class PipeDestination(FileDestination):
    """A destination that writes a bundle to a descriptor, which stays the caller's.

    What was written cannot be taken back: left before `finish`, the archive is truncated, and is refused.
    """

    def __init__(self, descriptor: int, name: str = "") -> None:
        super().__init__(Path(f"/dev/fd/{descriptor}"), name)
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        try:
            self._file = os.fdopen(os.dup(self._descriptor), "wb")
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def _show(self) -> None:
        self._file.flush()

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write the bundle to a pipe: {error.strerror or error}",
            hint="see what the program says that reads it",
        )


class PipeOrigin(FileOrigin):
    """An origin that reads a bundle from a descriptor; `folder` has room for all of it."""

    def __init__(self, descriptor: int, folder: Path) -> None:
        super().__init__(Path(f"/dev/fd/{descriptor}"))
        self._descriptor, self._folder = descriptor, folder
        self._kept: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "what came through the pipe"

    def __enter__(self) -> Self:
        try:
            self._kept = tempfile.TemporaryFile(dir=self._folder, buffering=0)
            self._path = Path(f"/proc/self/fd/{self._kept.fileno()}")
            for number in count():
                block = os.read(self._descriptor, _BLOCK)
                if not block:
                    break
                if number % _LOOK == 0:
                    self._check_room()
                left = memoryview(block)
                while left:
                    left = left[os.write(self._kept.fileno(), left) :]
            return super().__enter__()
        except OSError as error:
            self._discard()
            raise StoreError(f"cannot read the bundle from a pipe: {error.strerror or error}") from error
        except BaseException:
            self._discard()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, where)
        self._discard()

    def _check_room(self) -> None:
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < LEAST:
            raise StoreError(
                f"cannot read the bundle from a pipe: less than {LEAST >> 20} MiB would stay free",
                hint=f"it is kept in {self._folder} first: make room there",
            )

    def _discard(self) -> None:
        if self._kept is not None:
            self._kept.close()

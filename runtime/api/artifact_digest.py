"""The digest of a file of a session, read in parts. The session may change it meanwhile, or make it grow."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles

_AT_ONCE = 1 << 20
LARGEST = 1 << 30
"""Bytes of a file whose digest is taken."""


def digest(files: SessionFiles, path: str) -> str:
    """Return `sha256:` and the digest of a file.

    Raises:
        SessionFileError: it cannot be read.
        InvalidArgument: it is larger than `LARGEST`.
    """
    offset, found = 0, hashlib.sha256()
    while part := files.read(path, offset, _AT_ONCE):
        found.update(part)
        offset += len(part)
        if offset > LARGEST:
            raise InvalidArgument(f"cannot register artifact: it has more than {LARGEST} bytes")
    return f"sha256:{found.hexdigest()}"

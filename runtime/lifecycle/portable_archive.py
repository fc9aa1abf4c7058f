"""The archive of the portable guest, kept in a home's cache: an engine takes seconds to give it again.

It is named by the image it comes from, and used only as long as its digest is that of the image's layer.
Losing it only costs time. What an image gets of it is not known here.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.runtime.lifecycle import portable_layer

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.engine import Engine

_BLOCK = 1 << 20
_PREFIX = "portable-"


def obtain(engine: Engine, home: Home, portable: str) -> Path:
    """Return the archive of the portable guest's layer, from the cache or else from the engine.

    Args:
        engine: the engine that has the image.
        home: the home with the cache.
        portable: the name of the image.

    Raises:
        ImageError: the engine has no such image, or gives another layer than its own.
        EngineError: the engine refuses.
        OSError: the archive cannot be written.
    """
    (digest,) = engine.images.described(portable)["RootFS"]["Layers"]
    kept = _folder(home) / f"{_PREFIX}{portable.rpartition(':')[2]}.tar"
    if _is(kept, digest):
        with suppress(OSError):
            os.utime(kept)  # see `unused`
        return kept
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.staging) as folder:
        saved, layer = Path(folder, "image"), Path(folder, "layer")
        with saved.open("wb") as file, closing(engine.images.save(portable, _BLOCK)) as pieces:
            file.writelines(pieces)
        portable_layer.take(saved, layer, digest)
        layer.replace(kept)
    return kept


def unused(home: Home, seconds: float) -> Iterator[Path]:
    """Yield the archives that no image was fitted with for this many seconds."""
    for path in sorted(_folder(home).glob(f"{_PREFIX}*.tar")):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > seconds:
                yield path


def _folder(home: Home) -> Path:
    return home.root / "cache"


def _is(path: Path, digest: str) -> bool:
    """Check whether a file is there, and has this digest."""
    with suppress(OSError), path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == digest
    return False

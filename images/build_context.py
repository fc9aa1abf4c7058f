"""A build context: the files an image is made of, named by their content.

Pure: files come in as bytes, a digest and a tar archive go out.  It knows neither engine nor base
image: the same files have the same digest wherever they are built.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Raised when the way a context becomes an image changes in a manner no file shows.
RECIPE_VERSION = 1


@dataclass(frozen=True, slots=True)
class ContextFile:
    """One file of a context."""

    data: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The files of a build by their path in it."""

    kind: str
    files: Mapping[str, ContextFile]

    @property
    def digest(self) -> str:
        """The first twelve hex digits of a digest over the names, modes and bytes of all files."""
        total = hashlib.sha256(f"{RECIPE_VERSION}\0{self.kind}\0".encode())
        for name, file in sorted(self.files.items()):
            content = hashlib.sha256(file.data).hexdigest()
            total.update(f"{name}\0{int(file.executable)}\0{content}\0".encode())
        return total.hexdigest()[:12]

    def without(self, folder: str) -> BuildContext:
        """Return the context without the files of a folder, which ends in a slash."""
        kept = {name: file for name, file in self.files.items() if not name.startswith(folder)}
        return BuildContext(self.kind, kept)

    def tar(self) -> bytes:
        """Return the context as the engine's build API takes it; equal contexts give equal bytes."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, file in sorted(self.files.items()):
                member = tarfile.TarInfo(name)
                member.size = len(file.data)
                member.mode = 0o755 if file.executable else 0o644
                archive.addfile(member, io.BytesIO(file.data))
        return buffer.getvalue()


def tree(folder: Path, prefix: str, pattern: str = "*") -> Iterator[tuple[str, ContextFile]]:
    """Return the regular files below `folder` that match `pattern`, as members below `prefix`.

    Leftovers of tools (`__pycache__`, hidden files, editors' backups) do not go into an image.  A file that
    begins with `#!` is executable: modes get lost on the way through archives and checkouts.
    """
    for path in sorted(folder.rglob(pattern)):
        relative = path.relative_to(folder)
        if any(part.startswith(".") or part == "__pycache__" for part in relative.parts):
            continue
        if path.suffix in {".pyc", ".swp"} or path.name.endswith("~") or not path.is_file():
            continue
        data = path.read_bytes()
        yield f"{prefix}/{relative.as_posix()}", ContextFile(data, executable=data.startswith(b"#!"))

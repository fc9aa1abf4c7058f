"""The artifacts of a home: contents by digest, each once, and an index with one file for each artifact.

They stay until the user removes them, whatever happens to their sessions and snapshots. A content without
an entry of the index is left by an interrupted removal or registration; `gc` finds it. It does not know
sessions: contents come in parts.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from holdfast.base import locks, private_files
from holdfast.base.quantities import size_text
from holdfast.base.text import plain
from holdfast.errors import ArtifactNotFound, InvalidArgument, SessionBusy, StoreError
from holdfast.runtime.artifacts.kept_artifact import LARGEST, KeptArtifact

if TYPE_CHECKING:
    from holdfast.base.home import Home

MOST_BYTES = 16 << 30
"""Bytes of all contents of a home."""
MOST_KEPT = 10_000
"""Artifacts of a home."""
_LOCK = "artifacts"
_PATIENCE = 60.0
_AT_ONCE = 1 << 20
_LONGEST_ENTRY = 64 << 10


class ArtifactStore:
    """The artifacts of one home."""

    def __init__(self, home: Home) -> None:
        self._locks = home.locks
        self._index = home.root / "artifacts" / "index"
        self._contents = home.root / "artifacts" / "content"

    def listed(self, session: str | None = None) -> list[KeptArtifact]:
        """Return all artifacts, or only a session's (its name or id), oldest first.

        Raises:
            StoreError: the index cannot be read.
        """
        found = [self._read(path) for path in _files(self._index)]
        wanted = [each for each in found if session is None or session in (each.session, each.session_id)]
        return sorted(wanted, key=lambda each: (each.at, each.name))

    def find(self, name: str, session: str | None = None) -> KeptArtifact:
        """Return the artifact of a name.

        Raises:
            ArtifactNotFound: there is none.
            InvalidArgument: several sessions have one of that name, and none was chosen.
        """
        found = [each for each in self.listed(session) if each.name == name]
        if not found:
            raise ArtifactNotFound(
                f"cannot find artifact '{plain(name, 80)}'", hint="`holdfast artifact ls` lists them"
            )
        if len({each.session_id for each in found}) > 1:
            of = ", ".join(f"{each.session} ({each.session_id})" for each in found[:8])
            raise InvalidArgument(
                f"cannot choose artifact '{plain(name, 80)}': several sessions have one: {of}",
                hint="name the session with --session, by its id if several have that name",
            )
        return found[-1]

    @contextmanager
    def registering(self) -> Iterator[None]:
        """Keep contents from being collected between `receive` and `keep`."""
        with locks.shared(self._locks, _LOCK, "register an artifact", _PATIENCE):
            yield

    def receive(self, parts: Iterable[bytes]) -> tuple[str, int]:
        """Keep a content; return its digest, as `sha256:…`, and its size in bytes. Hold `registering`.

        Raises:
            InvalidArgument: it, or all contents together, would be larger than allowed.
            StoreError: it cannot be written.
        """
        room = MOST_BYTES - sum(each.stat().st_size for each in _files(self._contents))
        self._make()
        part = self._contents / f".{secrets.token_hex(8)}.part"
        digest, size = hashlib.sha256(), 0
        try:
            with private_files.create(part, new=True) as file:
                for data in parts:
                    digest.update(data)
                    size += len(data)
                    _check(size, room)
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._contents / digest.hexdigest())
            private_files.sync_folder(self._contents)
        except OSError as error:
            raise _unusable(error) from error
        finally:
            part.unlink(missing_ok=True)
        return f"sha256:{digest.hexdigest()}", size

    def keep(self, artifact: KeptArtifact) -> None:
        """Register an artifact whose content was received; an artifact of the same name and session is
        replaced.

        Raises:
            InvalidArgument: there are too many.
            StoreError: it cannot be written.
        """
        self._make()
        path = self._index / f"{artifact.key}.json"
        if not path.exists() and len(_files(self._index)) >= MOST_KEPT:
            raise InvalidArgument(
                f"cannot keep another artifact: there are {MOST_KEPT}",
                hint="`holdfast artifact rm NAME` removes one",
            )
        try:
            private_files.replace(path, artifact.model_dump_json(exclude_none=True))
        except OSError as error:
            raise _unusable(error) from error

    def content(self, artifact: KeptArtifact) -> Iterator[bytes]:
        """Yield the content in parts, and check it as it is read.

        Raises:
            StoreError: it is missing, or is not what was registered.
        """
        digest = hashlib.sha256()
        try:
            with (self._contents / artifact.digest.removeprefix("sha256:")).open("rb") as file:
                while data := file.read(_AT_ONCE):
                    digest.update(data)
                    yield data
        except OSError as error:
            raise _unusable(error) from error
        if f"sha256:{digest.hexdigest()}" != artifact.digest:
            raise StoreError(f"cannot read artifact '{artifact.name}': its content is damaged")

    def remove(self, artifact: KeptArtifact) -> None:
        """Remove an artifact, and its content if no other artifact has the same."""
        with locks.exclusive(self._locks, _LOCK, "remove an artifact", _PATIENCE):
            (self._index / f"{artifact.key}.json").unlink(missing_ok=True)
            self._remove_unneeded()

    def unneeded(self) -> list[Path]:
        """Return contents without an artifact, and parts of interrupted writes."""
        contents = _files(self._contents, hidden=True)  # before the index: a new content gets its entry later
        known = {each.digest.removeprefix("sha256:") for each in self.listed()}
        return [path for path in contents if path.name not in known]

    def collect(self, path: Path) -> None:
        """Remove a content, unless an artifact has it by now, or a registration is in progress."""
        with suppress(SessionBusy), locks.exclusive(self._locks, _LOCK, "collect artifacts"):
            if path in self.unneeded():
                path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove contents without an artifact, unless a registration is in progress."""
        with suppress(SessionBusy, OSError), locks.exclusive(self._locks, _LOCK, "collect artifacts"):
            self._remove_unneeded()

    def _remove_unneeded(self) -> None:
        for path in self.unneeded():
            path.unlink(missing_ok=True)

    def _make(self) -> None:
        for folder in (self._index.parent, self._index, self._contents):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _read(self, path: Path) -> KeptArtifact:
        try:
            with path.open("rb") as file:
                return KeptArtifact.model_validate_json(file.read(_LONGEST_ENTRY))
        except (OSError, ValidationError) as error:
            raise StoreError(
                f"cannot read the index of artifacts: {path.name} is damaged, or of a newer version",
                hint=f"upgrade Holdfast, or move {path} away",
            ) from error


def _files(folder: Path, *, hidden: bool = False) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if hidden or not path.name.startswith("."))
    except FileNotFoundError:
        return []


def _check(size: int, room: int) -> None:
    if size > LARGEST:
        raise InvalidArgument(f"cannot keep this artifact: it has more than {size_text(LARGEST)}")
    if size > room:
        raise InvalidArgument(
            f"cannot keep this artifact: all artifacts would take more than {size_text(MOST_BYTES)}",
            hint="`holdfast artifact ls` lists them, `holdfast artifact rm NAME` removes one",
        )


def _unusable(error: OSError) -> StoreError:
    return StoreError(
        f"cannot use the kept artifacts: {error.strerror or error}",
        hint="make room, or look at the folder `artifacts` of the home",
    )

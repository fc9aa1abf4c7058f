"""The artifacts of a home, for programs: listed, read, saved as files, removed; without a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.runtime.artifacts.artifact_store import ArtifactStore
from holdfast.runtime.artifacts.kept_artifact import SavedArtifact

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.artifacts.kept_artifact import KeptArtifact


class HomeArtifacts:
    """The artifacts that sessions have registered. The home keeps each until `remove`."""

    def __init__(self, home: Home) -> None:
        self._store = ArtifactStore(home)

    def list(self, session: str | None = None) -> list[KeptArtifact]:
        """Return all artifacts, or only a session's (its name or id), oldest first.

        Raises:
            StoreError: the index cannot be read.
        """
        return self._store.listed(session)

    def find(self, name: str, session: str | None = None) -> KeptArtifact:
        """Return the artifact of a name; `session` is a name or id, also of a removed session.

        Raises:
            ArtifactNotFound: there is none.
            InvalidArgument: several sessions have one.
        """
        return self._store.find(name, session)

    def parts(self, name: str, session: str | None = None) -> Iterator[bytes]:
        """Yield the content of an artifact; it is checked against its digest at the end.

        Raises:
            ArtifactNotFound, InvalidArgument: as `find`.
            StoreError: the content is damaged.
        """
        return self._store.content(self.find(name, session))

    def save(self, name: str, to: Path | str, *, session: str | None = None) -> Path:
        """Save an artifact as a file, or into a folder, and return its path.

        A file of that name is replaced, in one step.

        Raises:
            ArtifactNotFound, InvalidArgument: as `find`, or it cannot be written there.
            StoreError: the content is damaged; nothing was written.
        """
        found = self.find(name, session)
        with SavedArtifact(found, to) as file:
            for part in self._store.content(found):
                file.write(part)
        return file.place

    def remove(self, name: str, session: str | None = None) -> KeptArtifact:
        """Remove an artifact and return its description. Records that name it keep its digest.

        Raises:
            ArtifactNotFound, InvalidArgument: as `find`.
        """
        found = self.find(name, session)
        self._store.remove(found)
        return found

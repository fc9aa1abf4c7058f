"""The images of an engine: a part of `Engine`. It decides nothing, and knows no sessions or snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.engine.engine_calls import filters, layers_of, translated

if TYPE_CHECKING:
    import docker


class Images:
    """The images of one engine. `ref` is a name or an id."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def id(self, ref: str) -> str | None:
        """The id of an image; None if there is none of this name."""
        import docker.errors

        with translated("inspect image"):
            try:
                return str(self._client.images.get(ref).id)
            except docker.errors.NotFound:
                return None

    def config(self, ref: str) -> dict[str, Any] | None:
        """What an image says about containers made of it; None if there is none of this name."""
        import docker.errors

        with translated("inspect image"):
            try:
                return dict(self._client.images.get(ref).attrs["Config"] or {})
            except docker.errors.NotFound:
                return None

    def exists(self, ref: str) -> bool:
        """Whether there is an image of this name or id."""
        return self.id(ref) is not None

    def size(self, ref: str) -> int:
        """Bytes of an image with all its layers; 0 if there is none of this name."""
        import docker.errors

        with translated("inspect image"):
            try:
                return int(self._client.images.get(ref).attrs["Size"])
            except docker.errors.NotFound:
                return 0

    def layers(self, ref: str) -> list[Path]:
        """The folders of an image's layers on this host, the topmost first; none if of another kind."""
        import docker.errors

        with translated("look at an image"):
            try:
                return layers_of(self._client.images.get(ref).attrs)
            except docker.errors.NotFound:
                return []

    def having(self, **labels: str) -> dict[str, list[str]]:
        """Tags by id of the images that have these labels."""
        with translated("list images"):
            found = self._client.api.images(filters={"label": filters(labels)})
        return {str(item["Id"]): list(item["RepoTags"] or []) for item in found}

    def tag(self, ref: str, name: str) -> None:
        """Give an image one more name."""
        repository, _, tag = name.rpartition(":")
        with translated("tag image"):
            self._client.api.tag(ref, repository, tag)

    def remove(self, ref: str) -> bool:
        """Remove an image, with the parents nothing else needs; False if there was none."""
        import docker.errors

        with translated("remove image"):
            try:
                self._client.api.remove_image(ref, force=True)
            except docker.errors.NotFound:
                return False
        return True

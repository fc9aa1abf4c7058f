"""The images of an engine: a part of `Engine`. Makes no decisions, and knows neither sessions nor
snapshots."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.engine.engine_faults import said, translated
from holdfast.engine.engine_layers import EngineLayers
from holdfast.engine.quick_list import label_filters
from holdfast.errors import EngineError, ImageError

if TYPE_CHECKING:
    import docker


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image in a listing. `size` is in bytes, `created` in Unix seconds."""

    id: str
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    size: int
    created: float


class EngineImages:
    """The images of one engine. `ref` is a name or an id."""

    def __init__(self, client: docker.DockerClient, layers: EngineLayers) -> None:
        # This part of the SDK has no types.
        self._api: Any = client.api
        self._layers = layers

    def inspect(self, ref: str) -> dict[str, Any] | None:
        """Return the engine's description of an image; None if there is none of this name."""
        import docker.errors

        with translated("inspect image"):
            try:
                return dict(self._api.inspect_image(ref))
            except docker.errors.NotFound:
                return None

    def described(self, ref: str) -> dict[str, Any]:
        """Return the engine's description of an image.

        Raises:
            ImageError: there is none of this name.
        """
        with translated("inspect image"):
            return dict(self._api.inspect_image(ref))

    def id(self, ref: str) -> str | None:
        """Return the id of an image; None if there is none of this name."""
        found = self.inspect(ref)
        return None if found is None else str(found["Id"])

    def config(self, ref: str) -> dict[str, Any] | None:
        """Return an image's settings for containers; None if there is none of this name."""
        found = self.inspect(ref)
        return None if found is None else dict(found["Config"] or {})

    def exists(self, ref: str) -> bool:
        """Check whether there is an image of this name or id."""
        return self.inspect(ref) is not None

    def size(self, ref: str) -> int:
        """Return the bytes of an image with all its layers; 0 if there is none of this name."""
        return int((self.inspect(ref) or {}).get("Size") or 0)

    def layers(self, ref: str) -> list[Path]:
        """Return the folders of an image's layers on this host, the topmost first; none if unknown."""
        return self._layers.of_image(self.inspect(ref) or {})

    def listed(self, **labels: str) -> list[ListedImage]:
        """List the images that have these labels (`_` stands for `.`)."""
        with translated("list images"):
            found = self._api.images(filters={"label": label_filters(labels)})
        return [
            ListedImage(
                str(each["Id"]),
                tuple(tag for tag in each.get("RepoTags") or () if not tag.startswith("<none>")),
                dict(each.get("Labels") or {}),
                int(each.get("Size") or 0),
                float(each.get("Created") or 0),
            )
            for each in found
        ]

    def layer_digests(self) -> Generator[tuple[str, ...], None, None]:
        """Yield the layers (diff ids, lowest first) of each image, intermediate ones included."""
        with translated("list images"):
            for ref in self._api.images(all=True, quiet=True):
                if found := self.inspect(ref):  # else it was removed just now
                    yield tuple(found["RootFS"].get("Layers") or ())

    def tag(self, ref: str, name: str) -> None:
        """Give an image one more name."""
        repository, _, tag = name.rpartition(":")
        with translated("tag image"):
            self._api.tag(ref, repository, tag)

    def untag(self, ref: str) -> None:
        """Remove a name, and the image with its last one; refused while a container needs it."""
        import docker.errors

        with translated("remove image"):
            try:
                self._api.remove_image(ref)
            except docker.errors.NotFound:
                return

    def discard(self, ids: Iterable[str]) -> None:
        """Remove those of these images that are unnamed and not needed by anything else."""
        for identity in ids:
            with suppress(EngineError, ImageError):
                if (found := self.inspect(identity)) and not found.get("RepoTags"):
                    self.untag(identity)

    def remove(self, ref: str) -> bool:
        """Remove an image, with parents that are not needed otherwise; False if it did not exist."""
        import docker.errors

        with translated("remove image"):
            try:
                self._api.remove_image(ref, force=True)
            except docker.errors.NotFound:
                return False
        return True

    def save(self, ref: str, block: int) -> Generator[bytes, None, None]:
        """Yield an image as a tar archive, in pieces of `block` bytes."""
        with translated("read the files of a snapshot from the engine"):
            saved = self._api.get_image(ref, chunk_size=block)
            with closing(saved):
                yield from saved

    def load(self, archive: Iterable[bytes], what: str) -> None:
        """Load an image from pieces of a tar archive.

        Raises:
            EngineError: "cannot <what>: …".
        """
        with translated(what):
            for event in self._api.load_image(archive, quiet=True):
                if "error" in event:
                    raise said(EngineError, what, str(event["error"]))

    def build(
        self,
        context: bytes,
        dockerfile: str,
        tag: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
        *,
        host_network: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Build an image of a context (a tar archive), and yield the events of the build.

        With `host_network` its steps reach what listens on the host's loopback.
        """
        with translated(f"build {tag}"):
            yield from self._api.build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                dockerfile=dockerfile,
                tag=tag,
                buildargs=dict(arguments),
                labels=dict(labels),
                network_mode="host" if host_network else None,
                rm=True,
                forcerm=True,
                decode=True,
            )

    def build_folder(
        self,
        folder: Path,
        dockerfile: tuple[str, str],
        ignored: list[str],
        arguments: Mapping[str, str],
        target: str | None,
        *,
        network: str | None,
    ) -> Iterator[dict[str, Any]]:
        """Build an unnamed image of a folder, and yield the build's events.

        Args:
            folder: the context.
            dockerfile: its name in the context, or one that nothing there has, and its text: that counts, and
                not what the folder has under this name.
            ignored: the lines of a .dockerignore.
            arguments: values of ARG.
            target: of several stages, the one to build.
            network: of the steps, as the engine calls it; None is the engine's own.

        Raises:
            OSError: a file of the folder cannot be read.
            EngineError, ImageError: the engine refuses.
        """
        from docker.utils import build as build_contexts

        contexts: Any = build_contexts
        name = dockerfile[0]
        files = sorted(contexts.exclude_paths(str(folder), list(ignored), dockerfile=name))
        extra = [dockerfile]
        if not (folder / name).is_file():
            # The engine takes it out of the context again.
            extra.append((".dockerignore", "\n".join([*(ignored or [".dockerignore"]), name])))
        with (
            contexts.create_archive(str(folder), files, extra_files=extra) as archive,
            translated(f"build {folder}"),
        ):
            yield from self._api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=name,
                buildargs=dict(arguments),
                target=target,
                network_mode=network,
                rm=True,
                forcerm=True,
                decode=True,
            )

    def pull(self, repository: str, tag: str) -> Iterator[dict[str, Any]]:
        """Pull an image from a registry, and yield the events of the pull."""
        with translated("pull image"):
            yield from self._api.pull(repository, tag=tag, stream=True, decode=True)

    def import_files(self, archive: Path, name: str, changes: list[str]) -> str:
        """Make an image of the files in a tar archive; return the engine's reply."""
        repository, tag = name.split(":")
        with translated("import image"):
            return str(
                self._api.import_image_from_file(
                    str(archive), repository=repository, tag=tag, changes=changes
                )
            )

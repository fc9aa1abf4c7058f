"""The files of an engine's containers: a part of `Engine`. Does not follow links of a container on this
host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from holdfast.engine import overlay
from holdfast.engine.engine_faults import translated
from holdfast.engine.engine_layers import EngineLayers
from holdfast.engine.joined import Joined

if TYPE_CHECKING:
    from tarfile import TarInfo

    import docker


class ContainerFiles:
    """The files of the containers of one engine."""

    def __init__(self, client: docker.DockerClient, layers: EngineLayers) -> None:
        # This part of the SDK has no types.
        self._api: Any = client.api
        self._layers = layers

    def layers(self, container_id: str) -> list[Path]:
        """Return the folders of a container's layers on this host, its own first; none if unknown."""
        import docker.errors

        with translated("inspect container"):
            try:
                return self._layers.of_container(self._api.inspect_container(container_id))
            except docker.errors.NotFound:
                return []

    def differences(self, container_id: str, layers: Sequence[Path] | None = None) -> list[tuple[str, int]]:
        """Return the same as `changes`, read from the container's layer where this process can read that.

        `layers` are what the method of that name returned, if it was called before.
        """
        folders = self.layers(container_id) if layers is None else layers
        quick = overlay.changes(folders[0], folders[1:]) if folders else None
        return self.changes(container_id) if quick is None else quick

    def changes(self, container_id: str) -> list[tuple[str, int]]:
        """Return the paths in which a container differs from its image: 0 is changed, 1 added, 2 deleted.

        It compares every file of the image: 0.5 s and more.
        """
        with translated("compare the files of a container"):
            found = self._api.diff(container_id)
        return [(str(each["Path"]), int(each["Kind"])) for each in found or []]

    def written(self, container_id: str) -> int:
        """Return the number of bytes that a container wrote over its image."""
        with translated("measure the files of a container"):
            found = self._api.containers(all=True, size=True, filters={"id": container_id})
        return sum(int(each.get("SizeRw") or 0) for each in found)

    def read(self, container_id: str, path: str, limit: int = 1 << 20) -> bytes:
        """Return the end of a file of a container, running or not; empty if there is none."""
        import io
        import tarfile

        import docker.errors

        with translated("read a file of a container"):
            try:
                stream, _ = self._api.get_archive(container_id, path)
            except docker.errors.NotFound:
                return b""
            packed = bytearray()
            for piece in stream:
                packed += piece
                if len(packed) > 8 * limit:
                    return b""
        try:
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                member = archive.next()
                file = archive.extractfile(member) if member and member.isreg() else None
                return file.read()[-limit:] if file else b""
        except tarfile.TarError:
            return b""

    def write(self, container_id: str, path: str, data: bytes) -> None:
        """Write a small file, readable by all users, into a container, running or not."""
        import io
        import tarfile

        folder, _, name = path.rpartition("/")
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(data), 0o644
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(member, io.BytesIO(data))
        with translated("write a file of a container"):
            self._api.put_archive(container_id, folder, packed.getvalue())

    def entry(self, container_id: str, path: str) -> TarInfo | None:
        """Return the tar entry of a path in a container, running or not; None if nothing has that path."""
        import tarfile

        import docker.errors

        with translated("read files of a container"):
            try:
                stream, _ = self._api.get_archive(container_id, path)
            except docker.errors.NotFound:
                return None
            with closing(stream), tarfile.open(fileobj=cast("Any", Joined(stream)), mode="r|") as archive:
                return archive.next()

    def make_folder(self, container_id: str, path: str) -> None:
        """Make a folder of a container, running or not, and those above it, unless something is there.

        Raises:
            EngineError: what is above it is not a folder.
        """
        import io
        import tarfile
        from pathlib import PurePosixPath

        place, missing = PurePosixPath(path), []
        while place.name and self.entry(container_id, str(place)) is None:
            missing.append(place.name)
            place = place.parent
        if not missing:
            return
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for count in range(len(missing)):
                member = tarfile.TarInfo("/".join(missing[len(missing) - 1 - count :][::-1]))
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
        packed.seek(0)
        self.unpack(container_id, str(place), packed, f"make the folder {path}")

    def archive(self, container_id: str, path: str) -> Iterator[bytes]:
        """Yield a folder of a container, running or not, as a tar archive in pieces."""
        with translated("read files of a container"):
            stream, _ = self._api.get_archive(container_id, path)
            yield from stream

    def unpack(self, container_id: str, folder: str, archive: BinaryIO, what: str) -> None:
        """Unpack a tar archive in a container.

        Raises:
            EngineError: "cannot <what>: …".
        """
        with translated(what):
            self._api.put_archive(container_id, folder, archive)

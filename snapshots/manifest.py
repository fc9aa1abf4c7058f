"""The manifest, stored with a snapshot: format, lineage, and a digest of every file.

    snapshots/<id>/manifest.json   this, written last
    snapshots/<id>/images/         process images (live snapshots only), tmpfs archives, facts.json,
                                   file-numbers.json
    snapshots/<id>/apart.json, .data
                                   files that its image cannot have (form 2)
    snapshots/<id>/images/earlier-*
                                   memory as earlier snapshots have it (form 3)

The files of the session are a Docker image, named here by its id, which is itself a digest. The manifest
is the truth about a snapshot; the store is an index of it.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import SnapshotDamaged
from holdfast.snapshots import form_number
from holdfast.snapshots.checkpointer.layers import apart
from holdfast.snapshots.checkpointer.record import earlier_names
from holdfast.snapshots.failure import Failure
from holdfast.snapshots.fitness import Needs
from holdfast.snapshots.machine import MachineFeatures

FILE = "manifest.json"


class _ManifestPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoredFile(_ManifestPart):
    """One file of a snapshot, relative to its folder."""

    name: str
    bytes: int
    blake3: str


class Processes(_ManifestPart):
    """The values needed to restore the process tree.

    `root_pid` is the pid of the keeper, or of an older supervisor, inside the container, `last_pid` the
    highest pid of the tree. `token` is the text the supervisor waits for, `addresses` are the container's.
    """

    root_pid: int
    last_pid: int
    token: str
    addresses: list[str]
    memory_bytes: int
    criu: str
    kernel: str
    machine: str


class Manifest(_ManifestPart):
    """One snapshot. Sizes in bytes, times in UTC, durations in seconds."""

    format: Literal[1, 2, 3] = 1
    id: str
    kind: Literal["live", "filesystem"]
    label: str | None
    created_at: datetime
    session: str
    session_name: str
    generation: int
    parent: str | None
    image: str
    options: dict[str, Any]
    processes: Processes | None
    files: list[StoredFile]
    failure: Failure | None = None
    needs: Needs | None = None

    @property
    def has_apart(self) -> bool:
        """Whether there are files of the session that its image cannot hold."""
        return any(entry.name == apart.LIST for entry in self.files)

    @property
    def has_earlier(self) -> bool:
        """Whether it shares memory with earlier snapshots of its session."""
        return any(earlier_names.is_earlier(entry.name.rpartition("/")[2]) for entry in self.files)

    def all_needs(self) -> Needs:
        """Return its needs; for an older version's snapshot, as far as recorded."""
        processes = self.processes
        needs = self.needs or Needs()
        if processes is None:
            return needs.model_copy(update={"live": False})
        known = {"arch": processes.machine, "kernel": processes.kernel, "criu": processes.criu}
        machine = MachineFeatures.model_validate({**needs.machine.model_dump(), **known})
        update = {"live": True, "machine": machine, "memory_bytes": processes.memory_bytes}
        return needs.model_copy(update=update)


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into a snapshot's folder; leave out newer fields that are empty.

    So older versions, which do not know those fields, can read it. They cannot make files that are kept
    apart from the image: a snapshot with these has the second form. Nor can they find memory in earlier
    images: with that it has the third.
    """
    form = 3 if manifest.has_earlier else 2 if manifest.has_apart else 1
    manifest = manifest.model_copy(update={"format": form})
    added = [name for name, field in Manifest.model_fields.items() if not field.is_required()]
    left_out = {name for name in added if getattr(manifest, name) is None}
    (folder / FILE).write_text(manifest.model_dump_json(indent=2, exclude=left_out))


def read(folder: Path) -> Manifest:
    """Read the manifest of a snapshot.

    Raises:
        SnapshotNewer: a newer version wrote it.
        SnapshotDamaged: it is missing, unreadable, or not valid.
    """
    try:
        text = (folder / FILE).read_text()
    except OSError as error:
        raise SnapshotDamaged(
            f"cannot use snapshot {folder.name}: its manifest cannot be read ({error.strerror})",
            hint=f"`holdfast rmi {folder.name}`",
        ) from error
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        if forms := form_number.difference(error):
            raise form_number.refusal(folder.name, forms) from error
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise SnapshotDamaged(
            f"cannot use snapshot {folder.name}: its manifest is not valid ({where}: {first['msg']})",
            hint=f"it is damaged: `holdfast rmi {folder.name}`",
        ) from error

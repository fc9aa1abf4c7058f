"""The description that travels with a snapshot: its manifest without what belongs to this host only. Pure.

Environment and mounts of a session stay here: the former is where secrets are put, the latter are folders of
this host. The failure, and the position in the journal, travel along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.runtime.sessions.option_table import EXPORTED
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.snapshots.bundle import form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.image_layers import ImageFacts
from holdfast.snapshots.layer.image import base_layers
from holdfast.snapshots.manifest import Manifest, StoredFile

if TYPE_CHECKING:
    from holdfast.runtime.scrubbing.scrubber import Scrubber


def config(
    kept: Manifest,
    image: ImageFacts,
    segments: list[form.LayerSegment],
    files: list[form.InParts],
    details: SnapshotDetails,
    scrubber: Scrubber,
    stored: Sequence[StoredFile],
) -> bytes:
    """Return the config of the snapshot's manifest, without secrets; `stored` are its files as they
    are sent.
    """
    options = {key: scrubber.value(kept.options[key]) for key in EXPORTED if key in kept.options}
    changed = {
        "options": options,
        "files": list(stored),
        "failure": scrubber.failure(kept.failure) if kept.failure is not None else None,
        # Names have a form of their own, which replacements of secrets do not have.
        "label": kept.label if kept.label is None or scrubber.text(kept.label) == kept.label else None,
        "session_name": kept.session_name
        if scrubber.text(kept.session_name) == kept.session_name
        else kept.session,
    }
    made = form.Config(
        snapshot=kept.model_copy(update=changed),
        base=base_layers(image.config, len(image.layers)),
        segments=segments,
        files=files,
        details={key: scrubber.value(value) for key, value in details.portable.items()},
    )
    return form.dumps(made.model_dump(mode="json"))


def image_config(kept: Manifest, image: ImageFacts, scrubber: Scrubber) -> bytes:
    """Return the config of the ordinary image: a shell in the files of the session, without any
    secret value.
    """
    chosen = kept.options.get("env")
    names = set(chosen) if isinstance(chosen, dict) else set()
    given = [str(each) for each in image.config.get("Env") or ()]
    return form.dumps(
        {
            "architecture": image.architecture,
            "os": image.system,
            "config": {
                "Env": [scrubber.text(each) for each in given if each.partition("=")[0] not in names],
                "Cmd": ["bash"],
                "WorkingDir": str(kept.options.get("workdir") or image.config.get("WorkingDir") or "/"),
            },
            "rootfs": {"type": "layers", "diff_ids": list(image.layers)},
            "history": [{"created_by": "holdfast"} for _ in image.layers],
        }
    )


def layer(packed: BlobDescriptor, size: int) -> BlobDescriptor:
    """Return the descriptor of a layer with its uncompressed size."""
    return BlobDescriptor(packed.media_type, packed.digest, packed.size, {media.RAW_BYTES: str(size)})

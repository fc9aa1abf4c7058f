"""What of a snapshot travels with its parts: its manifest without what is of this host only. Pure.

Environment and mounts of a session stay here: the first is where secrets are put, the second are folders of
this host. What failed, and where the journal stood, go along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.snapshots.bundle import form, media
from holdfast.snapshots.bundle.ends import Descriptor
from holdfast.snapshots.bundle.image_layers import Image
from holdfast.snapshots.layer.image import BASE_LABEL
from holdfast.snapshots.manifest import Manifest

OPTIONS = ("network", "memory", "cpus", "pids", "user", "workdir")
DETAILS = ("moment", "failure", "dropped", "base", "frozen_seconds", "memory_bytes")


def config(
    kept: Manifest,
    image: Image,
    segments: list[form.Segment],
    files: list[form.InParts],
    details: Mapping[str, Any],
) -> bytes:
    """The config of the snapshot's manifest."""
    count = str((image.config.get("Labels") or {}).get(BASE_LABEL, ""))
    options = {key: kept.options[key] for key in OPTIONS if key in kept.options}
    made = form.Config(
        snapshot=kept.model_copy(update={"options": options}),
        base=int(count) if count.isdecimal() else len(image.layers),
        segments=segments,
        files=files,
        details={key: details[key] for key in DETAILS if key in details},
    )
    return form.dumps(made.model_dump(mode="json"))


def image_config(kept: Manifest, image: Image) -> bytes:
    """The config of the ordinary image: a shell in the files of the session."""
    chosen = kept.options.get("env")
    names = set(chosen) if isinstance(chosen, dict) else set()
    given = [str(each) for each in image.config.get("Env") or ()]
    return form.dumps(
        {
            "architecture": image.architecture,
            "os": image.system,
            "config": {
                "Env": [each for each in given if each.partition("=")[0] not in names],
                "Cmd": ["bash"],
                "WorkingDir": str(kept.options.get("workdir") or image.config.get("WorkingDir") or "/"),
            },
            "rootfs": {"type": "layers", "diff_ids": list(image.layers)},
            "history": [{"created_by": "holdfast"} for _ in image.layers],
        }
    )


def layer(packed: Descriptor, size: int) -> Descriptor:
    """The descriptor of a layer that says how large it is when it is opened."""
    return Descriptor(packed.media_type, packed.digest, packed.size, {media.RAW_BYTES: str(size)})

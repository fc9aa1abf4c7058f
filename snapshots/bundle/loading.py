"""Loading of an image into an engine that already has some of its layers, with a config entirely our own.

Layers the engine has are named and not sent, as in `layer.image`. Nothing that a foreign image states about
itself is adopted except the order of its layers.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from holdfast.engine.engine import Engine
from holdfast.engine.image_store import ImageStore
from holdfast.snapshots.layer.image import BASE_LABEL, WRITTEN_LABEL

_BLOCK = 1 << 20
WORKSPACE = "/workspace"


def there(engine: Engine, layers: Sequence[str], likely: str = "") -> int:
    """Return how many of these layers, from the lowest, the engine already has.

    If the image called `likely` has all but the topmost one, no other image is looked at.
    """
    if engine.layers.store() is not ImageStore.OVERLAY2:
        return 0
    if likely and (image := engine.images.inspect(likely)) is not None:
        known = list(image["RootFS"].get("Layers") or ())
        if known == list(layers[: len(known)]) and len(known) >= len(layers) - 1:
            return len(known)
    most = 0
    with closing(engine.images.layer_digests()) as images:
        for found in images:
            pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(layers, found, strict=False))
            most = max(most, sum(1 for _ in pairs))
            if most == len(layers):
                break
    return most


def load(
    engine: Engine,
    platform: tuple[str, str],
    layers: Sequence[str],
    files: Mapping[str, Path],
    ref: str,
    labels: Mapping[str, str],
    base: int,
    written: Sequence[int] = (),
) -> str:
    """Make the image, tagged ref, and return its id.

    Args:
        engine: the engine that receives it.
        platform: system and architecture.
        layers: diff ids, the lowest first.
        files: archives of the layers the engine lacks, by diff id.
        ref: its name.
        labels: the labels it is found by.
        base: number of layers that do not come from snapshots.
        written: the position of the first layer of each container that has several layers.

    Raises:
        EngineError: the engine refuses.
    """
    system, architecture = platform
    created = datetime.now(UTC).isoformat()
    own = {BASE_LABEL: str(base), **({WRITTEN_LABEL: ",".join(map(str, written))} if written else {})}
    config = json.dumps(
        {
            "architecture": architecture,
            "os": system,
            "created": created,
            "config": {"WorkingDir": WORKSPACE, "Labels": {**labels, **own}},
            "rootfs": {"type": "layers", "diff_ids": list(layers)},
            "history": [{"created": created, "created_by": "holdfast"} for _ in layers],
        }
    ).encode()
    engine.images.load(_archive(config, layers, files, ref), "load the files of a snapshot")
    # In the engine's own store that is the digest of the config, in the one of containerd of the manifest.
    return str(engine.images.described(ref)["Id"])


def _archive(config: bytes, layers: Sequence[str], files: Mapping[str, Path], ref: str) -> Iterator[bytes]:
    places = []
    for number, layer in enumerate(layers):
        places.append(f"{number}/layer.tar")
        if layer in files:
            yield from _member(places[-1], files[layer])
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [ref], "Layers": places}]).encode()
    last = io.BytesIO()
    with tarfile.open(fileobj=last, mode="w") as archive:
        for text, data in ((name, config), ("manifest.json", manifest)):
            member = tarfile.TarInfo(text)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    yield last.getvalue()


def _member(name: str, path: Path) -> Iterator[bytes]:
    member = tarfile.TarInfo(name)
    member.size = path.stat().st_size
    yield member.tobuf(tarfile.GNU_FORMAT)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
    yield bytes(-member.size % tarfile.BLOCKSIZE)

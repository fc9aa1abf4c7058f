"""Puts images of one engine into the data root of another that does not run yet, or into one that does.

The former has the effect of `docker save` and `docker load`, which read, pack, digest and unpack a
gigabyte, in a tenth of their time. Every file is copied; the two share nothing afterwards. Knows how an
engine with overlay2 lays out its folders, as of Docker 20.10 to 28 without the containerd image store.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

from holdfast.engine.engine import Engine

_IMAGES = Path("image/overlay2/imagedb/content/sha256")
_LAYERS = Path("image/overlay2/layerdb/sha256")
_NAMES = Path("image/overlay2/repositories.json")


def seed(data: Path, references: Iterable[str], of: Engine) -> None:
    """Copy the images, all their layers and these names of them into the data root `data`."""
    info = of.info()
    assert info["Driver"] == "overlay2", f"images are copied from overlay2 only, not from {info['Driver']}"
    source = Path(info["DockerRootDir"])
    names: dict[str, dict[str, str]] = {}
    for folder in (_IMAGES, _LAYERS, "overlay2/l"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    # The engine's own modes: folders closed to users of this machine there are closed here.
    for folder in ("", "overlay2"):
        (data / folder).chmod(0o710)
    for reference in references:
        image = of.images.id(reference)
        assert image is not None, f"there is no image {reference}"
        names.setdefault(reference.rpartition(":")[0], {})[reference] = image
        config = (source / _IMAGES / image.removeprefix("sha256:")).read_bytes()
        (data / _IMAGES / image.removeprefix("sha256:")).write_bytes(config)
        for chain in _chain_ids(json.loads(config)):
            _copy_layer(source, data, chain)
    (data / _NAMES).write_text(json.dumps({"Repositories": names}))


def transfer(references: Iterable[str], source: str, host: str) -> None:
    """Copy images from the engine with this socket to the engine of this DOCKER_HOST, both running."""
    saving = subprocess.Popen(["docker", "-H", f"unix://{source}", "save", *references], stdout=PIPE)
    with saving:
        loading = ["docker", "-H", host, "load", "--quiet"]
        subprocess.run(loading, stdin=saving.stdout, stdout=subprocess.DEVNULL, check=True)
    assert saving.returncode == 0


def _chain_ids(config: Mapping[str, Any]) -> Iterable[str]:
    """Return the engine's name of each layer: a digest of it and all below it."""
    chain = ""
    for diff in config["rootfs"]["diff_ids"]:
        text = f"{chain} {diff}" if chain else diff
        chain = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if chain else diff
        yield chain.removeprefix("sha256:")


def _copy_layer(source: Path, data: Path, chain: str) -> None:
    target = data / _LAYERS / chain
    if target.exists():
        return
    cache_id = (source / _LAYERS / chain / "cache-id").read_text()
    subprocess.run(["cp", "-a", str(source / _LAYERS / chain), str(target)], check=True)
    # Not `merged`, which comes and goes while a build uses the layer.
    there, here = source / "overlay2" / cache_id, data / "overlay2" / cache_id
    here.mkdir(mode=0o710)
    parts = [str(there / name) for name in ("diff", "link", "lower", "committed") if (there / name).exists()]
    subprocess.run(["cp", "-a", *parts, str(here)], check=True)
    (here / "work").mkdir(mode=0o700)
    (data / "overlay2/l" / (here / "link").read_text()).symlink_to(f"../{cache_id}/diff")


def know_layers(data: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Record the engine's layers as known: pairs (digest in a registry, digest unpacked).

    As if it had pulled them from there; it does not fetch them again.
    """
    folder = data / "image/overlay2/distribution/diffid-by-digest/sha256"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for digest, diff_id in pairs:
        (folder / digest.removeprefix("sha256:")).write_text(diff_id)

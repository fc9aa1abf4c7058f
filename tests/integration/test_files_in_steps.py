"""Snapshots of a session whose files change little: each stores the change, and has all of its moment."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import zstandard
from tests.machines.fixtures import Warm
from tests.machines.registry import SHARED, Registry

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import snapshot_image
from holdfast.snapshots.bundle import image_layers
from holdfast.snapshots.layer import layer_chain

LARGE = 30_000_000
PLACES = "/srv /usr/share/doc /etc/issue /usr/local"
FORM = "%p %y %m %n %s %T@ %l\\n"
SEEN = f"find {PLACES} -printf '{FORM}' 2>&1 | sort; find /srv -type f | sort | xargs sha256sum"


def files(session: Session) -> str:
    return session.exec(SEEN).text


def stored(snapshot: Snapshot) -> int:
    """Return the bytes of files that are charged to a snapshot."""
    found = snapshot.row.details["storage"]
    assert isinstance(found, dict)
    return int(found["files"])


def plain(blob: bytes) -> Iterator[bytes]:
    """Decompress a part of a bundle, if it is compressed."""
    if blob.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(blob)) as file:
            yield from iter(lambda: file.read(1 << 20), b"")
    elif blob.startswith(b"\x28\xb5\x2f\xfd"):
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(blob), read_across_frames=True) as reader:
            yield from iter(lambda: reader.read(1 << 20), b"")
    else:
        yield blob


def has(pieces: Iterable[bytes], wanted: bytes) -> bool:
    found, end = False, b""
    for piece in pieces:
        found |= wanted in end + piece
        end = (end + piece)[-len(wanted) :]
    return found


def exported(file: Path) -> list[bytes]:
    """Return the layers of the image in a bundle."""
    with tarfile.open(file) as archive:

        def read(name: str) -> bytes:
            data = archive.extractfile(name)
            assert data is not None
            return data.read()

        def blob(found: Any) -> bytes:
            return read("blobs/" + found["digest"].replace(":", "/"))

        index = json.loads(blob(json.loads(read("index.json"))["manifests"][0]))
        (image,) = [each for each in index["manifests"] if each["platform"]["os"] == "linux"]
        return [blob(each) for each in json.loads(blob(image))["layers"]]


def registry_blobs(registry: Registry, digest: str) -> list[bytes]:
    """Return the layers of the image that was pushed."""

    def get(path: str, accept: str = "") -> bytes:
        url = f"http://{registry.address}/v2/{SHARED}/{path}"
        return httpx.get(url, headers={"Accept": accept} if accept else {}).raise_for_status().content

    index = json.loads(get(f"manifests/{digest}", "application/vnd.oci.image.index.v1+json"))
    (image,) = [each for each in index["manifests"] if each["platform"]["os"] == "linux"]
    manifest = json.loads(get(f"manifests/{image['digest']}", image["mediaType"]))
    return [get(f"blobs/{each['digest']}") for each in manifest["layers"]]


def test_each_change_of_files_is_stored_once_and_each_moment_comes_back(
    hf: Holdfast, tmp_path: Path, registry: Registry, warm: Warm
) -> None:
    """Changes, deletions, folders in place of others, names of one file; also from an export alone.

    Removed or overwritten content is still in the engine, and in no export.

    When the first is removed, the next one is charged for the shared content.
    """
    work = hf.new("work")
    work.exec(f"mkdir -p /srv/tree/in /srv/gone; head -c {LARGE} /dev/urandom > /srv/large")
    work.exec("seq 1000 > /srv/tree/in/file; ln /srv/large /srv/name; echo > /srv/gone/x; rm /etc/issue")
    # No layer compresses it, and no text that the session keeps of its commands has it.
    shown = work.exec("head -c 48 /dev/urandom | tee /srv/secret /srv/gone/secret /etc/plan | base64 -w 0")
    secret = base64.b64decode(shown.text)
    assert len(secret) == 48
    first, then = work.snapshot("first"), [files(work)]
    assert stored(first) > LARGE

    work.exec("echo 2 >> /srv/tree/in/file; rm -r /srv/gone; rm -r /usr/share/doc; mkdir /usr/share/doc")
    work.exec("mv /srv/tree /srv/moved; echo back > /etc/issue; mkfifo /usr/share/doc/pipe")
    second = work.snapshot("second")
    then.append(files(work))

    work.exec("rm /srv/name; ln -s large /srv/name; rm -r /usr/local/*; touch /usr/local/new; rm /etc/issue")
    work.exec("rm /srv/secret; echo none > /etc/plan")
    third = work.snapshot("third")
    then.append(files(work))
    assert stored(second) < 500_000
    # Of a file with two names one is gone, which is a change of the file.
    assert LARGE < stored(third) < LARGE + 500_000

    work.exec("touch /srv/small")
    fourth = work.snapshot("fourth", kind="filesystem")
    assert stored(fourth) < 500_000

    assert files(first.restore("one")) == then[0]
    first.remove()
    assert stored(hf.snapshot("second")) > LARGE
    assert files(second.restore("two")) == then[1]
    second.remove()
    back = third.restore("three")
    assert files(back) == then[2]
    assert stored(back.snapshot("again")) < 500_000

    file = tmp_path / "third.hf"
    own = list(third.row.details["storage"]["layers"])
    kept: list[bool] = []
    image_layers.each(
        hf.engine,
        snapshot_image.obtain(hf.context, third.row),
        own,
        lambda each: kept.append(has(each, secret)),
    )
    assert any(kept)
    warm.into(hf.home)
    third.export(file)
    pushed = third.push(f"{registry.address}/{SHARED}:third")
    for blobs in (exported(file), registry_blobs(registry, pushed.digest)):
        assert len(blobs) > 1
        assert not any(has(plain(each), secret) for each in blobs)
        assert any(has(plain(each), b"moved/in/file") for each in blobs)
    third.remove()
    assert files(hf.import_(file).restore("from-far")) == then[2]
    # Nothing is known any more, or wrong: the next has everything.
    chain = hf.home.run / work.id / "written" / layer_chain.FILE
    os.truncate(chain, chain.stat().st_size // 2)
    whole = work.snapshot("whole")
    assert stored(whole) > LARGE
    assert files(whole.restore("last")) == files(work)

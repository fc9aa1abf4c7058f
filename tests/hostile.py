"""Bundles that must be refused: the forged part of each, and the text of its refusal."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from typing import Any

from tests.forging import Forgery

from holdfast.snapshots.bundle import bundle_segments, form, media


def _options(forgery: Forgery) -> None:
    forgery.snapshot["options"] |= {"user": "root; rm -rf /"}


def _traversal(forgery: Forgery) -> None:
    forgery.replace("images/../../../../../tmp/evil", b"x")


def _absolute(forgery: Forgery) -> None:
    forgery.replace("/etc/cron.d/evil", b"x")


def _unknown(forgery: Forgery) -> None:
    forgery.replace("images/iptables-9.img", b"x")


def _script(forgery: Forgery) -> None:
    forgery.replace("manifest.json", b"{}")


def _twice(forgery: Forgery) -> None:
    def again(config: dict[str, Any]) -> None:
        config["files"].append(config["files"][0])

    forgery.after = again


def _undeclared(forgery: Forgery) -> None:
    forgery.files["images/core-99999.img"] = b"x"


def _truncated(forgery: Forgery) -> None:
    forgery.hollow[next(iter(forgery.hollow))] -= 4096


def _swapped(forgery: Forgery) -> None:
    first, second = sorted(name for name in forgery.files if name.startswith("images/ids-"))[:2]
    forgery.files[first], forgery.files[second] = forgery.files[second], forgery.files[first]


def _beyond(forgery: Forgery) -> None:
    def further(config: dict[str, Any]) -> None:
        config["files"][-1]["parts"] = [{"segment": 0, "offset": 60 << 20, "bytes": 1}]

    forgery.after = further


def _no_segment(forgery: Forgery) -> None:
    def further(config: dict[str, Any]) -> None:
        for file in config["files"]:
            for part in file["parts"]:
                part["segment"] = 19_000

    forgery.after = further


def _bomb(forgery: Forgery) -> None:
    """A gigabyte of zeros in a segment that says it is small."""
    packed = bundle_segments.segment(bytes(64 << 20))
    blob = form.described(media.SEGMENT, packed)
    forgery.blobs.append((blob, packed))
    forgery.layers = [blob.as_dict()] * 40

    def small(config: dict[str, Any]) -> None:
        config["segments"] = [{"bytes": 4096, "blake3": "0" * 64}] * 40

    forgery.after = small


def _petabyte(forgery: Forgery) -> None:
    """A file of zeros larger than any disk."""
    name = "images/pages-77.img"
    forgery.files[name] = b""
    forgery.snapshot["files"].append({"name": name, "bytes": 1 << 49, "blake3": "0" * 64})

    def zeros(config: dict[str, Any]) -> None:
        next(one for one in config["files"] if one["name"] == name)["parts"] = [
            {"segment": None, "bytes": 1 << 49}
        ]

    forgery.after = zeros


def _another_image(forgery: Forgery) -> None:
    forgery.subject = form.described(media.MANIFEST, b"another")


def _kind(forgery: Forgery) -> None:
    forgery.snapshot["kind"] = "filesystem"


def _root(forgery: Forgery) -> None:
    forgery.snapshot["processes"]["root_pid"] = 4


def _token(forgery: Forgery) -> None:
    forgery.snapshot["processes"]["token"] = "../../../wake"


def _name(forgery: Forgery) -> None:
    forgery.snapshot["session_name"] = "../evil"


def _label(forgery: Forgery) -> None:
    forgery.snapshot["label"] = "0123456789ab"


def _id(forgery: Forgery) -> None:
    forgery.snapshot["id"] = "../../keys/x"


def _base(forgery: Forgery) -> None:
    forgery.config["base"] = 120


def _layers(forgery: Forgery) -> None:
    forgery.image["layers"].pop()


def _extra(forgery: Forgery) -> None:
    forgery.config["run"] = "/bin/sh"


def _places(forgery: Forgery) -> None:
    forgery.replace("images/facts.json", json.dumps({"tmpfs": ["/../../state"], "last_pid": 5}).encode())


def _memory(forgery: Forgery, name: str, **member: Any) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        made = tarfile.TarInfo(name)
        for key, value in member.items():
            setattr(made, key, value)
        archive.addfile(made)
    forgery.replace("images/tmpfs-0.tar", packed.getvalue())


HOSTILE: dict[str, tuple[Callable[[Forgery], None], str]] = {
    "options": (_options, "options"),
    "traversal": (_traversal, "no file called"),
    "absolute name": (_absolute, "no file called"),
    "an image that sets up networks": (_unknown, "no file called"),
    "a manifest among the files": (_script, "no file called"),
    "a file twice": (_twice, "two files with the same name"),
    "an undeclared file": (_undeclared, "do not match its manifest"),
    "truncated": (_truncated, "do not match its manifest"),
    "swapped": (_swapped, "does not match"),
    "beyond a segment": (_beyond, "do not match its manifest|beyond its segment"),
    "no such segment": (_no_segment, "segment that does not exist"),
    "a bomb": (_bomb, "its declared size"),
    "a petabyte": (_petabyte, "MiB are free"),
    "another image": (_another_image, "a different image"),
    "another kind": (_kind, "contradict its kind"),
    "another root": (_root, "root"),
    "a token that is a path": (_token, "token"),
    "a session that is a path": (_name, "name"),
    "a label that looks like an id": (_label, "name"),
    "an id that is a path": (_id, "invalid id"),
    "more base than layers": (_base, "fewer layers"),
    "fewer layers than diff ids": (_layers, "declared number of layers"),
    "a field nobody knows": (_extra, "not valid"),
    "tmpfs over the home": (_places, "in-memory file systems"),
    "a link out of shared memory": (
        lambda one: _memory(one, "link", type=tarfile.SYMTYPE, linkname="/state"),
        "a link that leads out",
    ),
    "a hard link out of shared memory": (
        lambda one: _memory(one, "link", type=tarfile.LNKTYPE, linkname="../../etc/shadow"),
        "leads out",
    ),
    "a name out of shared memory": (lambda one: _memory(one, "../../state/x"), "leads out"),
    "a device in shared memory": (
        lambda one: _memory(one, "disk", type=tarfile.BLKTYPE, devmajor=8),
        "is not a file",
    ),
    "a setuid program in shared memory": (lambda one: _memory(one, "su", mode=0o4755), "another user"),
}

"""Each field of an image's configuration and documents, with values of an attacker, and its effect.

The fields of a configuration come from OCI's image-spec (config.md) and from Docker's images.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ImageError
from holdfast.runtime.api import session_start
from holdfast.runtime.lifecycle import chosen_image, load_image
from holdfast.runtime.lifecycle.load_image import ImagePlace, StoredArchive, StoredFolder
from holdfast.runtime.sessions import image_settings
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.snapshots.layer import image


def _nested() -> object:
    made: object = []
    for _ in range(500):
        made = [made]
    return made


TEXTS = {
    "NUL": "a\0b",
    "line": "a\nb",
    "half of a character": "\ud800",
    "escape": "\x1b]52;c;x\x07",
    "bidi": "\u202eabc",
    "long": "x" * 70_000,
    "above": "../../../etc/passwd",
    "absolute": "/etc/passwd",
    "kernel": "/proc/self/fd/8",
    "hidden kernel": "//srv/.././proc/self/cwd",
    "ours": "/run/holdfast/x",
    "digits": "9" * 5000,
    "other digits": "٣",
    "empty": "",
    "dot": ".",
}
VALUES: dict[str, object] = {
    **TEXTS,
    "number": 7,
    "null": None,
    "true": True,
    "list": ["x"],
    "object": {"a": {}},
    "nested": _nested(),
}
USER, FOLDER, PLACES = "user", "workdir", "places of volumes"
TAKEN = {"User": USER, "WorkingDir": FOLDER, "Volumes": PLACES}
"""What becomes an option of a session; Env comes by the engine, and only programs of the session see it."""
IGNORED = (
    *("Env", "Entrypoint", "Cmd", "ExposedPorts", "Labels", "StopSignal", "Healthcheck", "OnBuild", "Shell"),
    *("ArgsEscaped", "NetworkDisabled", "MacAddress", "Hostname", "Domainname", "StopTimeout", "Memory"),
    *("MemorySwap", "CpuShares", "Tty", "OpenStdin", "AttachStdin", "Privileged", "HostConfig", "of no one"),
)


def values(field: str) -> Iterator[object]:
    """Yield possible values of a field, as the engine hands it on: of the field's type, hostile within."""
    if field == "Volumes":
        yield {f"/v{number}": {} for number in range(5000)}
        yield from ({text: {}} for text in TEXTS.values())
    elif field in ("Labels", "ExposedPorts", "Healthcheck"):
        yield {text: text for text in TEXTS.values()}
        yield {f"l{number}": "x" for number in range(20_000)}
    elif field in ("Env", "Entrypoint", "Cmd", "OnBuild", "Shell"):
        yield list(TEXTS.values())
        yield [f"A{number}=x" for number in range(20_000)]
    else:
        yield from TEXTS.values()


@pytest.mark.parametrize("field", [*TAKEN, *IGNORED])
def test_a_field_of_the_configuration_is_fit_or_refused_in_one_line(field: str) -> None:
    """No other option follows from it than its own, and a session can have what follows."""
    plain = SessionOptions.parse(image="a")
    for value in values(field):
        try:
            options, folders = chosen_image.as_said("a", {field: value}, plain)
        except ImageError as refused:
            assert field in TAKEN
            assert str(refused).isprintable()  # noqa: PT017 - either is right
            assert len(str(refused)) < 500  # noqa: PT017
            continue
        own = TAKEN.get(field, "")
        assert options == plain.model_copy(
            update={own: getattr(options, own)} if own in (USER, FOLDER) else {}
        )
        assert folders == () or own == PLACES
        for place in (options.workdir or "/srv", *folders):
            assert place.startswith("/")
            assert "\0" not in place
            assert not place.lstrip("/").startswith("proc/")
        for place in folders:
            assert not f"{place}/".startswith(("/sys/", "/dev/", "/opt/holdfast/"))
            assert ".." not in place.split("/")


def test_volumes_in_places_of_the_system_are_left_to_it() -> None:
    """Images for systemd declare one at /sys/fs/cgroup."""
    volumes: dict[str, dict[str, str]] = {
        "/sys/fs/cgroup": {},
        "/proc/1": {},
        "/dev/shm": {},
        "../x": {},
        "/b/": {},
        "/a/./c": {},
    }
    _, folders = chosen_image.as_said("a", {"Volumes": volumes}, SessionOptions.parse(image="a"))
    assert folders == ("/a/c", "/b")


def test_labels_are_emptied_and_none_counts_layers_that_are_not_there() -> None:
    """The digits of a label can be too many for a number, or from other scripts."""
    for text in TEXTS.values():
        labels = {text: text, "holdfast.home": text, image.BASE_LABEL: text}
        made = image_settings.without_labels({"Labels": labels}, {"holdfast.home": "h"})
        assert made == {"holdfast.home": "h", text: ""}
        assert image.base_layers({"Labels": labels}, 3) == 3
    assert image.base_layers({"Labels": {image.BASE_LABEL: "2"}}, 3) == 2
    assert image.base_layers({"Labels": {image.BASE_LABEL: "99999"}}, 3) == 3
    assert image.base_layers({"Labels": None}, 3) == 3


def test_an_entrypoint_is_words_and_no_shell_reads_them() -> None:
    words = ["sh", "-c", "$(touch /x)", "a b", "it's", "\x1b"]
    assert session_start.entrypoint_command({"Entrypoint": words[:2], "Cmd": words[2:]}) == words
    assert session_start.entrypoint_command({"Entrypoint": None, "Cmd": None}) == []


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


LAYER = tar_of({"srv/x": b"1"})


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


ABOUT = {"os": "linux", "architecture": "amd64", "config": {}, "rootfs": {"diff_ids": [_digest(LAYER)]}}
NAMED = {"Config": "c", "RepoTags": ["../../x:1"], "Layers": ["l"]}
LISTED = {"config": {"digest": _digest(json.dumps(ABOUT).encode())}, "layers": [{"digest": _digest(LAYER)}]}


def saved_image(about: object = ABOUT, listed: object = None) -> dict[str, bytes]:
    named = [NAMED] if listed is None else listed
    return {"c": json.dumps(about).encode(), "l": LAYER, "manifest.json": json.dumps(named).encode()}


def _layout(manifest: object = LISTED, index: object = None) -> dict[str, bytes]:
    document = json.dumps(manifest).encode()
    named = {"manifests": [{"digest": _digest(document)}]} if index is None else index
    blobs = (document, json.dumps(ABOUT).encode(), LAYER)
    return {"index.json": json.dumps(named).encode()} | {
        f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in blobs
    }


DOCUMENTS: dict[str, Callable[[Any], dict[str, bytes]]] = {
    "config": lambda value: saved_image(value),
    "os": lambda value: saved_image(ABOUT | {"os": value}),
    "architecture": lambda value: saved_image(ABOUT | {"architecture": value}),
    "config of containers": lambda value: saved_image(ABOUT | {"config": value}),
    "history": lambda value: saved_image(ABOUT | {"history": value}),
    "one of history": lambda value: saved_image(ABOUT | {"history": [value]}),
    "created": lambda value: saved_image(ABOUT | {"created": value}),
    "rootfs": lambda value: saved_image(ABOUT | {"rootfs": value}),
    "diff_ids": lambda value: saved_image(ABOUT | {"rootfs": {"diff_ids": value}}),
    "a diff id": lambda value: saved_image(ABOUT | {"rootfs": {"diff_ids": [value]}}),
    "manifest.json": lambda value: saved_image(listed=value),
    "one of manifest.json": lambda value: saved_image(listed=[value]),
    "its config": lambda value: saved_image(listed=[NAMED | {"Config": value}]),
    "its layers": lambda value: saved_image(listed=[NAMED | {"Layers": value}]),
    "its layer": lambda value: saved_image(listed=[NAMED | {"Layers": [value]}]),
    "its tags": lambda value: saved_image(listed=[NAMED | {"RepoTags": value}]),
    "index.json": lambda value: _layout(index=value),
    "manifests": lambda value: _layout(index={"manifests": value}),
    "a descriptor": lambda value: _layout(index={"manifests": [value]}),
    "its digest": lambda value: _layout(index={"manifests": [{"digest": value}]}),
    "its type and platform": lambda value: _layout(
        index={"manifests": [{"digest": _digest(b""), "mediaType": value, "platform": value}]}
    ),
    "manifest": lambda value: _layout(value),
    "config of a manifest": lambda value: _layout(LISTED | {"config": value}),
    "layers of a manifest": lambda value: _layout(LISTED | {"layers": value}),
    "a layer of a manifest": lambda value: _layout(LISTED | {"layers": [value]}),
}


def _places(files: dict[str, bytes], folder: Path) -> Iterator[ImagePlace]:
    """Yield an image as an archive and as a folder, in which links lead out."""
    yield StoredArchive(io.BytesIO(tar_of(files)))
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "x").symlink_to("/etc/passwd")
    (folder / "a").symlink_to("a")
    yield StoredFolder(folder)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("where", DOCUMENTS)
def test_a_field_of_a_document_is_read_or_refused_in_one_line(
    where: str, value: object, tmp_path: Path
) -> None:
    """The engine gets the only layer and the config as it is, under our name, or nothing."""
    for number, place in enumerate(_places(DOCUMENTS[where](value), tmp_path / "image")):
        try:
            stored = load_image.find_image(place, "linux/amd64")
            sent = b"".join(load_image.archive(place, stored, "ours:1", tmp_path / f"scratch{number}"))
        except ImageError as refused:
            assert str(refused).isprintable()  # noqa: PT017 - either is right
            continue
        with tarfile.open(fileobj=io.BytesIO(sent)) as archive:
            assert archive.getnames() == ["0/layer.tar", f"{stored.id[7:]}.json", "manifest.json"]
            named = archive.extractfile("manifest.json")
            assert named
            assert json.load(named)[0]["RepoTags"] == ["ours:1"]


def test_good_documents_are_read(tmp_path: Path) -> None:
    """Those which the others are made of."""
    for number, files in enumerate((saved_image(), _layout())):
        for place in _places(files, tmp_path / str(number)):
            assert load_image.find_image(place, "linux/amd64").diff_ids == (_digest(LAYER),)

"""The contents of an image, and the order of its builds."""

import threading
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgument
from holdfast.images import build


def test_guest_is_a_namespace_tree_without_host_code() -> None:
    """The guest lies where `import holdfast.runtime.guest` finds it, and nothing of the host is there."""
    python = {
        name for name in build.context("session").files if name.startswith("guest/") and name.endswith(".py")
    }

    assert "guest/holdfast/runtime/guest/__init__.py" in python
    assert "guest/holdfast/procfs/walk.py" in python
    rooms = {"/".join(name.split("/")[2:4]) for name in python if "/procfs/" not in name}
    assert rooms == {"runtime/guest", "kernels/guest", "base/value_classes.py"}


def test_each_kind_has_its_recipe() -> None:
    """Every kind of image has a Dockerfile in its context."""
    for kind in build.KINDS:
        assert f"{kind}/Dockerfile" in build.context(kind).files


def test_the_hosts_authorities_are_part_of_the_digest(tmp_path: Path) -> None:
    """Another trust store needs another image."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n")
    empty = tmp_path / "empty.pem"
    empty.touch()

    with_ours = build.context("session", {"SSL_CERT_FILE": str(bundle)})
    without = build.context("session", {"SSL_CERT_FILE": str(empty)})

    assert with_ours.digest != without.digest
    assert set(with_ours.files) - set(without.files) == {"host-ca/holdfast-ba7816bf8f01cfea.crt"}


def test_a_build_needs_no_place_for_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HOME, or where its cache folder cannot be written, two concurrent builds cost only time."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    said: list[str] = []
    with build._turn(None, "session", said.append):
        assert said[0].startswith("session: not waiting for other builds: ")


def test_unknown_kind_is_refused() -> None:
    """The error names the missing kind, and the existing ones."""
    with pytest.raises(InvalidArgument, match="session, toolbox, gateway"):
        build.context("desktop")


def test_builds_of_one_kind_take_turns(tmp_path: Path) -> None:
    """A second builder says that it waits, and continues when the first is done."""
    said: list[str] = []
    waits = threading.Event()

    def note(line: str) -> None:
        said.append(line)
        waits.set()

    def second() -> None:
        with build._turn(tmp_path, "session", note):
            said.append("second")

    other = threading.Thread(target=second)
    with build._turn(tmp_path, "session", said.append):
        other.start()
        assert waits.wait(30)
        said.append("first")
    other.join()

    assert said[1:] == ["first", "second"]
    assert "waiting" in said[0]


def test_files_of_an_image_are_read_once() -> None:
    """Every created or restored session asks for two tags; authorities can change in between."""
    first, second = build.context("toolbox").files, build.context("toolbox").files

    assert first["toolbox/Dockerfile"] is second["toolbox/Dockerfile"]

"""Names in images: links that lead out of the session, and folders that cannot be made again, are found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.record import image_paths


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("usr/lib", "workspace/deep/er", "proc/1/fd", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/lib/libc.so").write_text("")
    (tmp_path / "lib").symlink_to("usr/lib")
    return tmp_path


def test_names_without_links_and_of_nothing_are_fine(root: Path) -> None:
    """Also below /proc itself, which is judged by name."""
    names = ["/", "/usr/lib/libc.so", "/gone/for/good", "/proc/uptime", "/dev/pts/0", "/usr/lib/libc.so/x"]

    assert image_paths.astray(root, names) is None


def test_links_that_stay_in_the_session_are_followed(root: Path) -> None:
    """Relative, absolute, up and down: as the kernel would from the container's root."""
    (root / "workspace/up").symlink_to("../../../../../usr/lib")
    (root / "workspace/absolute").symlink_to("/lib")

    assert (
        image_paths.astray(root, ["/lib/libc.so", "/workspace/up/libc.so", "/workspace/absolute/libc.so"])
        is None
    )


@pytest.mark.parametrize(
    "target",
    [
        "/proc/self/fd/7/../../keys",
        "/proc/1/root",
        "../proc/1/fd",
        "/workspace/deep/../../proc/305/mem",
        "//proc/./self/cwd",
        "../../../../proc/self/root/etc",
    ],
)
@pytest.mark.parametrize("name", ["/tmp/link", "/tmp/link/file", "/tmp/second/x"])
def test_a_link_into_proc_is_reported(root: Path, target: str, name: str) -> None:
    """At the end of a name, on its way, or behind another link."""
    (root / "tmp/link").symlink_to(target)
    (root / "tmp/second").symlink_to("link")

    assert image_paths.astray(root, ["/usr/lib/libc.so", name, "/"]) == name


def test_links_in_circles_are_reported(root: Path) -> None:
    """And not followed for ever."""
    (root / "tmp/a").symlink_to("b")
    (root / "tmp/b").symlink_to("a")

    assert image_paths.astray(root, ["/tmp/a/file"]) == "/tmp/a/file"


class Message(SimpleNamespace):
    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's
        return name in self.__dict__


class Images:
    def messages(self, name: str) -> list[Any]:
        if name == "remap-fpath":
            return [
                Message(orig_id=2, remap_id=1, remap_type=1),
                Message(orig_id=3, remap_id=9, remap_type=0),
            ]
        return [
            Message(id=1, reg=Message(name=b"/srv/\xff")),
            Message(id=2, reg=Message(name=b"/workspace/removed")),
            Message(id=3, reg=Message(name=b"/workspace/renamed")),
            Message(usk=Message(name=b"/run/x.sock\0")),
            Message(usk=Message(name=b"\0abstract/x")),
            Message(usk=Message(name=b"passwd", name_dir="/tmp/link")),
            Message(ify=Message(wd=[Message(f_handle=Message(path="//srv/watched"))])),
        ]


def test_every_opened_bound_or_watched_path_is_judged() -> None:
    """A relative socket is bound in a folder, which a link can lead out of the session as any other name.

    A removed file does not have a name that would be followed, only a folder.
    """
    assert list(image_paths.names(Images())) == [
        "/srv/\udcff",
        "/workspace",
        "/workspace/renamed",
        "/run/x.sock",
        "/tmp/link",
        "/tmp/link/passwd",
        "//srv/watched",
    ]


@pytest.fixture
def root_with_folders(tmp_path: Path) -> Path:
    (tmp_path / "srv" / "folder").mkdir(parents=True)
    (tmp_path / "srv" / "file").write_text("")
    (tmp_path / "srv" / "astray").symlink_to("/nowhere")
    (tmp_path / "srv" / "round").symlink_to("round")
    (tmp_path / "srv" / "inside").symlink_to("/srv/folder")
    (tmp_path / "srv" / "outside").symlink_to("../../../../../../srv/folder")
    return tmp_path


@pytest.mark.parametrize(
    "path", ["/held", "/srv/folder/held", "/srv/gone/deep/held", "/srv/inside/held", "/srv/outside/held"]
)
def test_folders_that_exist_or_can_be_made_are_accepted(root_with_folders: Path, path: str) -> None:
    assert image_paths.first_lost(root_with_folders, [path]) is None


@pytest.mark.parametrize("name", ["file", "astray", "round"])
@pytest.mark.parametrize("below", ["", "/deep/deeper"])
def test_a_folder_that_something_else_replaced_is_found(
    root_with_folders: Path, name: str, below: str
) -> None:
    path = f"/srv/{name}{below}/held"

    lost = image_paths.first_lost(root_with_folders, ["/srv/folder/other", path, "/srv/gone/held"])

    assert lost == path

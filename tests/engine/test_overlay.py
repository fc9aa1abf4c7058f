"""Layers as overlayfs has them, made by hand in a temporary folder: needs the right to make device files."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engine import overlay


def whiteout(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path, Path]:
    upper, middle, bottom = (tmp_path / name for name in ("upper", "middle", "bottom"))
    for layer in (upper, middle, bottom):
        (layer / "d").mkdir(parents=True)
    for name in ("old", "hidden", "gone"):
        (bottom / "d" / name).write_text(name)
    whiteout(middle / "d/hidden")
    return upper, middle, bottom


def found(upper: Path, *lowers: Path) -> dict[str, int]:
    told = overlay.changes(upper, lowers)
    assert told is not None
    return dict(told)


def test_new_changed_and_deleted(layers: tuple[Path, Path, Path]) -> None:
    """A file of the image is changed, any other is new, a whiteout is a deletion."""
    upper, middle, bottom = layers
    (upper / "d/old").write_text("x")
    (upper / "d/hidden").write_text("x")
    (upper / "d/made/in").mkdir(parents=True)
    whiteout(upper / "d/gone")

    assert found(upper, middle, bottom) == {
        "/d": overlay.CHANGED,
        "/d/old": overlay.CHANGED,
        "/d/hidden": overlay.NEW,
        "/d/made": overlay.NEW,
        "/d/made/in": overlay.NEW,
        "/d/gone": overlay.DELETED,
    }


def test_a_folder_that_was_made_again(layers: tuple[Path, Path, Path]) -> None:
    """Its earlier content is deleted, except for names that exist again."""
    upper, middle, bottom = layers
    (upper / "d/old").write_text("x")
    os.setxattr(upper / "d", "trusted.overlay.opaque", b"y")

    assert found(upper, middle, bottom) == {
        "/d": overlay.CHANGED,
        "/d/old": overlay.CHANGED,
        "/d/gone": overlay.DELETED,
    }


def test_links_are_not_followed(layers: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """The session can put a link to any folder of the host there: it is a link and nothing else."""
    upper, middle, bottom = layers
    (tmp_path / "secret/inside").mkdir(parents=True)
    (upper / "d/link").symlink_to(tmp_path / "secret")
    (middle / "d/trap").symlink_to(tmp_path / "secret")
    (upper / "d/trap").mkdir()
    (upper / "d/trap/inside").mkdir()

    told = found(upper, middle, bottom)
    assert told == {
        "/d": overlay.CHANGED,
        "/d/link": overlay.NEW,
        "/d/trap": overlay.CHANGED,
        "/d/trap/inside": overlay.NEW,
    }


def test_unreadable_data_gives_no_answer(tmp_path: Path) -> None:
    """Without the layer, or with an unknown feature, the engine must be asked."""
    assert overlay.changes(tmp_path / "nothing", []) is None
    (tmp_path / "upper/d").mkdir(parents=True)
    os.setxattr(tmp_path / "upper/d", "trusted.overlay.redirect", b"/x")
    assert overlay.changes(tmp_path / "upper", []) is None


CHURN = """
import os, sys
folder = sys.argv[1]
for number in range(1_000_000):
    made = f"{folder}/{number}"
    if number % 2:
        os.mkdir(made)
        os.rmdir(made)
    else:
        os.close(os.open(made, os.O_CREAT | os.O_WRONLY))
        os.unlink(made)
"""


def test_files_that_vanish_meanwhile_are_left_out(tmp_path: Path) -> None:
    """There is an answer all the same: the engine would read all folders where the session watches them."""
    (tmp_path / "d").mkdir()
    for number in range(200):  # so that it takes time from a name to the file
        (tmp_path / f"d/kept-{number}").touch()
    with subprocess.Popen([sys.executable, "-c", CHURN, tmp_path / "d"]) as churn:
        try:
            while len(list((tmp_path / "d").iterdir())) == 200:
                assert churn.poll() is None
            for _ in range(100):
                kept = [path for path in found(tmp_path) if path.startswith("/d/kept-")]
                assert len(kept) == 200
            assert churn.poll() is None
        finally:
            churn.kill()

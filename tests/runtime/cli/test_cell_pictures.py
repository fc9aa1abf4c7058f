"""Pictures of cells: kept, named, and drawn only where that is known to work. No kernel."""

from __future__ import annotations

import base64
import re
import zlib
from pathlib import Path

import pytest

from holdfast.runtime.cli import cell_pictures
from holdfast.runtime.cli.cell_pictures import CellPictures


def png(width: int, height: int) -> bytes:
    """Return a grey picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    rows = zlib.compress((b"\0" + b"\x80" * width) * min(height, 8))
    head, end = chunk(b"IHDR", size + b"\x08\0\0\0\0"), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + end


def encoded(content: bytes) -> str:
    return base64.encodebytes(content).decode()


def test_a_picture_is_kept_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has the picture's bytes, and one line says its size and where it is."""
    pictures = CellPictures(tmp_path / "plots", bounded=False, graphics=None)
    assert pictures.show({"image/png": encoded(png(64, 48)), "text/plain": "<Figure>"})
    kept = tmp_path / "plots" / "picture-1.png"
    assert kept.read_bytes() == png(64, 48)
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"holdfast: 64 x 48 PNG: {kept}\n")


def test_a_page_is_kept_only_if_its_text_says_nothing(tmp_path: Path) -> None:
    """A table of pandas has a text of its own, which a terminal shows; an HTML object has none."""
    pictures = CellPictures(tmp_path, bounded=False, graphics=None)
    assert not pictures.show({"text/html": "<table></table>", "text/plain": "   a\n0  1"})
    page = {"text/html": "<b>bold</b>", "text/plain": "<IPython.core.display.HTML object>"}
    assert pictures.show(page)
    assert (tmp_path / "picture-1.html").read_text() == "<b>bold</b>"


def test_other_results_are_shown_as_text(tmp_path: Path) -> None:
    """Neither text nor bytes that are not in base64 become a file."""
    pictures = CellPictures(tmp_path / "none", bounded=False, graphics="kitty")
    assert not pictures.show({"text/plain": "1"})
    assert not pictures.show({"image/png": "\x1b]52;c;AAAA\x07"})
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("graphics", ["kitty", "iterm"])
def test_a_drawn_picture_is_one_sequence_of_base64(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], graphics: str
) -> None:
    """Nothing of the session's bytes reaches the terminal but letters of base64 inside the sequences."""
    hostile = png(300, 200) + b"\x1b]0;title\x07\x1b\\" * 2000
    CellPictures(tmp_path, bounded=False, graphics=graphics).show({"image/png": encoded(hostile)})
    out = capsys.readouterr().out
    whole = r"(\x1b_G[a-zA-Z0-9=,]*;[A-Za-z0-9+/=]{0,4096}\x1b\\)+\n"
    if graphics == "iterm":
        whole = r"\x1b\]1337;File=inline=1;size=\d+:[A-Za-z0-9+/=]+\x07\n"
    assert re.fullmatch(whole, out)
    pieces = re.findall(r"[;:]([A-Za-z0-9+/=]+)(?=[\x1b\x07])", out)
    assert base64.b64decode("".join(pieces)) == hostile


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(png(20_000, 10), id="wide"),
        pytest.param(png(1, 1) + bytes(5 << 20), id="large"),
        pytest.param(b"GIF89a" + bytes(40), id="not PNG"),
        pytest.param(png(1, 1)[:20], id="cut"),
    ],
)
def test_a_picture_that_is_too_much_for_a_terminal_is_only_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Its bytes are on the disk as they were, and nothing is drawn."""
    CellPictures(tmp_path, bounded=False, graphics="kitty").show({"image/png": encoded(content)})
    assert capsys.readouterr().out == ""
    assert (tmp_path / "picture-1.png").read_bytes() == content


def test_a_picture_that_cannot_be_kept_is_named_and_its_text_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cell has run: its other output must not be lost with a picture."""
    (folder := tmp_path / "plots").write_text("in the way")
    pictures = CellPictures(folder, bounded=False, graphics=None)
    assert not pictures.show({"image/png": encoded(png(1, 1)), "text/plain": "<Figure>"})
    assert capsys.readouterr().err == f"holdfast: cannot keep a picture in {folder}: File exists\n"


def test_pictures_of_two_cells_at_once_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes the number in between keeps its file."""
    (tmp_path / "picture-1.svg").write_text("<svg>of the other</svg>")
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))  # looked before the other was there
    CellPictures(tmp_path, bounded=False, graphics=None).show({"image/svg+xml": "<svg/>"})
    assert (tmp_path / "picture-1.svg").read_text() == "<svg>of the other</svg>"
    assert (tmp_path / "picture-2.svg").read_text() == "<svg/>"


def test_the_home_keeps_the_newest_only(tmp_path: Path) -> None:
    """Pictures that no one asked to keep do not fill the disk; numbers are never used twice."""
    pictures = CellPictures(tmp_path, bounded=True, graphics=None)
    for _ in range(cell_pictures.KEPT_MOST + 5):
        pictures.show({"image/svg+xml": "<svg/>"})
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == cell_pictures.KEPT_MOST
    assert {"picture-6.svg", "picture-105.svg"} <= names


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/s"}, None),
        ({}, None),
    ],
)
def test_only_known_terminals_draw(environment: dict[str, str], expected: str | None) -> None:
    """Others would print the picture as text, and so would tmux."""
    assert cell_pictures.terminal_graphics(environment) == expected

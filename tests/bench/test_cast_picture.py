"""Recordings of a terminal as moving pictures."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from bench.demo import cast_picture, recording

HEAD = json.dumps({"version": 2, "width": 20, "height": 3})


def picture(*events: tuple[float, str]) -> str:
    return cast_picture.svg([HEAD, *(json.dumps([at, "o", text]) for at, text in events)], "a <title>")


def shown(svg: str) -> list[list[str]]:
    """Return the texts of each state, in order."""
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    lines = {one.get("id"): "".join(one.itertext()) for one in root.iter(f"{space}text")}
    groups = [one for one in root.iter(f"{space}g") if (one.get("id") or "").startswith("f")]
    return [[lines[str(use.get("href"))[1:]] for use in group] for group in groups]


def test_states_follow_each_other() -> None:
    """Each holds the shown screen; lines that scrolled away are missing; texts are escaped."""
    svg = picture((0.0, "one\r\n"), (1.0, "<two>\r\n"), (2.0, "3\r\n4"))
    assert shown(svg) == [["one"], ["one", "<two>"], ["<two>", "3", "4"]]


def test_a_line_is_drawn_once() -> None:
    """However many states it is in, which keeps the file small."""
    assert picture((0.0, "same\r\n"), (1.0, "b"), (2.0, "c")).count("same") == 1


def test_long_waits_are_cut_and_short_states_left_out() -> None:
    """The whole takes the time of its changes, a bounded wait for each, and the end."""
    svg = picture((0.0, "a"), (0.01, "b"), (100.0, "\r\nc"))
    assert shown(svg) == [["ab"], ["ab", "c"]]
    whole = 0.01 + cast_picture.LONGEST + cast_picture.END
    assert set(re.findall(r"([\d.]+)s step-end", svg)) == {f"{whole:.2f}"}


def test_a_bar_that_moves_takes_little_time() -> None:
    """A line that is redrawn is shown for the shortest time, and a new line for as long as it was."""
    svg = picture((0.0, "10 %"), (1.0, "\r20 %"), (2.0, "\r30 %"), (3.0, "\r\ndone"))
    assert shown(svg) == [["10 %"], ["20 %"], ["30 %"], ["30 %", "done"]]
    whole = 2 * cast_picture.SHORTEST + cast_picture.LONGEST + cast_picture.END
    assert set(re.findall(r"([\d.]+)s step-end", svg)) == {f"{whole:.2f}"}


def test_colors_of_the_terminal() -> None:
    """Those of the terminal's palette, and bold."""
    assert '<tspan fill="#7fd88f" font-weight="bold">ok</tspan>' in picture((0.0, "\x1b[1;32mok\x1b[0m"))


@pytest.mark.parametrize("cast", [[], ["[]"], ['{"version": 1}'], [HEAD]])
def test_a_file_that_shows_nothing_is_refused(cast: list[str]) -> None:
    """It is not asciicast v2, or nothing was written."""
    with pytest.raises(ValueError, match="cannot draw this recording"):
        cast_picture.svg(cast, "")


def test_a_program_in_a_terminal_is_recorded() -> None:
    """Its output with colors, as on a terminal, and failure is not kept as a picture."""
    lines = list(recording.recorded(["sh", "-c", "test -t 1 && stty size; printf done"]))
    assert shown(cast_picture.svg(lines, ""))[-1] == [f"{recording.ROWS} {recording.COLUMNS}", "done"]
    with pytest.raises(RuntimeError, match="cannot record"):
        list(recording.recorded(["sh", "-c", "exit 3"]))


def test_the_picture_of_the_readme_is_of_this_demonstration() -> None:
    """Each step that the demonstration has today is in it."""
    story = (recording.PICTURE.parents[1] / "bench" / "demo" / "story.py").read_text()
    titles = re.findall(r'tell\.step\(f?"([^"{]+)', story)
    assert len(titles) > 3
    texts = " ".join(line for state in shown(recording.PICTURE.read_text()) for line in state)
    assert [title for title in titles if title not in texts] == []

import xml.etree.ElementTree as ElementTree

from tests.bench.rows import ABOUT, ALL, EXEC

from bench import plot

SPACE = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_well_formed_and_shows_each_series_once() -> None:
    """A series of times has one dot, in however many rows it is; bytes, counts and skipped rows have none."""
    picture = ElementTree.fromstring(plot.svg([*ALL, EXEC], ABOUT))

    assert len(picture.findall(f"{SPACE}circle")) == 3
    texts = [text.text for text in picture.iter(f"{SPACE}text")]
    assert "docker exec" in texts
    assert "2.00 ms" in texts


def test_faster_is_further_left() -> None:
    """The scale goes from fast to slow."""
    fast, slow, _ = ElementTree.fromstring(plot.svg(ALL, ABOUT)).findall(f"{SPACE}circle")

    assert float(fast.attrib["cx"]) < float(slow.attrib["cx"])


def test_an_empty_measurement_is_an_empty_picture() -> None:
    """A run without times also makes a picture."""
    assert ElementTree.fromstring(plot.svg([], ABOUT)).tag == f"{SPACE}svg"

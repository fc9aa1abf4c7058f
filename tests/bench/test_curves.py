import xml.etree.ElementTree as ElementTree

from bench import curves

SPACE = "{http://www.w3.org/2000/svg}"


def test_each_curve_has_a_line_and_its_last_figure() -> None:
    """A larger figure is further up, and labels do not cover each other."""
    text = curves.svg("a <title>", "facts", (1, 50, 100), {"ls": (0.1, 0.1, 0.2), "a&b": (0.1, 0.15, 0.2)})
    picture = ElementTree.fromstring(text)

    lines = [line.attrib["points"].split() for line in picture.findall(f"{SPACE}polyline")]
    assert [len(line) for line in lines] == [3, 3]
    assert all(float(line[0].split(",")[1]) > float(line[-1].split(",")[1]) for line in lines)
    labels = {text.text: float(text.attrib["y"]) for text in picture.iter(f"{SPACE}text")}
    assert abs(labels["ls, 200 ms"] - labels["a&b, 200 ms"]) >= 14
    assert "a <title>" in labels

"""The display of a cell's outputs on a terminal: text, tables, pictures, exceptions and their remedies.

Takes the values of events or of the journal's outputs. Knows no kernel and no session beyond its name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence

from holdfast.base.text import colored
from holdfast.runtime.cli import printing

_NAME = re.compile(r"No module named '([A-Za-z_][A-Za-z0-9_]{0,60})[.']")
PACKAGES: Mapping[str, str] = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "dateutil": "python-dateutil",
}
"""Modules whose package has a different name."""
OF_DATA = frozenset({"numpy", "pandas", "matplotlib", "scipy", "PIL", "seaborn", "requests"})
"""The packages of the image `data`."""


class CellView:
    """The view of the cells of one call.

    Args:
        session: the name of the session, for suggestions.
        save: the folder for pictures; None is one in the home.
    """

    def __init__(self, session: str, save: str | None) -> None:
        self._session = session
        self._save = save

    def stream(self, name: str, text: str) -> None:
        """Show text of a stream, `stdout` or `stderr`."""
        printing.make_room()
        stream = sys.stderr if name == "stderr" else sys.stdout
        stream.write(colored(text, keep=printing.has_color(stream)))
        stream.flush()

    def bundle(self, data: Mapping[str, object]) -> None:
        """Show a result or a display, which is a MIME bundle."""
        printing.make_room()
        if any(kind.startswith("image/") or kind == "text/html" for kind in data):
            from holdfast.base.home import Home
            from holdfast.runtime.cli import cell_pictures  # most cells show none

            if cell_pictures.chosen(self._save, Home.default().root).show(data):
                return
        value = data.get("text/plain")
        shown = value if isinstance(value, str) else f"<{', '.join(map(str, data))}>"
        sys.stdout.write(colored(shown, keep=printing.has_color(sys.stdout)) + "\n")
        sys.stdout.flush()

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Show an exception, with a remedy where one is known."""
        printing.make_room()
        text = "\n".join(traceback) or f"{ename}: {evalue}"
        sys.stdout.flush()
        sys.stderr.write(colored(text, keep=printing.has_color(sys.stderr)) + "\n")
        if help_ := missing_module(ename, evalue, self._session):
            printing.note(help_)

    def kept(self, outputs: Sequence[object]) -> None:
        """Show the outputs of a cell as the journal has them (nbformat 4.5, "Output types")."""
        for each in outputs:
            if not isinstance(each, dict):
                continue
            kind, data = each.get("output_type"), each.get("data")
            if kind == "stream" and isinstance(each.get("text"), str):
                self.stream(str(each.get("name")), each["text"])
            elif kind == "error":
                lines = [line for line in each.get("traceback") or () if isinstance(line, str)]
                self.error(str(each.get("ename")), str(each.get("evalue")), lines)
            elif kind in ("execute_result", "display_data") and isinstance(data, dict):
                self.bundle(data)


def missing_module(ename: str, evalue: str, session: str) -> str:
    """Return the line that helps with an exception; empty without a known remedy."""
    if ename != "ModuleNotFoundError" or (found := _NAME.match(evalue)) is None:
        return ""
    from holdfast.base import shell_words

    module = found[1]
    install = f"pip install {PACKAGES.get(module, module)}"
    line = f"{module} is not in the session: `holdfast exec {shell_words.join([session, install])}`"
    return f"{line}, or begin with `holdfast new --image data`" if module in OF_DATA else line

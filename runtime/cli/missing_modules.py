"""What helps when a cell needs a module that its image lacks.  Pure.

The name is the session's: only one that can be a module's is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.base import shell_words

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
"""What the image `data` has."""


def hint(ename: str, evalue: str, session: str) -> str:
    """Return the line that helps with an exception; an empty text with any other."""
    if ename != "ModuleNotFoundError" or (found := _NAME.match(evalue)) is None:
        return ""
    module = found[1]
    install = f"pip install {PACKAGES.get(module, module)}"
    line = f"{module} is not in the session: `holdfast exec {shell_words.join([session, install])}`"
    return f"{line}, or begin with `holdfast new --image data`" if module in OF_DATA else line

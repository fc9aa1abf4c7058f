"""Cells of a notebook whose kernel stays, and the pictures they show.

    python examples/notebook_pictures.py [FOLDER]

The picture is drawn without packages; after `pip install matplotlib` in the session, plots arrive likewise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast import Holdfast

CELLS = (
    "heights = [3, 1, 4, 1, 5, 9, 2, 6]",
    """from IPython.display import SVG
bars = [f'<rect x="{12 * n}" y="{90 - 9 * h}" width="10" height="{9 * h}"/>' for n, h in enumerate(heights)]
SVG(f'<svg xmlns="http://www.w3.org/2000/svg" width="100" height="90">{"".join(bars)}</svg>')""",
    "max(heights)",
)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    with Holdfast() as hf, hf.new(remove=True) as lab:
        for number, code in enumerate(CELLS, 1):
            result = lab.cell(code, timeout=60)
            for output in result.outputs:
                if picture := output.data.get("image/svg+xml"):
                    path = folder / f"cell-{number}.svg"
                    path.write_text(picture)
                    print(f"cell {number}: {path.name}")
            if result.text and "SVG" not in result.text:
                print(f"cell {number}: {result.text}")


if __name__ == "__main__":
    main()

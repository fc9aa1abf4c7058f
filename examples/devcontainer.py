"""A session as a project's devcontainer.json describes it, forked once the preparation is done.

    python examples/devcontainer.py [PROJECT]

Without a project, one is made that uses the image of other sessions.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from holdfast import Holdfast


def describe(folder: Path, image: str) -> None:
    """Make a folder a project that a container is described for."""
    described = {
        "image": image,
        "containerEnv": {"STAGE": "dev"},
        "postCreateCommand": "echo prepared > notes",
    }
    (folder / ".devcontainer.json").write_text(json.dumps(described))


def main() -> None:
    with Holdfast() as hf, tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        if len(sys.argv) == 1:
            with hf.new(remove=True) as plain:
                describe(folder, plain.image)
        with hf.new(devcontainer=folder, remove=True) as work:
            copies = work.fork(2, f"{work.name}-try")
            try:
                for copy in copies:
                    print(copy.exec("echo $STAGE; cat notes", timeout=60).plain.split())
            finally:
                for copy in copies:
                    copy.remove()


if __name__ == "__main__":
    main()

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


def project(image: str) -> Path:
    """Make a project that a container is described for."""
    folder = Path(tempfile.mkdtemp()) / "shop"
    folder.mkdir()
    described = {
        "image": image,
        "containerEnv": {"STAGE": "dev"},
        "postCreateCommand": "echo prepared > notes",
    }
    (folder / ".devcontainer.json").write_text(json.dumps(described))
    return folder


def main() -> None:
    with Holdfast() as hf:
        if len(sys.argv) > 1:
            folder = Path(sys.argv[1])
        else:
            with hf.new(remove=True) as plain:
                folder = project(plain.image)
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

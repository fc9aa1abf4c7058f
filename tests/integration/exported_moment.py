"""A live snapshot that was exported and signed, and process images of it that ask for more."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.api.controller import Holdfast
from holdfast.snapshots.bundle.signing import SigningKey

# Runs where CRIU's images can be read and written: forges some, and prints them.
FORGE = """
import base64, json, sys
from pathlib import Path
from holdfast.snapshots.checkpointer.criu import criu_images as entries
folder, target = Path("/state/snapshots") / sys.argv[1] / "images", Path("/tmp/forged.img")
made = []
for image, change in json.loads(sys.argv[2]):
    magic, found = entries.read(folder / image)
    exec(change)
    entries.write(target, magic, found)
    made.append(base64.b64encode(target.read_bytes()).decode())
print(json.dumps(made), end="")
"""


@dataclass(frozen=True)
class Moment:
    """A live snapshot, exported and signed; `pid` is the pid of its shell."""

    hf: Holdfast
    id: str
    file: Path
    key: SigningKey
    pid: int

    def forged(self, changes: list[tuple[str, str]]) -> list[bytes]:
        """Return some of its process images, each altered."""
        [checkpointer] = self.hf.engine.containers(
            holdfast_home=self.hf.home.digest, holdfast_role="checkpointer"
        )
        done = self.hf.engine.client.containers.get(checkpointer).exec_run(
            ["/usr/bin/python3", "-c", FORGE, self.id, json.dumps(changes)],
            environment={"PYTHONPATH": "/opt/holdfast/checkpointer"},
        )
        assert done.exit_code == 0, done.output
        assert isinstance(done.output, bytes)
        return [base64.b64decode(text) for text in json.loads(done.output)]

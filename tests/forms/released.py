"""The code and requests of released versions, kept so that each later version is tried with both.

`python -m tests.forms.released COMMIT`, in a checkout of that commit, keeps its supervisor and its requests
under the next number. Kept files are never changed: existing sessions run them.
"""

from __future__ import annotations

import io
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.forms import session_use
from tests.runtime.guest.harness import SESSION, Guest, compile_marks

KEPT = Path(__file__).parent / "supervisors"
ROOT = Path(__file__).parents[2]
PLACES = {
    "runtime/guest/": "holdfast/runtime/guest/",
    "kernels/guest/": "holdfast/kernels/guest/",
    "src/holdfast/procfs/": "holdfast/procfs/",
    "src/holdfast/base/value_classes.py": "holdfast/base/value_classes.py",
    "images/session/bash_": "session/bash_",
    "images/session/guest_main.py": "__main__.py",
}
"""Where files of the repository are in the archive, as an image has them."""


def numbers() -> list[int]:
    """Return the numbers of all that are kept, oldest first."""
    return sorted(int(path.name.partition(".")[0]) for path in KEPT.glob("*.tar.xz"))


def archive(number: int) -> Path:
    """Return the archive of one."""
    return KEPT / f"{number}.tar.xz"


def unpack(number: int, folder: Path) -> Path:
    """Unpack one into a folder, from which Python runs it in place of the present one."""
    with tarfile.open(archive(number)) as tar:
        tar.extractall(folder, filter="data")
    (folder / "holdfast" / "__init__.py").touch()  # else the present package would be found first
    return folder


def requests(number: int) -> list[tuple[dict[str, Any], bytes]]:
    """Return the requests of a version's host side: their heads and payloads, in order."""
    found = json.loads((KEPT / f"{number}.json").read_text())
    return [(head, payload.encode("latin-1")) for head, payload in found]


def record(number: int) -> Path:
    """Keep what the host's side of this checkout asks for."""
    with tempfile.TemporaryDirectory() as folder:
        guest = Guest(compile_marks(Path(folder)), session=SESSION, name="work")
        try:
            with session_use.recorded() as sent, session_use.of(guest) as session:
                session_use.everything(session, Path(folder))
        finally:
            guest.stop()
    path = KEPT / f"{number}.json"
    lines = [json.dumps([head, payload.decode("latin-1")]) for head, payload in sent]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return path


def keep(commit: str) -> Path:
    """Keep the supervisor of a commit."""
    wanted = [source.rstrip("/") for source in PLACES if not source.endswith("_")]
    git = ["git", "-C", str(ROOT), "archive", commit, *wanted, "images/session"]
    found = subprocess.run(git, check=True, capture_output=True).stdout
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(found)) as old, tarfile.open(fileobj=made, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            place = next((source for source in PLACES if member.name.startswith(source)), None)
            data = old.extractfile(member)
            if place is None or data is None:
                continue
            name = PLACES[place] + member.name.removeprefix(place)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = member.size, 0o644
            new.addfile(entry, data)
    path = archive(max(numbers(), default=0) + 1)
    path.write_bytes(lzma.compress(made.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    return path


if __name__ == "__main__":
    keep(sys.argv[1])
    record(numbers()[-1])

"""Interpreters of images that have no ipykernel: those that pyenv has on this machine, and Debian's.

Each is a whole test of a session: cells in it, a live snapshot, forks, a restore (`any_image.works`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.any_image import image, release, works
from tests.integration.kernel_beside import is_beside

from holdfast.runtime.api.controller import Holdfast

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(1200)

VERSIONS = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
BUILT = sorted(each for each in VERSIONS.glob("3.*") if int(each.name.split(".")[1]) >= 8)

PREFIX = """
FROM {base}
RUN apt-get update -q && apt-get install -q -y --no-install-recommends \
    libbz2-1.0 libffi8 liblzma5 libreadline8t64 libsqlite3-0 libssl3t64 libstdc++6 zlib1g
"""


@pytest.mark.parametrize("prefix", BUILT, ids=[each.name for each in BUILT])
def test_a_version_in_a_prefix_of_its_own(hf: Holdfast, image: Callable[..., str], prefix: Path) -> None:
    """As with conda and images of Python: first on PATH, in no folder of the system, with pip."""
    base = image("prefix", PREFIX)
    container = hf.engine.client.containers.create(base, ["-"])
    name = f"holdfast-test/built:{hf.home.digest}"
    try:
        command = ["tar", "-c", "--exclude=site-packages", "--exclude=__pycache__", "-C", "/", str(prefix)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as packed:
            assert packed.stdout
            container.put_archive("/", packed.stdout)
        container.commit(name, changes=f"ENV PATH={prefix}/bin:/usr/bin:/bin")
    finally:
        container.remove(force=True)
    image("last", f"FROM {name}\n")
    hf.engine.client.images.remove(name)
    session = hf.new("it", image=f"holdfast-test/last:{hf.home.digest}")
    copies = works(session, str(prefix / "bin" / "python"))
    is_beside(copies[0])


@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie", "sid"])
def test_the_python_of_a_release(hf: Holdfast, image: Callable[..., str], suite: str) -> None:
    """Debian's own, whose packages are in `dist-packages`, and with the C library of then."""
    session = hf.new("it", image=release(hf, image, suite, "python3,python3-pip"))
    copies = works(session, "/usr/bin/python3")
    is_beside(copies[0])

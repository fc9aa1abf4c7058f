"""Images of other releases and systems, unchanged: each fetched from Debian's mirror, and used whole."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from tests.integration.any_image import OWN_PYTHON, image, works

from holdfast.runtime.api.controller import Holdfast

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(1200)

BUSYBOX = """
FROM {base} AS debian
RUN apt-get update -q && apt-get install -q -y --no-install-recommends busybox-static
FROM scratch
COPY --from=debian /bin/busybox /bin/busybox
"""


@pytest.mark.parametrize(
    ("release", "packages", "python"),
    [
        ("bullseye", "hostname", OWN_PYTHON),
        ("bullseye", "python3-ipykernel", "/usr/bin/python3"),
        ("bookworm", "hostname", OWN_PYTHON),
        ("bookworm", "python3-ipykernel", "/usr/bin/python3"),
    ],
)
def test_a_release(hf: Holdfast, image: Callable[..., str], release: str, packages: str, python: str) -> None:
    """Its shell is ours, its kernel its own if it has one."""
    archive = hf.home.root / "release.tar"
    command = ["mmdebstrap", "--variant=minbase", f"--include={packages}", release, str(archive)]
    subprocess.run(command, check=True, capture_output=True)
    name = image(release, archive=archive)
    works(hf.new("it", image=name), python)


def test_busybox_alone(hf: Holdfast, image: Callable[..., str]) -> None:
    """One static program, and no links to it."""
    session = hf.new("it", image=image("busybox", BUSYBOX))
    assert session.exec("/bin/busybox ls /bin").text == "busybox\n"
    works(session, OWN_PYTHON)

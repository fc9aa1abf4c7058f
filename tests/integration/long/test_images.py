"""Images of all kinds, unchanged, and each capability in each of them; `HOLDFAST_WRITE=1` writes the table.

The needs of a capability are prepared before it, so a failure can take later ones along: each has its
reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.wording import reason
from tests.integration import image_table
from tests.integration.any_image import OWN_PYTHON, image, release
from tests.integration.image_table import CAPABILITIES, IMAGES
from tests.machines.second import Machine

from holdfast.errors import HoldfastError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.snapshots.bundle.keys import Keys

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(1800)

MUSL = """
FROM {base} AS debian
RUN apt-get update -q && apt-get install -q -y --no-install-recommends musl-tools libc6-dev gcc
RUN echo '#include <stdio.h>\\nint main(void) {{ puts("musl"); return 3; }}' >/a.c && musl-gcc -o /a /a.c
FROM scratch
COPY --from=debian /a /bin/a
COPY --from=debian /lib/ld-musl-x86_64.so.1 /lib/ld-musl-x86_64.so.1
COPY --from=debian /usr/lib/x86_64-linux-musl/libc.so /usr/lib/x86_64-linux-musl/libc.so
"""
BUSYBOX = """
FROM {base} AS debian
RUN apt-get update -q && apt-get install -q -y --no-install-recommends busybox-static
FROM scratch
COPY --from=debian /bin/busybox /bin/busybox
"""
ODD = """
FROM {base}
ENV LD_LIBRARY_PATH=/usr/lib:/lib PYTHONHOME=/nowhere PYTHONPATH=/nowhere BASH_ENV=/nothing LANG=xx_YY.UTF-8
RUN rm -rf /opt /tmp && mkdir -m 700 /opt && chown 12:34 /opt && ln -s /nowhere /workspace
VOLUME /data/deep
HEALTHCHECK --interval=1s CMD /bin/false
ENTRYPOINT ["/bin/false"]
CMD ["/bin/false"]
"""
RECIPES = {
    "debian-13": "FROM {base}\n",
    "musl": MUSL,
    "busybox": BUSYBOX,
    "user": "FROM {base}\nUSER 1000\n",
    "odd": ODD,
    "large": "FROM {base}\nRUN dd if=/dev/urandom of=/large bs=1M count=3000\n",
}
RELEASES = {
    "debian-12": ("bookworm", "hostname"),
    "debian-11": ("bullseye", "hostname"),
    "debian-sid": ("sid", "hostname"),
    "jupyter-12": ("bookworm", "python3-ipykernel"),
    "jupyter-11": ("bullseye", "python3-ipykernel"),
}
PROGRAMS = {"musl": ("/bin/a", "musl\n", 3), "busybox": ("/bin/busybox ls /bin", "busybox\n", 0)}
"""A command of the image, with its output and exit code."""


def _made(name: str, hf: Holdfast, image: Callable[..., str]) -> str:
    if name in RECIPES:
        return image(name, RECIPES[name])
    if name in RELEASES:
        return release(hf, image, *RELEASES[name])
    return image(name, files={"readme": b"nothing else\n"})


class Trial:
    """One image: its session, and the results with it."""

    def __init__(self, name: str, hf: Holdfast, session: Session, elsewhere: Machine, file: Path) -> None:
        self.name = name
        self.hf = hf
        self.session = session
        self.elsewhere = elsewhere
        self.file = file
        self.taken: Snapshot | None = None

    def play(self) -> dict[str, str]:
        """Try all capabilities in order, and return the outcome of each."""
        steps = dict(zip(CAPABILITIES, self._steps(), strict=True))
        return {each: _tried(step) for each, step in steps.items()}

    def _steps(self) -> Iterator[Callable[[], None]]:
        yield from (self.exec, self.question, self.cell, self.pulse, self.snapshot, self.drift)
        yield from (self.restore, self.fork, self.export, self.thaw)

    def exec(self) -> None:
        """Keep state of the shell, and see exit codes as they are."""
        assert self.session.exec("cd /; held=kept; f() { echo $held-$1; }").ok
        assert self.session.exec("(exit 4)").exit_code == 4
        command, output, code = PROGRAMS.get(self.name, ("echo $((6 * 7))", "42\n", 0))
        done = self.session.exec(command)
        assert (done.text, done.exit_code) == (output, code), done.text

    def question(self) -> None:
        """Find a question, and answer it."""
        asked = self.session.exec("read -r -p 'name? ' name", timeout=60)
        assert asked.waiting, asked.text
        assert self.session.answer("ada\n").ok

    def cell(self) -> None:
        """Run in the image's interpreter if it has ipykernel, else in ours."""
        python = "/usr/bin/python3" if self.name.startswith("jupyter") else OWN_PYTHON
        found = self.session.cell("import sys; grown = [1]; sys.executable").text
        assert found == repr(python), found

    def pulse(self) -> None:
        """See the kernel, idle."""
        assert [each.name for each in self.session.pulse().kernels] == ["main"]

    def snapshot(self) -> None:
        """Capture processes as well."""
        self.taken = self.session.snapshot()
        assert self.taken.kind == "live"

    def drift(self) -> None:
        """Find the new file."""
        assert self.session.exec("echo new >/var/new || echo new >~/new || echo new >/var/tmp/new").ok
        found = [each.path for each in self.session.drift(self._taken.id, everything=True).files]
        assert [path for path in found if path.endswith("/new")] != [], found

    @property
    def _taken(self) -> Snapshot:
        assert self.taken, "there is no snapshot"
        return self.taken

    def restore(self) -> None:
        """Continue as it was."""
        self._continues(self._taken.restore(), 0)

    def fork(self) -> None:
        """Go three ways."""
        for number, copy in enumerate(self._taken.fork(3), 1):
            self._continues(copy, number)

    def export(self) -> None:
        """Write one file."""
        Keys(self.hf.home).new("images")
        exported = self._taken.export(self.file, compression="zstd")
        Keys(self.elsewhere.home).trust(str(exported.signed_by), f"of-{self.hf.home.digest}")

    def thaw(self) -> None:
        """Continue on a second engine, which has only that file."""
        with self.elsewhere.holdfast() as there:
            try:
                thawed = there.thaw(self.file)
                assert thawed.rung == "live"
                self._continues(thawed.session, 4)
            finally:
                for session in there.sessions():
                    session.remove()
                for snapshot in reversed(there.snapshots()):
                    snapshot.remove()

    @staticmethod
    def _continues(copy: Session, number: int) -> None:
        shown = copy.exec(f"held=${{held}}{number}; f $name; pwd").text.splitlines()
        assert shown == [f"kept{number}-ada", "/"], shown
        found = copy.cell(f"grown.append({number}); grown").text
        assert found == f"[1, {number}]", found
        copy.remove()


def _tried(step: Callable[[], Any]) -> str:
    try:
        step()
    except HoldfastError as error:
        return reason(error)
    except AssertionError as error:
        return f"another result: {error}".splitlines()[0]
    return "ok"


@pytest.mark.parametrize("name", IMAGES)
def test_every_capability(
    name: str, hf: Holdfast, image: Callable[..., str], second: Machine, tmp_path: Path
) -> None:
    """The image is as its makers left it."""
    kind, _, option = name.partition("+")
    session = hf.new("it", image=_made(kind, hf, image), read_only=option == "read-only")
    row = Trial(kind, hf, session, second, tmp_path / "it.holdfast").play()
    if os.environ.get("HOLDFAST_WRITE"):
        image_table.record(name, row)
    assert image_table.red(row) == []

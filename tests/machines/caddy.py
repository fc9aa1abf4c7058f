"""A real Caddy with the configuration that docs/recipes ships, in front of servers on ports of 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.machines.unpacked import REPOSITORY, program

SHIPPED = REPOSITORY / "docs/recipes/caddy-cluster.caddyfile"
PATIENCE = 30.0


class Caddy:
    """Caddy in front of nodes. What is changed of the shipped file is its places: addresses, names and
    certificates.
    """

    def __init__(self, folder: Path, port: int, nodes: Sequence[str], token: str) -> None:
        folder.mkdir(mode=0o755)
        self.folder, self.port = folder, port
        text = SHIPPED.read_text()
        for shipped, own in (
            ("10.0.0.5:8420 10.0.0.6:8420 10.0.0.7:8420", " ".join(nodes)),
            (
                "holdfast.example.org, *.previews.example.org {",
                f"http://127.0.0.1:{port}, http://*.previews.localhost:{port} {{",
            ),
            ("\ttls /etc/caddy/holdfast.crt /etc/caddy/holdfast.key\n", ""),
            ("Host holdfast.example.org", "Host 127.0.0.1"),
        ):
            assert shipped in text, shipped
            text = text.replace(shipped, own)
        (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}}\n{text}")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program("usr/bin/caddy", "caddy"), "run", "--config", folder / "Caddyfile"],
                env={**os.environ, "HOLDFAST_TOKEN": token, "HOME": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + PATIENCE
        while not _listens(port):
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.05)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

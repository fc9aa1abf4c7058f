"""A real registry: Debian's `docker-registry`, started by the tests with files of its own."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.machines.unpacked import program

PATIENCE = 60.0
_LISTENS = re.compile(r"listening on (?:127\.0\.0\.1|\[::1\]):(\d+)")

SHARED = "team/work"
"""The repository where tests push snapshots: data sent by one, the next need not send."""
USER, PASSWORD = "holdfast", "correct horse"
# `htpasswd -nbB -C 4 holdfast 'correct horse'`: bcrypt, the only form the registry takes.
HTPASSWD = "holdfast:$2y$04$0aHY.eMqf/GADmW8R6iJTepHi6GHUl18bGVddQQrlNBIJ8TAfS7EO\n"


class Registry:
    """A registry on a port of 127.0.0.1, with its blobs below `folder`.

    It can be stopped and started again: same port, same contents.
    """

    def __init__(
        self, folder: Path, *, auth: Mapping[str, Any] | None = None, tls: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._auth, self._tls = auth, tls
        self.port = 0
        self.log = folder / "registry.log"
        self.start()

    @classmethod
    def with_password(cls, folder: Path) -> Registry:
        """Return one that wants USER and PASSWORD (basic authentication)."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "htpasswd").write_text(HTPASSWD)
        return cls(folder, auth={"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}})

    @property
    def address(self) -> str:
        """Host and port, as they stand in a reference."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "info", "formatter": "text", "accesslog": {"disabled": False}},
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "blobs")},
                "delete": {"enabled": True},
                "maintenance": {"uploadpurging": {"enabled": False}},
            },
            # The secret seals the state of uploads: those begun before a restart can be continued after it.
            "http": {"addr": f"127.0.0.1:{self.port}", "secret": "of the tests"},
        }
        if self._auth:
            config["auth"] = self._auth
        if self._tls:
            config["http"]["tls"] = dict(self._tls)
        path = self.folder / "config.yml"
        path.write_text(json.dumps(config))  # JSON is YAML
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [program("usr/bin/docker-registry", "docker-registry"), "serve", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while (found := _LISTENS.search(said := self.log.read_text(errors="replace"))) is None:
            assert self._process.poll() is None, f"the registry ended at once:\n{said}"
            assert time.monotonic() < deadline, f"the registry does not listen:\n{said}"
            time.sleep(0.005)
        self.port = int(found[1])

    def stop(self) -> None:
        """End it, as a crash would."""
        self._process.kill()
        self._process.wait()

    def connect(self, _client: object = None) -> socket.socket:
        """Return a new connection to it."""
        return socket.create_connection(("127.0.0.1", self.port))

    def requests(self) -> list[str]:
        """Return the requests answered since it was started: method, path and status."""
        found = re.findall(r'"([A-Z]+) (\S+) HTTP/1\.\d" (\d+)', self.log.read_text(errors="replace"))
        return [" ".join(each) for each in found]

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

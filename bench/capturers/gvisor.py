"""gVisor (`runsc`) on systrap: `checkpoint --leave-running`. The container's files are kept in memory."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable

from bench.capturers.capturer import INSIDE, Taken, Unavailable
from bench.capturers.tools import call, detached, need_root, size_of
from bench.world import World, docker

# Debian 12's runsc has no systrap; the sessions' own release has one that does.
_DOWNLOAD = (
    "set -e; cd /tmp; apt-get -q update; apt-get -q download runsc; dpkg -x runsc_*.deb runsc;"
    " cp runsc/usr/bin/runsc /out/runsc"
)
_CAPABILITIES = ["CAP_KILL", "CAP_DAC_OVERRIDE"]


class GVisor:
    """A sandbox on the files of the sessions' image."""

    name = "gVisor"

    def __init__(self, world: World) -> None:
        self._world = world
        self._folder = world.home / "gvisor"
        self._images = self._folder / "images"
        self._log = self._folder / "log"
        self._runsc: list[str] = []

    def begin(self, heap: int) -> None:
        """Start a sandbox whose first process holds the heap."""
        self._prepare()
        program = "ticker" if heap else "counter"
        inside = ["/usr/bin/python3", "/bench/load.py", str(heap), f"/bench/{program}.py"]
        (self._folder / "config.json").write_text(json.dumps(self._bundle(inside)))
        detached([*self._runsc, "run", "-detach", f"-bundle={self._folder}", "subject"], self._log)
        self.shell(f"until [ -s /tmp/load.ready ] && [ -s /tmp/{program}.pid ]; do sleep 0.05; done")

    def shell(self, command: str) -> str:
        """Run a command in the sandbox."""
        return call(*self._runsc, "exec", "subject", "sh", "-c", command)

    def capture(self) -> Taken:
        """Checkpoint while the sandbox continues to run."""
        self._images.mkdir()
        started = time.perf_counter()
        call(*self._runsc, "checkpoint", f"-image-path={self._images}", "-leave-running", "subject")
        return Taken(time.perf_counter() - started, size_of(self._images))

    def restore(self) -> tuple[float, Callable[[str], str]]:
        """Restore into another sandbox, up to the end of `true`."""
        started = time.perf_counter()
        options = [f"-bundle={self._folder}", f"-image-path={self._images}"]
        detached([*self._runsc, "restore", "-detach", *options, "again"], self._log)
        call(*self._runsc, "exec", "again", "true")
        seconds = time.perf_counter() - started
        return seconds, lambda command: call(*self._runsc, "exec", "again", "sh", "-c", command)

    def drop(self) -> None:
        """Remove the copy and the checkpoint."""
        with contextlib.suppress(Unavailable):
            call(*self._runsc, "delete", "-force", "again")
        shutil.rmtree(self._images, ignore_errors=True)

    def end(self) -> None:
        """Remove the sandboxes; the files stay for the next heap."""
        if self._runsc:
            self.drop()
            with contextlib.suppress(Unavailable):
                call(*self._runsc, "delete", "-force", "subject")

    def remove(self) -> None:
        """Remove everything there is."""
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        if self._runsc:
            return
        need_root()
        root = self._folder / "root"
        root.mkdir(parents=True)
        self._world.tell("gVisor: runsc from Debian's packages")
        container = docker("create", "--label", self._world.label, self._world.image).strip()
        try:
            with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
                subprocess.run(["tar", "-x", "-C", str(root)], stdin=export.stdout, check=True)
        finally:
            docker("rm", "-f", container)
        options = [
            f"--root={self._folder / 'state'}",
            "--platform=systrap",
            "--network=none",
            "--ignore-cgroups",
        ]
        self._runsc = [self._program(), *options, "--overlay2=root:memory"]

    def _program(self) -> str:
        found = shutil.which("runsc")
        if found is not None:
            with contextlib.suppress(Unavailable):
                call(found, "--platform=systrap", "--network=none", "do", "true")
                return found
        entry = ["--rm", "--label", self._world.label, "--entrypoint", "sh", f"--volume={self._folder}:/out"]
        call("docker", "run", *entry, self._world.image, "-c", _DOWNLOAD)
        return str(self._folder / "runsc")

    def _bundle(self, command: list[str]) -> dict[str, object]:
        return {
            "ociVersion": "1.0.2",
            "hostname": "subject",
            "root": {"path": str(self._folder / "root")},
            "process": {
                "args": command,
                "cwd": "/",
                "env": ["PATH=/usr/bin:/bin"],
                "user": {"uid": 0, "gid": 0},
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
            },
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                {"destination": "/bench", "type": "bind", "source": str(INSIDE), "options": ["ro", "bind"]},
            ],
            "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]},
        }

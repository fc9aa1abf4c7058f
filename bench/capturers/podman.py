"""Podman with runc and the checkpointer's own CRIU: `container checkpoint --leave-running --export`."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.capturers.capturer import INSIDE, Taken, Unavailable
from bench.capturers.tools import call, need, need_root
from bench.world import World, docker
from holdfast.images import build

_IMAGE = "holdfast-bench:latest"
_CRIU = """#!/bin/sh
exec {folder}/ld-linux --library-path {folder} {folder}/criu.bin "$@"
"""
# CRIU and its libraries, from the checkpointer's image: Debian 12's own does not work on new kernels.
_TAKE = (
    "set -e; cp -L $(ldd /usr/sbin/criu | grep -o '/[^ ]*') /out/; cp /usr/sbin/criu /out/criu.bin;"
    " mv /out/ld-linux* /out/ld-linux; chown -R $(stat -c %u:%g /out) /out"
)


class Podman:
    """A container of the sessions' image in a storage of its own."""

    name = "Podman, runc, CRIU"

    def __init__(self, world: World) -> None:
        self._world = world
        self._folder = world.home / "podman"
        self._export = self._folder / "export.tar"
        self._ready = False
        self._command = [
            "podman",
            f"--root={self._folder / 'root'}",
            f"--runroot={self._folder / 'run'}",
            f"--tmpdir={self._folder / 'tmp'}",
            "--runtime=runc",
            "--cgroup-manager=cgroupfs",
            "--events-backend=file",
        ]

    def begin(self, heap: int) -> None:
        """Start a container whose first process holds the heap."""
        self._prepare()
        program = "ticker" if heap else "counter"
        # Its default limits are above what a process without CAP_SYS_RESOURCE may set.
        limits = ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
        inside = ["/usr/bin/python3", "/bench/load.py", str(heap), f"/bench/{program}.py"]
        mount = f"--volume={INSIDE}:/bench:ro"
        self._podman("run", "--detach", "--name=subject", "--network=none", *limits, mount, _IMAGE, *inside)
        self.shell(f"until [ -s /tmp/load.ready ] && [ -s /tmp/{program}.pid ]; do sleep 0.05; done")

    def shell(self, command: str) -> str:
        """Run a command in the container."""
        return self._podman("exec", "subject", "sh", "-c", command)

    def capture(self) -> Taken:
        """Export a checkpoint while the container continues to run."""
        started = time.perf_counter()
        self._podman(
            "container",
            "checkpoint",
            "--leave-running",
            "--compress=none",
            f"--export={self._export}",
            "subject",
        )
        return Taken(time.perf_counter() - started, self._export.stat().st_size)

    def restore(self) -> tuple[float, Callable[[str], str]]:
        """Import the checkpoint under another name, up to the end of `true`."""
        started = time.perf_counter()
        self._podman("container", "restore", f"--import={self._export}", "--name=again")
        self._podman("exec", "again", "true")
        seconds = time.perf_counter() - started
        return seconds, lambda command: self._podman("exec", "again", "sh", "-c", command)

    def drop(self) -> None:
        """Remove the copy and the export."""
        with contextlib.suppress(Unavailable):
            self._podman("rm", "--force", "--ignore", "--time=0", "again")
        self._export.unlink(missing_ok=True)

    def end(self) -> None:
        """Remove the containers; the image stays for the next heap."""
        if self._ready:
            self.drop()
            with contextlib.suppress(Unavailable):
                self._podman("rm", "--force", "--all", "--time=0")

    def remove(self) -> None:
        """Remove everything there is."""
        self.end()
        if self._ready:
            with contextlib.suppress(Unavailable):
                self._podman("rmi", "--force", "--all")
            self._ready = False
        # Podman mounts its storage onto itself.
        with contextlib.suppress(Unavailable):
            call("umount", str(self._folder / "root" / "overlay"))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        if self._ready:
            return
        need_root()
        need(["podman", "runc", "conmon"], ["podman", "runc", "conmon"])
        self._folder.mkdir(exist_ok=True)
        self._take_criu(self._folder / "criu")
        self._ready = True
        self._import_image()

    def _take_criu(self, folder: Path) -> None:
        folder.mkdir()
        toolbox = build.ensure(self._world.holdfast.engine.images, "toolbox", self._world.tell)
        entry = ["--rm", "--label", self._world.label, "--entrypoint", "sh", f"--volume={folder}:/out"]
        docker("run", *entry, toolbox, "-c", _TAKE)
        wrapper = folder / "criu"
        wrapper.write_text(_CRIU.format(folder=folder))
        wrapper.chmod(0o755)

    def _import_image(self) -> None:
        container = docker("create", "--label", self._world.label, self._world.image).strip()
        try:
            with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
                done = subprocess.run(
                    [*self._command, "import", "-", _IMAGE],
                    stdin=export.stdout,
                    capture_output=True,
                    check=False,
                )
        finally:
            docker("rm", "-f", container)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise Unavailable(f"`podman import` failed: {said[-1] if said else done.returncode}")

    def _podman(self, *arguments: str) -> str:
        path = f"{self._folder / 'criu'}:{os.environ.get('PATH', '')}"
        return call(*self._command, *arguments, env={"PATH": path})

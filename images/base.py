"""The Debian system every image starts from: a registry's where one answers, else our own bootstrap.

Both are the same release with the same minimal package set; what an image adds to it is the same.
"""

from __future__ import annotations

import hashlib
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.base import host_environment
from holdfast.engine.engine_faults import said
from holdfast.engine.engine_images import EngineImages
from holdfast.errors import ImageError
from holdfast.images import proxy_settings
from holdfast.images.apt_sources import Mirror, host_mirror

SUITE = "trixie"
REGISTRY_REPOSITORY = "debian"
REGISTRY_TAG = f"{SUITE}-slim"
ROOTFS_REPOSITORY = "holdfast/rootfs"
# Seconds of silence from the registry after which a bootstrap (about 20 s) is the faster way.
REGISTRY_PATIENCE = 20.0

Progress = Callable[[str], None]


def obtain(images: EngineImages, progress: Progress) -> str:
    """Return a reference to the base image, fetched or made if the engine does not have it.

    Raises:
        ImageError: no registry answers and a base cannot be bootstrapped here.
    """
    registry = f"{REGISTRY_REPOSITORY}:{REGISTRY_TAG}"
    mirror = host_mirror()
    bootstrapped = f"{ROOTFS_REPOSITORY}:{_recipe(mirror)}"
    for reference in (registry, bootstrapped):
        if images.exists(reference):
            return reference
    progress(f"base: asking the registry for {registry}")
    try:
        _pull(images, progress)
    except _NoRegistry as reason:
        progress(f"base: no registry ({reason}); bootstrapping {SUITE} from the Debian mirror")
        _bootstrap(images, bootstrapped, mirror, progress)
        return bootstrapped
    return registry


class _NoRegistry(Exception):
    """The base cannot be pulled; the message is a few words.  A finding, not a fault."""


def _recipe(mirror: Mirror | None) -> str:
    text = "\n".join([SUITE, *(mirror.lines(SUITE) if mirror else [])])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _pull(images: EngineImages, progress: Progress) -> None:
    """Pull in a thread: the engine says nothing, for minutes, while a registry does not answer."""
    events: queue.Queue[dict[str, Any] | Exception | None] = queue.Queue()

    def run() -> None:
        try:
            for event in images.pull(REGISTRY_REPOSITORY, REGISTRY_TAG):
                events.put(event)
            events.put(None)
        except Exception as error:  # noqa: BLE001  # handed to the waiting thread, which judges it
            events.put(error)

    threading.Thread(target=run, name="holdfast-pull", daemon=True).start()
    last = ""
    while True:
        try:
            event = events.get(timeout=REGISTRY_PATIENCE)
        except queue.Empty:
            raise _NoRegistry(f"silent for {REGISTRY_PATIENCE:.0f} s") from None
        if event is None:
            return
        if isinstance(event, Exception):
            raise _NoRegistry(_brief(str(event))) from event
        if "error" in event:
            raise _NoRegistry(_brief(str(event["error"])))
        if event.get("status") != last and "id" not in event:
            last = str(event.get("status"))
            progress(f"base: {last}")


def _brief(text: str) -> str:
    """Return the last part of an engine's chain of causes, which is the root cause."""
    return text.strip().rsplit(": ", 1)[-1][:80]


def _bootstrap(images: EngineImages, reference: str, mirror: Mirror | None, progress: Progress) -> None:
    _require_mmdebstrap(progress)
    attempts: list[list[str]] = [mirror.lines(SUITE)] if mirror else []
    attempts.append([])  # the tool's own default, also where the host's mirror lacks this release
    with tempfile.TemporaryDirectory(prefix="holdfast-base-") as folder:
        archive = Path(folder, "base.tar")
        tail: list[str] = []
        for sources in attempts:
            command = ["mmdebstrap", "--variant=minbase", SUITE, str(archive), *sources]
            tail = []
            for line in _lines(command):
                if line is None:
                    break
                tail.append(line)
                if line.startswith("I: ") and line.endswith("..."):
                    progress(f"base: {line[3:]}")
            else:
                import_system(images, archive, reference)
                return
        raise ImageError(
            f"cannot bootstrap Debian {SUITE}: mmdebstrap failed",
            hint="\n".join(tail[-15:]),
        )


def _lines(command: list[str]) -> Iterator[str | None]:
    """Yield the lines a command prints; a final None if it failed."""
    settings = {**proxy_settings.both_spellings(os.environ), "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=host_environment.with_settings(settings),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip()
    if process.returncode != 0:
        yield None


def import_system(images: EngineImages, archive: Path, reference: str) -> None:
    """Make a base image of the files in an archive.

    Raises:
        ImageError: the engine refuses them.
    """
    answer = images.import_files(archive, reference, ['CMD ["bash"]'])
    if '"error"' in answer:
        raise said(ImageError, "import the bootstrapped base image", "the engine refuses it", answer.strip())


def _require_mmdebstrap(progress: Progress) -> None:
    if shutil.which("mmdebstrap"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ImageError(
            "cannot make a base image: no registry answers and mmdebstrap is not installed",
            hint=f"run `docker pull {REGISTRY_REPOSITORY}:{REGISTRY_TAG}` where a registry is reachable, "
            "or install mmdebstrap and debian-archive-keyring",
        )
    progress("base: installing mmdebstrap")
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends"]
    for command in (["apt-get", "update", "-q"], [*install, "mmdebstrap", "debian-archive-keyring"]):
        lines = list(_lines(command))
        if lines and lines[-1] is None:
            tail = "\n".join(line for line in lines[-15:] if line)
            raise ImageError(f"cannot install mmdebstrap: `{' '.join(command[:2])}` failed", hint=tail)

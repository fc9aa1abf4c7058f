"""BuildKit, through Docker's own command: the engine has no other door to it for builds.

Finds a command that has it, and runs one build. What the lines of a build mean is not known here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import ImageError

PATIENCE = 20.0
"""Seconds that the command may take to say what it has."""
LONGEST_LINE = 1 << 16
"""Bytes; what a step writes without an end of line comes in pieces."""
_OWN = 23
"""From this version on, the command has BuildKit by a plugin; before, it had it itself (18.09 to 20.10)."""


def find(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of a command `docker` with BuildKit; None without one, or if DOCKER_BUILDKIT is 0."""
    if environ.get("DOCKER_BUILDKIT", "").lower() in ("0", "false"):
        return None
    command = shutil.which("docker", path=environ.get("PATH"))
    if command is None:
        return None
    version = re.search(r"version (\d+)\.", _said([command, "--version"], environ))
    if version is None:
        return None
    if int(version[1]) >= _OWN and "buildx" not in _said([command, "buildx", "version"], environ):
        return None
    return command


def _said(words: list[str], environ: Mapping[str, str]) -> str:
    """Return what a command writes if it succeeds."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            words, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True
        )
        return done.stdout.decode("utf-8", "replace")
    return ""


def build(
    command: str,
    folder: Path,
    dockerfile: Path,
    arguments: Mapping[str, str],
    target: str | None,
    feed: Callable[[str], None],
    *,
    host_network: bool = False,
) -> str | None:
    """Build an image of a folder, and return its id; None if the build failed.

    Args:
        command: as `find` returned it.
        folder: the context of the build.
        dockerfile: which may be outside of it.
        arguments: values of ARG; they are not on the command line, which others can read.
        target: the stage to build; the last one by default.
        feed: gets each line of the build.
        host_network: the steps reach what listens on the host's loopback.

    Raises:
        ImageError: the command cannot be run.
    """
    with tempfile.TemporaryDirectory() as place:
        made = Path(place, "id")
        words = [command, "build", "--progress", "plain", "--iidfile", str(made), "--file", str(dockerfile)]
        words += [word for name in sorted(arguments) for word in ("--build-arg", name)]
        words += ["--target", target] if target else []
        words += ["--network", "host"] if host_network else []
        # Other builders than the engine's own would keep the image to themselves.
        environ = {**os.environ, **arguments, "DOCKER_BUILDKIT": "1", "BUILDX_BUILDER": "default"}
        with _running([*words, str(folder)], environ) as process:
            assert process.stderr
            while line := process.stderr.readline(LONGEST_LINE):
                feed(line.decode("utf-8", "replace").rstrip())
            if process.wait() != 0:
                return None
        return made.read_text().strip()


@contextmanager
def _running(words: list[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that ends, with the build, when this is left early."""
    try:
        process = subprocess.Popen(
            words, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ImageError(f"cannot build an image: cannot run {words[0]}: {error.strerror}") from error
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()

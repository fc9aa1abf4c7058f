"""BuildKit through Docker's own command: the engine does not offer it for builds in any other way.

Finds a command that has it, and runs one build. What the lines of a build mean is not known here. The command
runs on this machine: nothing that a project says is in its environment (`host_environment`).
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

from holdfast.base import host_environment
from holdfast.errors import ImageError

PATIENCE = 20.0
"""Seconds that the command can take to list its features."""
LONGEST_LINE = 1 << 16
"""Bytes; output of a step without an end of line comes in pieces."""
_OWN = 23
"""From this version on, the command has BuildKit by a plugin; before, it had it itself (18.09 to 20.10)."""


def find(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of a command `docker` with BuildKit; None without one, or if DOCKER_BUILDKIT is 0."""
    if environ.get("DOCKER_BUILDKIT", "").lower() in ("0", "false"):
        return None
    command = shutil.which("docker", path=environ.get("PATH"))
    if command is None:
        return None
    version = _said([command, "--version"], environ)
    if not version or not (has_own(version) or "buildx" in _said([command, "buildx", "version"], environ)):
        return None
    return command


def has_own(version: str) -> bool:
    """Check whether a `docker` command includes BuildKit without a plugin, by its version output."""
    number = re.search(r"version (\d+)\.", version)
    return number is not None and int(number[1]) < _OWN


def _said(words: list[str], environ: Mapping[str, str]) -> str:
    """Return the output of a command if it succeeds."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            words,
            env=host_environment.of_caller(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
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
    private: Mapping[str, str] | None = None,
    network: str = "none",
) -> str | None:
    """Build an image of a folder, and return its id; None if the build failed.

    Args:
        command: as `find` returned it.
        folder: the context of the build.
        dockerfile: which may be outside of it.
        arguments: values of ARG; they are on the command line, which others on this machine can read.
        target: the stage to build; the last one by default.
        feed: gets each line of the build.
        private: more values, of the caller's own: the command finds them in its environment. Those under a
            name that would decide what it does are on the command line, unless it has them already.
        network: of the steps: `none` or `default`, which is the engine's own.

    Raises:
        ImageError: the command cannot be run.
    """
    own = dict(private or {})
    hidden = {name: value for name, value in own.items() if not host_environment.decides(name)}
    there = {
        name: value
        for name, value in own.items()
        if value in (os.environ.get(name), os.environ.get(name.swapcase()))  # a proxy has two spellings
    }
    shown = {**arguments, **own}
    with tempfile.TemporaryDirectory() as place:
        made = Path(place, "id")
        words = [command, "build", "--progress", "plain", "--iidfile", str(made), "--file", str(dockerfile)]
        for name in sorted(shown):
            alone = name in hidden or name in there
            words += ["--build-arg", name if alone else f"{name}={shown[name]}"]
        words += ["--target", target] if target else []
        words += ["--network", network]
        with _running([*words, str(folder)], there, hidden) as process:
            assert process.stderr
            while line := process.stderr.readline(LONGEST_LINE):
                feed(line.decode("utf-8", "replace").rstrip())
            if process.wait() != 0:
                return None
        return made.read_text().strip()


@contextmanager
def _running(
    words: list[str], there: Mapping[str, str], private: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that ends, along with its build, when the block is left early."""
    # Other builders than the engine's own would keep the image to themselves.
    chosen = {**there, "DOCKER_BUILDKIT": "1", "BUILDX_BUILDER": "default"}
    try:
        process = subprocess.Popen(
            words,
            env=host_environment.with_settings(chosen, private),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise ImageError(f"cannot build an image: cannot run {words[0]}: {error.strerror}") from error
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()

"""Runs and installs other people's tools. If one fails, it is unavailable, with the reason in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.capturers.capturer import Unavailable

TIMEOUT_SECONDS = 180.0


def call(*command: str, env: Mapping[str, str] | None = None) -> str:
    """Run a command and return its output.

    Raises:
        Unavailable: it failed, or it did not end.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, **(env or {})},
            check=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is missing") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{_shown(command)}` did not end in {TIMEOUT_SECONDS:.0f} s") from error
    if done.returncode != 0:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Unavailable(f"`{_shown(command)}` failed: {said[-1][:300] if said else done.returncode}")
    return done.stdout


def detached(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a command that leaves a process behind, which keeps its output: a file, not a pipe.

    Raises:
        Unavailable: it failed.
    """
    with log.open("a") as stream:
        status = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, **(env or {})},
            check=False,
        ).returncode
    if status != 0:
        said = log.read_text(errors="replace").strip().splitlines()
        raise Unavailable(f"`{_shown(command)}` failed: {said[-1][:300] if said else status}")


def need(programs: Sequence[str], packages: Sequence[str]) -> None:
    """Check that programs are there; install Debian packages if they are missing and this is allowed.

    Raises:
        Unavailable: they are missing and cannot be installed.
    """
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    install = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"{', '.join(missing)} missing; `{install}` as root")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    call("apt-get", "-q", "update", env=quiet)
    call("apt-get", "-q", "install", "-y", "--no-install-recommends", *packages, env=quiet)
    if any(shutil.which(program) is None for program in missing):
        raise Unavailable(f"{', '.join(missing)} missing after `{install}`")


def need_root() -> None:
    """Require root.

    Raises:
        Unavailable: this is another user.
    """
    if os.geteuid() != 0:
        raise Unavailable("needs root")


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _shown(command: Sequence[str]) -> str:
    """Return the tool and its command, without options."""
    words = [Path(command[0]).name, *(word for word in command[1:] if not word.startswith(("-", "/")))]
    return " ".join(words[:3])

"""Holdfast installed for an ordinary user: packages in environments of their own, nothing of the checkout.

A place of its own below the system's temporary folder holds an environment per package and the user's home.
Beside the package an environment has its declared dependencies, taken from the environment the tests run
in, and nothing else. The user's only rights are those of the group of the engine's socket; the interpreter,
which can be in a folder that only root reads, is visible to the user by a private mount.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

USER = 4322
"""A number that is not in use: an account is not needed, and none is made."""
SOCKET = Path("/var/run/docker.sock")
PATIENCE = 240.0
_SHOW = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
_CLEAR = """
from holdfast import Holdfast
from holdfast.runtime.storage import background_packer, packing_request
from holdfast.snapshots import service
with Holdfast() as hf:
    for session in hf.sessions():
        session.remove()
    for snapshot in reversed(hf.snapshots()):
        snapshot.remove()
    while packing_request.mark_of(hf.home) or packing_request.at_work(hf.home):
        background_packer.run(hf.home)
    service.stop(hf.engine, hf.home)
"""
_OURS = ("HOLDFAST_", "PYTHON", "PYTEST", "VIRTUAL_ENV", "XDG_", "LD_")


class Place:
    """Where packages are installed and used; removed at the end, with whatever is in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-installed-"))
        self.folder.chmod(0o755)
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        os.chown(self.home, USER, USER)
        self._python = self.folder / "python"
        self._python.mkdir()
        self._installed: list[Path] = []
        self._dependencies = self.folder / "dependencies"
        for distribution in _needed("holdfast"):
            _put(distribution, self._dependencies)

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder)

    @property
    def programs(self) -> Path | None:
        """Those of the environment that was made first."""
        return next(iter(self._installed), None)

    @property
    def state(self) -> Path:
        """The state directory that is used by default."""
        return self.home / ".local/state/holdfast"

    @property
    def interpreter(self) -> Path:
        """The base interpreter at the user's path: references to it must hold for the user."""
        return self._python / "bin" / f"python3.{sys.version_info.minor}"

    def make_environment(self, name: str, *packages: str) -> Path:
        """Make an environment with packages of the index, as root would, and return its programs."""
        environment = self.folder / name
        pip = environment / "bin/pip"
        self._run(self._seeing_python(self.interpreter, "-m", "venv", environment))
        self._run(self._seeing_python(pip, "install", "--quiet", "--disable-pip-version-check", *packages))
        return environment / "bin"

    def install(self, wheel: Path, name: str) -> Path:
        """Make an environment with the package and its dependencies, as root would, and return its
        programs.
        """
        environment = self.folder / name
        python = environment / "bin/python"
        self._run(self._seeing_python(self.interpreter, "-m", "venv", "--without-pip", environment))
        (packages,) = environment.glob("lib/python3.*/site-packages")
        (packages / "dependencies.pth").write_text(f"{self._dependencies}\n")
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        pip += ["--python", python]
        self._run(self._seeing_python(*pip, "install", "--no-index", "--no-deps", "--no-compile", wheel))
        if not self._installed:  # the others' neighbors are the same
            self._run(self._seeing_python(*pip, "check"))
        self._installed.append(environment / "bin")
        return environment / "bin"

    def use(self, programs: Path, *words: str) -> str:
        """Return the output of an environment's program, run by the user in its home; it must succeed.

        The user's umask is the strictest: files for containers must be open to them all the same.
        """
        return self._run(self.command(programs, *words), at=self.home, umask=0o077)

    def command(self, programs: Path, *words: str, socket: Path = SOCKET) -> list[str]:
        """Return the command that runs an environment's program as the user, in the group of this socket."""
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={socket.stat().st_gid}"]
        # Installed files are root's: without a place for it, every run would compile them again.
        as_user += [
            "--inh-caps=-all",
            "env",
            f"HOME={self.home}",
            f"PYTHONPYCACHEPREFIX={self.home}/compiled",
        ]
        return self._seeing_python(*as_user, str(programs / words[0]), *words[1:])

    @property
    def environment(self) -> dict[str, str]:
        """The environment of whatever runs here."""
        found = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        # A shared interpreter names its old place.
        return found | {"LD_LIBRARY_PATH": str(self._python / "lib")}

    def holdfast(self, programs: Path, *words: str) -> Any:
        """Return the answer of the command line with `--json`."""
        return json.loads(self.use(programs, "holdfast", *words, "--json"))

    def clear(self, programs: Path | None = None) -> None:
        """Remove everything the user made in the engine, by an environment or the first installed."""
        for each in [programs] if programs else self._installed[:1]:
            self.use(each, "python", "-c", _CLEAR)

    def _seeing_python(self, *command: str | Path) -> list[str]:
        """Return a command that finds the base interpreter at the user's path."""
        shown = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", _SHOW, "sh"]
        return [*shown, sys.base_prefix, str(self._python), *map(str, command)]

    def _run(self, command: Sequence[str], at: Path | None = None, umask: int = 0o022) -> str:
        done = subprocess.run(
            command,
            cwd=at or self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            umask=umask,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def _needed(name: str) -> list[metadata.Distribution]:
    """Return the dependencies of a distribution, direct and indirect, without itself."""
    found: dict[str, metadata.Distribution] = {}
    pending = [name]
    while pending:
        distribution = metadata.distribution(pending.pop())
        for requirement in map(Requirement, distribution.requires or ()):
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and (other := canonicalize_name(requirement.name)) not in found:
                found[other] = metadata.distribution(other)
                pending.append(other)
    return list(found.values())


def _put(distribution: metadata.Distribution, to: Path) -> None:
    """Copy the modules of a distribution into a folder; not its programs, which lie outside of the
    packages.
    """
    for path in distribution.files or ():
        if ".." not in path.parts and path.suffix != ".pyc":
            target = to / path
            target.parent.mkdir(parents=True, exist_ok=True)
            have = str(distribution.locate_file(path))
            try:
                os.link(have, target)
            except OSError:  # on another file system
                shutil.copy2(have, target)

"""The kernels that a session offers: the Jupyter specs found in it.

Specs are read as files of the session: only ordinary ones of a sane size, and without jupyter_client, which
would wait for a pipe of that name. It does not start kernels.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass

MOST = 100
"""Specs that are listed."""
LARGEST = 64 << 10
"""Bytes of a `kernel.json`."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_SYSTEM = ("/usr/local/share/jupyter", "/usr/share/jupyter")


@dataclass(frozen=True, slots=True)
class FoundSpec:
    """A spec by its name; `folder` holds its `kernel.json`, `fields` are the content of that file."""

    name: str
    folder: Path
    fields: Mapping[str, Any]

    @property
    def language(self) -> str:
        """The language that the spec declares."""
        return str(self.fields.get("language", ""))[:100]

    @property
    def display_name(self) -> str:
        """The name shown to people."""
        return str(self.fields.get("display_name", ""))[:200]


def folders(environment: Mapping[str, str], home: str, own: str = sys.prefix) -> list[Path]:
    """Return the folders of specs, best first.

    `environment` and `home` belong to the session's user: kernels are also next to the interpreters on the
    path, in a virtual environment or conda's.
    """
    bases = [each for each in environment.get("JUPYTER_PATH", "").split(os.pathsep) if each.startswith("/")]
    bases += [f"{home}/.local/share/jupyter", f"{own}/share/jupyter"]
    for name in ("python", "python3", "jupyter"):
        found = shutil.which(name, path=environment.get("PATH", ""))
        if found is not None:
            bases.append(f"{os.path.dirname(os.path.dirname(found))}/share/jupyter")  # noqa: PTH120
    bases += _SYSTEM
    return [Path(each, "kernels") for each in dict.fromkeys(bases)]


def find(name: str, places: list[Path]) -> FoundSpec | None:
    """Return the spec of a name, whatever the case of its letters; None if there is none."""
    return next((each for each in _all(places) if each.name.lower() == name.lower()), None)


def listed(places: list[Path]) -> list[FoundSpec]:
    """Return the specs, the first of each name, by their names."""
    found: dict[str, FoundSpec] = {}
    for each in _all(places):
        if len(found) < MOST:
            found.setdefault(each.name.lower(), each)
    return sorted(found.values(), key=lambda spec: spec.name.lower())


def command(spec: FoundSpec, environment: Mapping[str, str]) -> list[str]:
    """Return the command line of a spec, whose program is found as in the session.

    `python` alone is the interpreter with which the spec was installed, if it still is there.
    """
    program, *rest = [str(each) for each in spec.fields["argv"]]
    if "/" not in program:
        beside = spec.folder.parents[3] / "bin" / program if len(spec.folder.parents) > 3 else None
        if program.startswith("python") and beside is not None and os.access(beside, os.X_OK):
            program = str(beside)
        else:
            program = shutil.which(program, path=environment.get("PATH", "")) or program
    return [program, *rest]


def _all(places: list[Path]) -> Iterator[FoundSpec]:
    for place in places:
        try:
            names = sorted(os.listdir(place))[: 10 * MOST]  # noqa: PTH208
        except OSError:
            continue
        for name in names:
            fields = _read(place / name / "kernel.json") if _NAME.fullmatch(name) else None
            if fields is not None:
                yield FoundSpec(name, place / name, fields)


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a spec, if it is an ordinary file that names a command."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                return None
            fields = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    argv, variables = fields.get("argv"), fields.get("env", {})
    words = isinstance(argv, list) and argv and all(isinstance(each, str) for each in argv)
    named = isinstance(variables, dict) and all(isinstance(each, str) for each in variables.values())
    return fields if words and named else None

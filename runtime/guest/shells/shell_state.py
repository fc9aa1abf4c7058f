"""A shell's state, as it wrote it at the end of its last command.

The file has the form of `images/session/bash_state.h`, in a folder of the shell's user, who can have put
anything there: it is read with limits, and a malformed one counts as no state. Pure but for `read`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.pulse import access

FORMAT = "1"
MAX_BYTES = 3 << 20
"""The shell writes up to 1 MiB, plus the one record that passes it (an exported value of 64 KiB, a name)."""
MAX_RECORDS = 20_000
_FIELDS = 5


@dataclass(frozen=True, slots=True)
class ShellVariable:
    """A variable, a function or an alias.

    `value` is None where only its digest is known (long values, arrays). `attributes` are the letters of
    bash's `declare`: x exported, r readonly, i integer, a array, A associative array, n name reference, l, u,
    c. `size` is in bytes, of arrays the number of elements.
    """

    name: str
    attributes: str = ""
    size: int = 0
    digest: str = ""
    value: str | None = None

    @property
    def exported(self) -> bool:
        """True if programs receive it."""
        return "x" in self.attributes


@dataclass(frozen=True, slots=True)
class ShellState:
    """The state of one shell at a prompt. `cut` if it is incomplete."""

    pid: int = 0
    cwd: str | None = None
    umask: int | None = None
    variables: Mapping[str, ShellVariable] = field(default_factory=dict)
    functions: Mapping[str, ShellVariable] = field(default_factory=dict)
    aliases: Mapping[str, ShellVariable] = field(default_factory=dict)
    cut: bool = False

    def exported(self) -> dict[str, str]:
        """Return the environment of programs that the shell starts, as far as it is known."""
        found = {
            one.name: one.value
            for one in self.variables.values()
            if one.exported and one.value is not None and not set("aA") & set(one.attributes)
        }
        for one in self.functions.values():
            if one.exported and one.value is not None:
                found[f"BASH_FUNC_{one.name}%%"] = one.value
        return found


def parse(data: bytes) -> ShellState | None:
    """Return the state, or None if the bytes are malformed or incomplete."""
    if len(data) > MAX_BYTES or not data.endswith(b"\0"):
        return None
    fields = data.decode("utf-8", "surrogateescape").split("\0")
    fields.pop()
    records = [tuple(fields[at : at + _FIELDS]) for at in range(0, len(fields), _FIELDS)]
    if not 2 <= len(records) <= MAX_RECORDS or len(fields) % _FIELDS:
        return None
    first, last, rest = records[0], records[-1], records[1:-1]
    if first[:2] != ("holdfast", FORMAT) or last[:2] != ("end", str(len(rest))):
        return None
    pid = _number(first[4].removeprefix("="), 10)
    tables: dict[str, dict[str, ShellVariable]] = {"v": {}, "f": {}, "l": {}}
    single: dict[str, str] = {}
    for kind, name, attributes, sized, value in rest:
        size, _, digest = sized.partition(":")
        count = _number(size, 10)
        if count is None or len(digest) > 16:
            return None
        shown = value[1:] if value.startswith("=") else None
        if kind in tables:
            tables[kind][name] = ShellVariable(name, attributes, count, digest, shown)
        elif kind in ("c", "u") and shown is not None:
            single[kind] = shown
        else:
            return None
    return ShellState(
        pid=pid or 0,
        cwd=single.get("c"),
        umask=_number(single.get("u", ""), 8),
        variables=tables["v"],
        functions=tables["f"],
        aliases=tables["l"],
        cut=last[2] == "cut",
    )


def read(path: Path, limit: int = MAX_BYTES) -> bytes | None:
    """Return the bytes of a file that can have been replaced by anything, or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        data = b""
        while (more := os.read(fd, limit + 1 - len(data))) and len(data) <= limit:
            data += more
        return data
    except OSError:
        return None
    finally:
        os.close(fd)


class StateFile:
    """The state of one shell, of process `pid`: from its file, or the known facts without one.

    A valid file is missing before the first prompt, in a shell of a different kind, and after a hostile
    write. Nothing is kept in memory: it would be copied into every fork.
    """

    def __init__(self, path: Path, name: str = "bash") -> None:
        """Begin; `name` is the name of the shell's process: a different program can have taken its place."""
        self._path = path
        self._name = name
        self._given: dict[str, str] = {}
        self.pid: int | None = None

    def begin(self, environment: Mapping[str, str]) -> None:
        """Prepare for a new shell with this environment; the state of the last one is void."""
        with contextlib.suppress(OSError):  # the user may have put a folder there; the pid is checked as well
            self._path.unlink()
        self._given = dict(environment)

    def adopt(self, environment: Mapping[str, str]) -> None:
        """Continue with a shell that was started with this environment, or one like it."""
        self._given = dict(environment)

    def version(self) -> tuple[int, int, int]:
        """Return a version that changes whenever the shell writes its state."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return (0, 0, 0)
        return (status.st_ino, status.st_size, status.st_ctime_ns)

    def state(self, *, first: bool = False) -> ShellState:
        """Return the shell's state at its last prompt, or at its start; an empty state if not known."""
        pid = self.pid
        path = self._path.with_name(f"{self._path.name}.first") if first else self._path
        if pid is None or _command(pid) != self._name or (data := read(path)) is None:
            return ShellState()
        state = parse(data)
        return state if state is not None and state.pid == pid else ShellState()

    def exported(self) -> dict[str, str]:
        """Return the environment of a program that the shell would start now."""
        state = self.state()
        return state.exported() if state.pid else dict(self._given)

    def cwd(self) -> str:
        """Return the shell's directory as the kernel knows it, else as the shell does."""
        pid = self.pid
        path = f"/proc/{pid}/cwd"
        found = access.link(path)
        if found is None and pid is not None and (who := access.owner(pid)) is not None:
            with access.reading_as(*who):
                found = access.link(path)
        if found is not None and not found.endswith(" (deleted)"):
            return found
        return self.state().cwd or "/"


def _number(text: str, base: int) -> int | None:
    return int(text, base) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return ""

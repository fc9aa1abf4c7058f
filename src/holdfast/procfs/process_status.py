"""A parser of /proc/PID/status, see proc_pid_status(5). Pure."""

from __future__ import annotations

from holdfast.base.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Ids:
    """User or group ids of a task."""

    real: int
    effective: int
    saved: int
    filesystem: int

    @property
    def same(self) -> bool:
        """True if all four are equal."""
        return self.real == self.effective == self.saved == self.filesystem


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capability sets of a task as bits, see capabilities(7)."""

    inheritable: int
    permitted: int
    effective: int
    bounding: int
    ambient: int


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A task. `pid`, `parent` and `tracer` are as the reader's PID namespace numbers them, 0 for none.

    `inner_pids` are its pids in each namespace from the reader's to the innermost; `inner_groups` and
    `inner_sessions` likewise for process group and session.
    `anonymous`, `file` and `shared` are resident bytes. `umask` is None for a zombie. `pending` are signals
    that were not delivered yet, as bits: 1 is signal 1.
    """

    name: str
    state: str
    pid: int
    parent: int
    tracer: int
    threads: int
    umask: int | None
    uids: Ids
    gids: Ids
    groups: tuple[int, ...]
    inner_pids: tuple[int, ...]
    inner_groups: tuple[int, ...]
    inner_sessions: tuple[int, ...]
    capabilities: Capabilities
    no_new_privs: bool
    seccomp_mode: int
    seccomp_filters: int
    anonymous: int
    file: int
    shared: int
    pending: int = 0

    @property
    def inner_pid(self) -> int:
        """The pid in the innermost namespace: as the process itself sees it."""
        return self.inner_pids[-1] if self.inner_pids else self.pid

    def pid_at(self, depth: int) -> int:
        """Return the pid in the `depth`th namespace, the reader's being 1; 0 if it has none there."""
        return self.inner_pids[depth - 1] if 0 < depth <= len(self.inner_pids) else 0

    @property
    def setuid(self) -> bool:
        """True if it has ids of more than one user or group."""
        return not (self.uids.same and self.gids.same)


def field(data: bytes, name: bytes) -> bytes:
    """Return the value of one line; empty if there is none.

    For a reader that wants no more than that: to parse all of it takes ten times as long.
    """
    # A name with a newline in it is written with \n: each line is one of the kernel's.
    _, found, rest = (b"\n" + data).partition(b"\n" + name + b":")
    return rest.partition(b"\n")[0].strip() if found else b""


def parse(data: bytes) -> ProcessStatus | None:
    """Return a task's status, or None if the text is not one (the task is gone)."""
    text = data.decode("utf-8", "replace")
    lines = dict(line.split(":\t", 1) for line in text.split("\n") if ":\t" in line)
    if "Pid" not in lines or "State" not in lines:
        return None
    return ProcessStatus(
        name=lines.get("Name", ""),
        state=lines["State"][:1],
        pid=_number(lines, "Pid"),
        parent=_number(lines, "PPid"),
        tracer=_number(lines, "TracerPid"),
        threads=_number(lines, "Threads"),
        umask=_number(lines, "Umask", 8) if "Umask" in lines else None,
        uids=_ids(lines, "Uid"),
        gids=_ids(lines, "Gid"),
        groups=_numbers(lines, "Groups"),
        inner_pids=_numbers(lines, "NSpid"),
        inner_groups=_numbers(lines, "NSpgid"),
        inner_sessions=_numbers(lines, "NSsid"),
        capabilities=Capabilities(
            *(_number(lines, name, 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
        ),
        no_new_privs=lines.get("NoNewPrivs") == "1",
        seccomp_mode=_number(lines, "Seccomp"),
        seccomp_filters=_number(lines, "Seccomp_filters"),
        anonymous=_number(lines, "RssAnon") * 1024,
        file=_number(lines, "RssFile") * 1024,
        shared=_number(lines, "RssShmem") * 1024,
        pending=_number(lines, "SigPnd", 16) | _number(lines, "ShdPnd", 16),
    )


def _number(lines: dict[str, str], name: str, base: int = 10) -> int:
    words = lines.get(name, "").split(None, 1)
    try:
        return int(words[0], base) if words else 0
    except ValueError:
        return 0


def _numbers(lines: dict[str, str], name: str) -> tuple[int, ...]:
    return tuple(int(word) for word in lines.get(name, "").split() if word.isdecimal())


def _ids(lines: dict[str, str], name: str) -> Ids:
    found = _numbers(lines, name)
    return Ids(*found[:4]) if len(found) >= 4 else Ids(0, 0, 0, 0)

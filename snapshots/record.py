"""The record of a snapshot's processes at the freeze: the form of `record.json.gz`, and of its parts.

Made after the thaw from CRIU's images, which are the restored ones; the session's report about itself (its
kernels' names) is kept separate, since it can claim anything. Read by verification, by audits, and by
comparisons of snapshots. Pids are the session's. Knows no engine and no session.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import SnapshotDamaged
from holdfast.snapshots import form_number

FILE = "record.json.gz"
MAX_BYTES = 256 << 20


class RecordTooLarge(ValueError):
    """A record is larger than the limit for reading it back."""


Id = Annotated[int, Field(ge=0, lt=2**32)]
Bits = Annotated[int, Field(ge=0, lt=2**64)]
Pid = Annotated[int, Field(ge=0, lt=2**31)]
Text = Annotated[str, Field(max_length=4200)]


class _Part(BaseModel):
    """A part of the record. Fields of later versions are ignored: only common fields are ever compared."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class RecordedThread(_Part):
    """The rights of one thread; `tid` in the session.

    Ids are real, effective, saved, file system. Capability sets are one bit for each capability.
    `seccomp` is 0 without, 1 strict, 2 with `filters` filters, whose digests are known only from images, the
    oldest first. `securebits` are also known only from images. `label` is its AppArmor, SELinux or Smack
    label, empty without them; known only of threads that exist.
    """

    tid: Pid
    uids: tuple[Id, Id, Id, Id]
    gids: tuple[Id, Id, Id, Id]
    groups: list[Id] = []
    inheritable: Bits
    permitted: Bits
    effective: Bits
    bounding: Bits
    ambient: Bits
    no_new_privs: bool
    securebits: Bits | None = None
    seccomp: int
    filters: int
    filter_digests: list[str] = []
    label: Text = ""


class RecordedDescriptor(_Part):
    """One open descriptor.

    `what` is a path, the name of a memfd, a terminal's end and number, or for anything without a name the
    lowest descriptor that leads to it, as PID/FD. `offset` exists for regular files and memfd, else None.
    `flags` are the flags of open(2) with an effect that programs can see. `deleted`: its name had been
    removed.
    """

    fd: int
    kind: str
    what: Text = ""
    offset: int | None = None
    flags: int = 0
    cloexec: bool = False
    deleted: bool = False


class RecordedProcess(_Part):
    """One process. `state` is alive, stopped (by a signal) or zombie; of a zombie nothing else is known.

    `memory` is in bytes of address space, in `mappings` parts. `dumpable` as of prctl(2).
    `outside` names namespaces that are not the container's, `foreign` what leads out of its mounts;
    both are known only of processes that exist. `secrets` are names of variables it was started with that
    sound like secrets; known only from images.
    """

    pid: Pid
    ppid: Pid
    pgid: Pid
    sid: Pid
    state: str
    name: str = ""
    command: Text = ""
    executable: Text = ""
    directory: Text = ""
    root: Text = ""
    memory: int | None = None
    mappings: int | None = None
    dumpable: int | None = None
    threads: list[RecordedThread] = []
    descriptors: list[RecordedDescriptor] = []
    outside: list[Text] = []
    foreign: list[Text] = []
    secrets: list[Text] = []


class RecordedSocket(_Part):
    """A socket, by the lowest descriptor that leads to it; the name of an abstract one begins with @."""

    id: str
    kind: str
    state: str
    local: Text = ""
    local_port: int = 0
    remote: Text = ""
    remote_port: int = 0


class RecordedTerminal(_Part):
    """A terminal: its session, foreground process group, modes as digits, and size."""

    index: int
    session: Pid
    foreground: int
    modes: Text
    rows: int
    columns: int


class RecordedTree(_Part):
    """All processes of a session at one instant. `left_out` counts items beyond the limits.

    `init` are the rights of the container's own first process, known only of processes that exist.
    """

    processes: list[RecordedProcess]
    sockets: list[RecordedSocket] = []
    terminals: list[RecordedTerminal] = []
    left_out: int = 0
    init: RecordedThread | None = None


class RecordedFile(_Part):
    """A regular file that was open: its content at the freeze, or the reason it is not known."""

    path: Text
    size: int = 0
    digest: str = ""
    skipped: str = ""


class StateRecord(_Part):
    """The whole record. `kernels`, as reported by the session: names with their values' descriptions, by
    kernel."""

    format: Literal[1] = 1
    tree: RecordedTree
    files: list[RecordedFile] = []
    kernels: dict[str, dict[str, Any]] = {}


def write(folder: Path, record: StateRecord) -> None:
    """Write the file into the folder of a snapshot.

    Raises:
        TooLarge: it would be larger than the most that is read back.
        OSError: it cannot be written.
    """
    known = record.model_dump_json(exclude_defaults=True, exclude={"format"}).encode()
    data = b'{"format":%d,%b' % (record.format, known[1:])
    if len(data) > MAX_BYTES:
        raise RecordTooLarge(f"the record of its processes is larger than {MAX_BYTES >> 20} MiB")
    (folder / FILE).write_bytes(gzip.compress(data, compresslevel=1, mtime=0))


def read(folder: Path) -> StateRecord | None:
    """Read the record of a snapshot; return None if it was taken without one.

    Raises:
        SnapshotNewer: a newer version wrote it.
        SnapshotDamaged: it cannot be read, or is not valid.
    """
    try:
        with gzip.open(folder / FILE) as file:
            return StateRecord.model_validate_json(file.read(MAX_BYTES + 1))
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, ValidationError) as error:
        if isinstance(error, ValidationError) and (forms := form_number.difference(error)):
            raise form_number.refusal(folder.name, forms, "its record") from error
        raise SnapshotDamaged(f"cannot use the record of snapshot {folder.name}: it is damaged") from error

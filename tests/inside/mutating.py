"""Alters process images, and prints the judge's opinion of each; runs where the judge runs.

`python3 -c THIS sweep FOLDER MOST` sets every field of every kind of image to MOST values no session has.
`python3 -c THIS flip FOLDER SEED COUNT` damages bytes, lengths and the order of messages. `python3 -c THIS
emit FOLDER SEED COUNT` prints altered files that are not refused, for a restore. `python3 -c THIS forge
FOLDER CHANGES` prints files altered by statements: pairs of a name and some Python.

The output is one line of JSON each. The same arguments give the same alterations.
"""

from __future__ import annotations

import base64
import json
import random
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.criu.criu_images import ImageFolder
from holdfast.snapshots.checkpointer.record import ImagesUnreadable
from holdfast.snapshots.checkpointer.record.decode import decode
from holdfast.snapshots.checkpointer.record.outside import strange

# Far more than describing takes; one that takes more ends here, and its test fails.
MEMORY = 2 << 30
SECONDS = 240
JUDGED = (
    *("core", "fdinfo", "files", "fs", "ghost-file", "ids", "inventory", "memfd", "mm", "pstree"),
    *("remap-fpath", "seccomp", "tty-info"),
)
OTHERS = (
    *("fifo-data", "filelocks", "ipcns-msg", "ipcns-sem", "ipcns-shm", "ipcns-var", "pagemap"),
    *("pagemap-shmem", "pipes-data", "sk-queues", "tcp-stream", "timens", "tty-data", "cgroup"),
)
# Registers: a program may load them with any values.
REGISTERS = ("thread_info", "ti_aarch64")
NAMES = ("/proc/self/cwd/../../x", "../../x", "/proc/1/root/etc/shadow", "x" * 5000, "")
IMAGES_OF_KIND = 40
"""Enough for each kind to show all it can have."""


class Overlay:
    """The images in a folder, one of them replaced."""

    def __init__(self, base: Cached, name: str, data: bytes) -> None:
        self._base, self._name, self._data = base, name, data

    def messages(self, name: str) -> list[Any]:
        return criu_images.parse(name, self._data)[1] if name == self._name else self._base.messages(name)

    def numbered(self, kind: str) -> list[str]:
        return self._base.numbered(kind)

    def memory(self, pid: int, start: int, size: int) -> bytes:
        return self._base.memory(pid, start, size)


class Cached(ImageFolder):
    """The images in a folder, each read once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self._all: dict[str, list[Any]] = {}
        self._names: dict[str, list[str]] = {}

    def messages(self, name: str) -> list[Any]:
        if name not in self._all:
            self._all[name] = super().messages(name)
        return self._all[name]

    def numbered(self, kind: str) -> list[str]:
        if kind not in self._names:
            self._names[kind] = super().numbered(kind)
        return self._names[kind]

    def of_kind(self, kind: str) -> list[str]:
        """Return the names of its images of a kind."""
        if (self.folder / f"{kind}.img").exists():
            return [kind]
        return [name for name in self.numbered(kind) if name.rpartition("-")[0] == kind]


def judged(images: Any, before: dict[int, Any]) -> dict[str, Any]:
    """Return the judge's input: the reason of a refusal, or the processes that differ."""
    try:
        tree = decode(images, commands=False)
        told = strange(images, foreign=True)
    except ImagesUnreadable as error:
        return {"refused": str(error)}
    if told:
        return {"refused": told[0]}
    return {"processes": [one for one in tree["processes"] if before.get(one["pid"]) != one]}


def sweep(base: Cached, most: int) -> Iterator[dict[str, Any]]:
    """Try every field, with up to `most` values."""
    before = {one["pid"]: one for one in decode(base, commands=False)["processes"]}
    for kind in JUDGED:
        done: dict[str, int] = {}
        for name in base.of_kind(kind)[:IMAGES_OF_KIND]:
            magic, found = criu_images.read(base.folder / f"{name}.img")
            for entry in found:
                for path in altered(entry, ()):
                    if done.get(path, 0) < most:
                        done[path] = done.get(path, 0) + 1
                        data = criu_images.serialized(magic, found)
                        yield {"field": f"{kind}: {path}"} | judged(Overlay(base, name, data), before)


def altered(message: Any, above: tuple[str, ...]) -> Iterator[str]:
    """Alter one field after another, and undo each before the next; yield the field."""
    for field in message.DESCRIPTOR.fields:
        if field.name not in REGISTERS:
            of_kind = messages if field.type == FieldDescriptor.TYPE_MESSAGE else plain
            yield from of_kind(message, field, (*above, field.name))


def messages(message: Any, field: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the fields of a message's messages, of some of many; a missing one is added."""
    value = getattr(message, field.name)
    if field.label == FieldDescriptor.LABEL_REPEATED:
        for at, one in enumerate(value):
            if at == 0:
                yield from altered(one, path)
            elif field.name == "rlimits" and at in (7, 13, 14):  # files, nice, real-time priority
                yield from altered(one, (*path[:-1], f"rlimits[{at}]"))
    elif message.HasField(field.name):
        yield from altered(value, path)
    else:
        fill(value)
        yield f"{'.'.join(path)} added"
        message.ClearField(field.name)


def plain(message: Any, field: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield different values of a field."""
    kept = type(message)()
    kept.CopyFrom(message)
    repeated = field.label == FieldDescriptor.LABEL_REPEATED
    for value in values(field):
        try:
            if repeated:
                getattr(message, field.name)[:] = [value] * max(1, len(getattr(message, field.name)))
            else:
                setattr(message, field.name, value)
        except (ValueError, TypeError):
            continue
        yield ".".join(path)
        message.CopyFrom(kept)


def fill(message: Any) -> None:
    """Fill a message's required fields."""
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        if field.label == FieldDescriptor.LABEL_REQUIRED:
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                fill(getattr(message, field.name))
            else:
                setattr(message, field.name, values(field)[0])


def values(field: Any) -> list[Any]:
    """Yield values of a field that sessions do not have."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            names = [name[:5000] for name in NAMES]
            return [name.encode() for name in names] if field.type == FieldDescriptor.TYPE_BYTES else names
        case FieldDescriptor.CPPTYPE_BOOL:
            return [True, False]
        case FieldDescriptor.CPPTYPE_ENUM:
            return [one.number for one in field.enum_type.values]
        case FieldDescriptor.CPPTYPE_INT32:
            return [-1, 2**31 - 1, 1, 0, 99]
        case FieldDescriptor.CPPTYPE_UINT32:
            return [2**32 - 1, 8, 3, 1, 99]
        case FieldDescriptor.CPPTYPE_INT64:
            return [-1, 2**63 - 1, 1, 0, 99]
        case _:
            return [2**64 - 1, 1 << 41, 1, 0, 99]


def damaged(data: bytes, dice: random.Random, other: bytes) -> tuple[str, bytes]:
    """Return an image that no program wrote."""
    made = {
        "bits": flipped(data, dice),
        "truncated": data[: dice.randrange(len(data) + 1)],
        "longer": data + dice.randbytes(dice.randint(1, 64)),
        "a length": data[:8] + struct.pack("<I", dice.choice([0, 1, 2**16, 2**31, 2**32 - 1])) + data[12:],
        "another image": other,
        "magic": dice.randbytes(8) + data[8:],
        "first version": data[4:],
        "twice": data + data[8:],
        "many": data + data[8:] * min(500, 2_000_000 // max(1, len(data))),
    }
    how = dice.choice(sorted(made))
    return how, made[how]


def flipped(data: bytes, dice: random.Random) -> bytes:
    """Return it with a few bits changed."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 8) if data else 0):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def flip(base: Cached, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Damage images of every kind."""
    before = {one["pid"]: one for one in decode(base, commands=False)["processes"]}
    kept = {
        name: (base.folder / f"{name}.img").read_bytes() for kind in JUDGED for name in base.of_kind(kind)
    }
    for number in range(count):
        dice = random.Random(f"{seed}/{number}")
        name = dice.choice(base.of_kind(JUDGED[number % len(JUDGED)]))
        how, data = damaged(kept[name], dice, kept[dice.choice(sorted(kept))])
        yield {"field": f"{name}: {how}"} | judged(Overlay(base, name, data), before)


def emit(base: Cached, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Print altered files that the judge does not refuse, or does not read; of every kind in turn."""
    before = {one["pid"]: one for one in decode(base, commands=False)["processes"]}
    kinds = [kind for kind in JUDGED + OTHERS if base.of_kind(kind)]
    for number in range(count):
        dice = random.Random(f"{seed}/{number}")
        kind = kinds[number % len(kinds)]
        # A supervisor whose memory is damaged does not answer, which takes long to be sure of.
        first = min(int(item.pid) for item in base.messages("pstree"))
        name = dice.choice([name for name in base.of_kind(kind) if name != f"{kind}-{first}"])
        data = (base.folder / f"{name}.img").read_bytes()
        for _ in range(20):
            if kind in JUDGED:
                how, made = one_field(base, name, dice)
                if "refused" in judged(Overlay(base, name, made), before):
                    continue
            else:
                how, made = damaged(data, dice, data)
            yield {"name": f"{name}.img", "field": f"{name}: {how}", "data": base64.b64encode(made).decode()}
            break


def one_field(base: Cached, name: str, dice: random.Random) -> tuple[str, bytes]:
    """Alter one field of one message."""
    magic, found = criu_images.read(base.folder / f"{name}.img")
    entry = dice.choice(found)
    made = [
        (path, criu_images.serialized(magic, found)) for path in altered(entry, ()) if dice.random() < 0.2
    ]
    rest = (base.folder / f"{name}.img").read_bytes()[len(criu_images.serialized(magic, found)) :]
    path, data = dice.choice(made or [("nothing", criu_images.serialized(magic, found))])
    return path, data + rest


def forge(base: Cached, changes: str) -> Iterator[dict[str, Any]]:
    """Print files as someone would forge them who knows CRIU."""
    for name, change in json.loads(changes):
        whole = (base.folder / f"{name}.img").read_bytes()
        magic, found = criu_images.read(base.folder / f"{name}.img")
        rest = whole[len(criu_images.serialized(magic, found)) :]
        image: Any = {"found": found, "magic": magic}
        exec(change, image)
        data = criu_images.serialized(image["magic"], image["found"]) + rest
        yield {"name": f"{name}.img", "data": base64.b64encode(data).decode()}


def main(what: str, folder: str, *given: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    base = Cached(Path(folder))
    if what == "forge":
        made = forge(base, given[0])
    elif what == "sweep":
        made = sweep(base, int(given[0]))
    else:
        made = {"flip": flip, "emit": emit}[what](base, int(given[0]), int(given[1]))
    for line in made:
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The features of this machine that the memory of processes depends on: reported with each capture and
restore, and in a greeting.

They are read from the kernel and CRIU here, where sessions run and are restored, not on the host's side.
"""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.criu import criu

_CPUINFO = Path("/proc/cpuinfo")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_DYNSYM = 11


def look() -> dict[str, Any]:
    """Return all features, by the names of `Machine`; unknown ones are left out."""
    found: dict[str, Any] = {"page_bytes": os.sysconf("SC_PAGE_SIZE"), "has": _kernel_has()}
    found["cgroup"] = 2 if Path("/host/cgroup/cgroup.controllers").exists() else 1
    with suppress(OSError, subprocess.SubprocessError, IndexError, ValueError):
        found["processor"], found["cpu"] = cpu_flags(_CPUINFO.read_text("utf-8", "replace"))
        found.update(_xsave())
    with suppress(OSError, struct.error, ValueError):
        found["vdso"] = vdso()
    return found


def cpu_flags(text: str) -> tuple[str, list[str]]:
    """Return the model's name, and the features that every processor in /proc/cpuinfo has."""
    model, common = "", None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        match name.strip():
            case "flags" | "Features":
                flags = set(value.split())
                common = flags if common is None else common & flags
            case "model name" if not model:
                model = " ".join(value.split())[:200]
    return model, sorted(common or ())


def symbols(image: bytes) -> dict[str, int]:
    """Return the functions of a 64-bit ELF image, and their offsets.

    Raises:
        struct.error: it is not one.
    """
    start = struct.unpack_from("<Q", image, 40)[0]
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [_SECTION.unpack_from(image, start + number * size) for number in range(min(count, 100))]
    found: dict[str, int] = {}
    for section in sections:
        if section[1] != _SHT_DYNSYM or section[6] >= len(sections):
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, kind, _, _, value, _ = _SYMBOL.unpack_from(image, place)
            if kind & 15 == 2:  # STT_FUNC
                called = image[names + name : image.index(b"\0", names + name)].decode("ascii", "replace")
                if called.startswith("__"):  # the others are second names of these
                    found[called] = value
    return found


def _kernel_has() -> list[str]:
    found = []
    if Path("/proc/self/ns/time").exists():
        found.append("time_namespace")
    if Path("/proc/sys/vm/unprivileged_userfaultfd").exists():
        found.append("userfaultfd")
    if Path("/proc/self/seccomp").exists() or "Seccomp:" in Path("/proc/self/status").read_text():
        found.append("seccomp")
    return sorted(found)


def _xsave() -> dict[str, int]:
    # CRIU asks the processor itself; no other tool here can.
    from pycriu import images

    with tempfile.TemporaryDirectory(dir="/run") as folder:
        subprocess.run(
            [criu.CRIU, "cpuinfo", "dump", "--no-default-config", "-D", folder],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )
        with (Path(folder) / "cpuinfo.img").open("rb") as stream:
            entries = images.load(stream)["entries"]
    features = entries[0].get("x86_entry") or [{}]
    names = {"xfeatures_mask": "xfeatures", "xsave_size": "xsave_bytes"}
    return {ours: int(features[0][theirs]) for theirs, ours in names.items() if theirs in features[0]}


def vdso() -> dict[str, Any]:
    """Return the kernel's mapping in each process, as in this one: sizes in bytes, and the functions."""
    code, data = (0, 0), 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, _, name = line.partition(" ")
        start, end = (int(part, 16) for part in place.split("-"))
        if name.endswith("[vdso]"):
            code = (start, end)
        elif "[vvar" in name:
            data += end - start
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(code[0])
        image = memory.read(code[1] - code[0])
    return {"code": len(image), "data": data, "symbols": symbols(image)}


@functools.cache
def versions() -> dict[str, object]:
    """Return the versions of CRIU and of the kernel, the kind of machine, and the features that memory
    depends on."""
    printed = subprocess.run(["/usr/sbin/criu", "--version"], capture_output=True, text=True, check=True)
    system = os.uname()
    return {
        "criu": printed.stdout.partition("Version:")[2].split()[0],
        "kernel": system.release,
        "machine": system.machine,
        "about": look(),
    }

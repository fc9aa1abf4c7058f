"""Machine properties that programs learn at start and keep in memory, even when moved to another machine.
Pure.

Processor features are the names of /proc/cpuinfo. A machine must have every feature of the earlier machine
that stands for instructions a program can use; most others concern the kernel (mitigations, virtualization)
and are not compared. The choice follows what CRIU compares (`criu cpuinfo check`), and newer families.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from holdfast.base.text import plain

_INSTRUCTIONS = """
fpu tsc cx8 sep cmov clflush mmx fxsr syscall mmxext rdtscp 3dnowext 3dnow nopl pni pclmulqdq cx16
movbe popcnt aes f16c fma rdrand abm misalignsse 3dnowprefetch xop fma4 tbm fsgsbase hle rtm mpx
rdseed adx clflushopt clwb xgetbv1 gfni rdpid movdiri movdir64b enqcmd serialize waitpkg cldemote
tsxldtrk lahf_lm clzero cmpccxadd raoint ospke
"""
_FAMILIES = ("avx", "amx", "sse", "ssse", "sha", "sm3", "sm4", "bmi", "xsave", "vaes", "vpclmul", "apx")
# A processor without it runs the same programs, only it saves less on its own.
_HARMLESS = frozenset({"xsaveerptr"})

# Functions CRIU redirects to the new kernel's vDSO when the old one's layout differs.
_REDIRECTED = """
__vdso_clock_gettime __vdso_getcpu __vdso_gettimeofday __vdso_time
__kernel_clock_getres __kernel_clock_gettime __kernel_gettimeofday __kernel_rt_sigreturn
"""


def _shown(value: object) -> object:
    """Remove terminal control characters: the text can come from elsewhere, and is shown in reasons."""
    return plain(value, 200) if isinstance(value, str) else value


Short = Annotated[str, BeforeValidator(_shown), Field(max_length=200)]
_Bytes = Annotated[int, Field(ge=0, lt=2**63)]


class Vdso(BaseModel):
    """The functions a kernel maps into each process: bytes of code and data, and where each one begins."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    code: _Bytes
    data: _Bytes
    symbols: Annotated[dict[Short, _Bytes], Field(max_length=200)]

    def stray(self, other: Vdso) -> list[str]:
        """Return the functions that would lead to the wrong code in a process that was moved to `other`.

        Where sizes match and the functions CRIU knows are in the same places, it puts the new code where the
        old was. Otherwise it keeps the old code, and redirects the functions it knows to the new; the others
        then find no data and ask the kernel instead (`getrandom`), or return nothing (`clock_getres`).
        """
        if (self.code, self.data, self._known()) != (other.code, other.data, other._known()):
            return []
        return sorted(name for name, at in self.symbols.items() if other.symbols.get(name) != at)

    def _known(self) -> dict[str, int]:
        return {name: at for name, at in self.symbols.items() if name in _REDIRECTED.split()}


class MachineFeatures(BaseModel):
    """The properties of a machine on which memory depends. Empty or None: not known.

    `xfeatures` are the register sets a processor saves, as bits; `xsave_bytes` what they take in memory.
    `has` names things of the kernel: `time_namespace`, `userfaultfd`.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    arch: Short = ""
    kernel: Short = ""
    criu: Short = ""
    processor: Short = ""
    cpu: Annotated[list[Short], Field(max_length=2000)] = []
    xfeatures: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    xsave_bytes: _Bytes | None = None
    page_bytes: _Bytes | None = None
    cgroup: _Bytes | None = None
    has: Annotated[list[Short], Field(max_length=50)] = []
    vdso: Vdso | None = None


def missing_instructions(was: MachineFeatures, now: MachineFeatures) -> list[str]:
    """Return the features that programs started on `was` can use and `now` lacks; empty if either is not
    known."""
    if not was.cpu or not now.cpu:
        return []
    lacking = set(was.cpu) - set(now.cpu)
    if was.arch in ("x86_64", "i686", ""):
        lacking = {name for name in lacking if _instruction(name)}
    return sorted(lacking)


def order(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, to order versions by."""
    found = re.match(r"\D*(\d{1,6})(?:\.(\d{1,6}))?", version)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _instruction(name: str) -> bool:
    return (name in _INSTRUCTIONS.split() or name.startswith(_FAMILIES)) and name not in _HARMLESS

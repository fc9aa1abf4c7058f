"""System calls that a seccomp filter permits, determined from its program. Pure.

A filter is a program of classic BPF over the number of a system call, its architecture and its arguments
(seccomp(2)). It is followed for one call at a time; omitted arguments can have any value: where a jump
depends on them, both branches are followed. So a call reported as refused is always refused.

The calls examined are those by which a process could reach around its container. Every profile that
sessions have had refuses them; its other refusals are its own matter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

MAX_STEPS = 200_000
_PERMITS = frozenset({0x7FFF0000, 0x7FFC0000, 0x7FF00000, 0x7FC00000})
"""Allow, log, and the actions that leave the decision to another process (linux/seccomp.h)."""
X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
"""As in the kernel's audit (linux/audit.h)."""
X32 = 0x40000000
"""Added to numbers of x86-64 by programs with short pointers."""

# Numbers for x86-64, i386, ARM 64, ARM; -1: no such call.
_CALLS: Mapping[str, tuple[int, int, int, int]] = {
    "mount": (165, 21, 40, 21),
    "umount2": (166, 52, 39, 52),
    "pivot_root": (155, 217, 41, 218),
    "unshare": (272, 310, 97, 337),
    "setns": (308, 346, 268, 375),
    "open_by_handle_at": (304, 342, 265, 371),
    "bpf": (321, 357, 280, 386),
    "perf_event_open": (298, 336, 241, 364),
    "init_module": (175, 128, 105, 128),
    "finit_module": (313, 350, 273, 379),
    "delete_module": (176, 129, 106, 129),
    "kexec_load": (246, 283, 104, 347),
    "reboot": (169, 88, 142, 88),
    "swapon": (167, 87, 224, 87),
    "swapoff": (168, 115, 225, 115),
    "acct": (163, 51, 89, 51),
    "settimeofday": (164, 79, 170, 79),
    "clock_settime": (227, 264, 112, 262),
    "quotactl": (179, 131, 60, 131),
    "syslog": (103, 103, 116, 103),
    "vhangup": (153, 111, 58, 111),
    "add_key": (248, 286, 217, 309),
    "request_key": (249, 287, 218, 310),
    "keyctl": (250, 288, 219, 311),
    "userfaultfd": (323, 374, 282, 388),
    "iopl": (172, 110, -1, -1),
    "ioperm": (173, 101, -1, -1),
    "kexec_file_load": (320, -1, 294, -1),
    "io_uring_setup": (425, 425, 425, 425),
    "io_uring_enter": (426, 426, 426, 426),
    "io_uring_register": (427, 427, 427, 427),
    "open_tree": (428, 428, 428, 428),
    "move_mount": (429, 429, 429, 429),
    "fsopen": (430, 430, 430, 430),
    "fsconfig": (431, 431, 431, 431),
    "fsmount": (432, 432, 432, 432),
    "fspick": (433, 433, 433, 433),
    "clone3": (435, 435, 435, 435),
    "mount_setattr": (442, 442, 442, 442),
    "memfd_secret": (447, 447, 447, -1),
}
_CLONE = (56, 120, 220, 120)
_NAMESPACES = (0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x00020000)
_SOCKET = (41, 359, 198, 281)
_FAMILIES = (15, 21, 29, 30, 31, 38, 40, 44)
"""Keys, RDS, CAN, TIPC, Bluetooth, the kernel's crypto, the hypervisor, XDP (address_families(7))."""
_MACHINES: Mapping[str, tuple[tuple[int, int], ...]] = {
    "x86_64": ((X86_64, 0), (I386, 1)),
    "aarch64": ((AARCH64, 2), (ARM, 3)),
}


class FilterUnreadable(Exception):
    """The kernel would not accept the program, or it is too long to be followed."""


def lets_through(program: bytes, machine: str) -> list[str]:
    """Return the names of escape-prone calls that a filter does not always refuse.

    Raises:
        Unreadable: its effect cannot be determined, at all or for this kind of machine.
    """
    if machine not in _MACHINES:
        raise FilterUnreadable(f"for {machine}")
    code = _decoded(program)
    found: list[str] = []
    for architecture, column in _MACHINES[machine]:
        for name, numbers in _CALLS.items():
            variants = [numbers[column]] + ([numbers[column] | X32] if architecture == X86_64 else [])
            if numbers[column] >= 0 and any(_permits(code, architecture, number) for number in variants):
                found.append(name)
        if any(_permits(code, architecture, _CLONE[column], {0: flag}) for flag in _NAMESPACES):
            found.append("clone of namespaces")
        if any(_permits(code, architecture, _SOCKET[column], {0: family}) for family in _FAMILIES):
            found.append("sockets of unexpected families")
    return list(dict.fromkeys(found))


def _permits(
    code: list[tuple[int, int, int, int]],
    architecture: int,
    number: int,
    arguments: Mapping[int, int] | None = None,
) -> bool:
    data = {0: number, 4: architecture}
    for index, value in (arguments or {}).items():
        data |= {16 + 8 * index: value & 0xFFFFFFFF, 20 + 8 * index: value >> 32}
    return any(action & 0xFFFF0000 in _PERMITS for action in _actions(code, data))


def _decoded(program: bytes) -> list[tuple[int, int, int, int]]:
    if not program or len(program) % 8 or len(program) > 8 * 4096:
        raise FilterUnreadable("of an invalid length")
    return [(op, jt, jf, k) for op, jt, jf, k in struct.iter_unpack("<HBBI", program)]


def _actions(code: list[tuple[int, int, int, int]], data: Mapping[int, int]) -> Iterator[int]:
    """Return all values that the program can return. Registers and memory of unknown content are None."""
    waiting: list[tuple[int, int | None, int | None, tuple[int | None, ...]]] = [(0, 0, 0, (None,) * 16)]
    seen = set(waiting)
    steps = 0
    while waiting:
        at, a, x, memory = waiting.pop()
        while True:
            steps += 1
            if steps > MAX_STEPS or at >= len(code):
                raise FilterUnreadable("without an end")
            op, jt, jf, k = code[at]
            at += 1
            if op & 7 == 6:  # return
                result = k if op & 0x18 == 0 else a
                yield 0x7FFF0000 if result is None else result
                break
            if op & 7 == 5:
                targets = _targets(op, jt, jf, k, a, x)
                for target in targets[1:]:
                    state = (at + target, a, x, memory)
                    if state not in seen:
                        seen.add(state)
                        waiting.append(state)
                at += targets[0]
                continue
            a, x, memory = _stepped(op, k, a, x, memory, data)


def _targets(op: int, jt: int, jf: int, k: int, a: int | None, x: int | None) -> list[int]:
    kind = op & 0xF0
    if kind == 0x00:
        return [k]
    other = x if op & 8 else k
    if a is None or other is None:
        return [jt, jf]
    tests = {0x10: a == other, 0x20: a > other, 0x30: a >= other, 0x40: bool(a & other)}
    if kind not in tests:
        raise FilterUnreadable("with an invalid jump")
    return [jt if tests[kind] else jf]


def _stepped(
    op: int, k: int, a: int | None, x: int | None, memory: tuple[int | None, ...], data: Mapping[int, int]
) -> tuple[int | None, int | None, tuple[int | None, ...]]:
    match op & 7, op & 0xE0:
        case 0, 0x20:  # a word of the call's data
            return data.get(k), x, memory
        case ((0 | 1), 0x80):  # its length
            return (64, x, memory) if op & 7 == 0 else (a, 64, memory)
        case (0 | 1) as which, 0x00:
            return (k, x, memory) if which == 0 else (a, k, memory)
        case (0 | 1) as which, 0x60 if k < 16:
            return (memory[k], x, memory) if which == 0 else (a, memory[k], memory)
        case (2 | 3) as which, _ if k < 16:
            return a, x, (*memory[:k], a if which == 2 else x, *memory[k + 1 :])
        case 4, _:
            return _computed(op & 0xF0, a, x if op & 8 else k), x, memory
        case 7, _ if op in (0x07, 0x87):
            return (a, a, memory) if op & 0xF8 == 0 else (x, x, memory)
    raise FilterUnreadable("with an invalid instruction")


def _computed(kind: int, a: int | None, b: int | None) -> int | None:
    if kind == 0x50 and 0 in (a, b):
        return 0
    if a is None or (b is None and kind != 0x80):
        return None
    b = b or 0
    results = {
        0x00: a + b, 0x10: a - b, 0x20: a * b, 0x40: a | b, 0x50: a & b, 0x60: a << min(b, 32),
        0x70: a >> min(b, 32), 0x80: -a, 0xA0: a ^ b, 0x30: a // b if b else 0, 0x90: a % b if b else 0,
    }  # fmt: skip
    if kind not in results:
        raise FilterUnreadable("with an invalid operation")
    return results[kind] & 0xFFFFFFFF


def weak(programs: Mapping[str, bytes], used: Iterable[str], machine: str) -> Iterator[tuple[str, str]]:
    """Return the filters in use that permit too much, by digest, with a description."""
    for digest in dict.fromkeys(used):
        try:
            if digest not in programs:
                raise FilterUnreadable("that is missing")
            found = lets_through(programs[digest], machine)
        except FilterUnreadable as error:
            yield digest, f"is under a seccomp filter {error}"
            continue
        if found:
            more = f" and {len(found) - 4} more" if len(found) > 4 else ""
            yield digest, f"is under a seccomp filter that lets through {', '.join(found[:4])}{more}"

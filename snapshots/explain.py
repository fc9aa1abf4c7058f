"""Why a live capture or restore did not work, in words: from CRIU's error lines to a reason and advice.

Pure. The strings are those of CRIU 4.2 and 4.3; a line that is not known is passed on as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """What is in the way, and what to do about it. `no_space`: the state directory is full."""

    text: str
    advice: str
    no_space: bool = False
    known: bool = True


# First match wins: from what says most to what says least.
_KNOWN: tuple[tuple[str, Reason], ...] = (
    (
        r"No space left on device|Error writing pages|Disk quota exceeded",
        Reason(
            "there is no space left in the state directory",
            "make room, or set HOLDFAST_HOME elsewhere",
            no_space=True,
        ),
    ),
    (
        r"io_uring",
        Reason("a process uses io_uring, which cannot be captured", "start it with io_uring switched off"),
    ),
    (
        r"Unseizable non-zombie|pending SIGTRAP|ptrace.*Operation not permitted",
        Reason("a process is being traced by a debugger or strace", "detach the debugger, then try again"),
    ),
    (
        r"nested (\w+) namespace",
        Reason(
            "a process runs in an inner sandbox with namespaces of its own",
            "start it without its inner sandbox, for a browser `--no-sandbox`",
        ),
    ),
    (
        r"half of stream unix connection|name-less external socket|External socket is used",
        Reason(
            "a process holds a unix socket whose other end is outside the session",
            "close that connection (for one, of a mounted socket), then try again",
        ),
    ),
    (
        r"Can't dump that handle|fsnotify",
        Reason(
            "a process watches files in a way this CRIU cannot capture",
            "CRIU 4.3 can: `holdfast image build`",
        ),
    ),
    (
        r"ctty inheritance detected",
        Reason(
            "a program has opened /dev/tty, as prompts for passwords of ssh, sudo, openssl and getpass do",
            "answer it or end it, then try again",
        ),
    ),
    (
        r"Can't get rlimit \d+: Operation not permitted",
        Reason(
            "a program runs that has changed its user (su, sudo), which cannot be looked into",
            "let it end, then try again",
        ),
    ),
    (
        r"Unsupported proto (\d+) for socket",
        Reason("a process uses a network protocol that cannot be captured", "stop it, then try again"),
    ),
    (
        r"Can't dump ghost file|increase limit",
        Reason("a process holds a deleted file of more than 256 MiB open", "close that file, then try again"),
    ),
    (
        r"Can't dump file \d+ of that type \[\w+\] \((.+?)\)",
        Reason("a process holds something open that cannot be captured", "stop that process, then try again"),
    ),
    (
        r"outside of its pid namespace|A session leader of",
        Reason("a process was started from outside of the session", "end processes begun with `docker exec`"),
    ),
    (
        r"unsupported bits|xsave size mismatch|instruction capabilities do not match",
        Reason(
            "this processor lacks features the captured processes use",
            "restore on a machine of the same kind",
        ),
    ),
    (
        r"bad size|bad build-ID|bad mode",
        Reason(
            "a file that a process had open is not as it was",
            "check mounted folders for changes since the capture",
        ),
    ),
    (
        r"File exists.*pid|already exist|Can't fork for (\d+)",
        Reason("a process id of the snapshot is taken in the new container", "try again"),
    ),
    (
        r"Cannot allocate memory",
        Reason("there is not enough memory", "free memory, or raise the session's `--memory`"),
    ),
)


def explain(errors: list[str]) -> Reason:
    """The reason behind CRIU's error lines."""
    for pattern, reason in _KNOWN:
        for line in errors:
            found = re.search(pattern, line)
            if found is not None:
                return _with_detail(reason, found)
    telling = [line for line in errors if not _NOISE.search(line)]
    last = telling[0] if telling else (errors[-1] if errors else "it gave no reason")
    return Reason(
        f"CRIU says: {last.strip()}",
        "`holdfast doctor` shows whether live snapshots work at all here",
        known=False,
    )


# Printed in every run on some machines, or only repeating that something failed before.
_NOISE = re.compile(
    r"Unable to create tun|RLIMIT_NOFILE for self|Dumping FAILED|Restoring FAILED|action.scripts|hold exited"
)


def _with_detail(reason: Reason, found: re.Match[str]) -> Reason:
    if not found.groups() or not found.group(1):
        return reason
    return Reason(f"{reason.text} ({found.group(1)})", reason.advice, reason.no_space)

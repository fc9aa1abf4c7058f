"""Explanation of a failed live capture or restore: CRIU's error lines become a cause, a reason and advice.

Pure. The strings are CRIU 4.2's and 4.3's, the wording is the survivability report's; the process and
descriptor concerned are also taken from the lines. Of the known patterns the first match counts: the most
specific come first. An unknown line is passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE

_PROCESS = (
    r"\(pid: (\d+)\) failed",
    r"Unseizable non-zombie (\d+)",
    r"dump the (\d+) thread",
    r"namespace for (\d+)",
    r"on pid (\d+)",
    r"for pid (\d+)",
    r"SEIZE (\d+):",
)
_DESCRIPTOR = (r"Can't dump file (\d+) of that type", r"for fd=(\d+)", r"fd descriptor (\d+) on pid")


@dataclass(frozen=True, slots=True)
class Reason:
    """An obstacle, and its remedy.

    `kind` is a key of the survivability catalogue, or empty. `no_space`: the state directory is full.
    `passing`: it can well have disappeared shortly after. `pid` and `fd` are the session's own, None if not
    given.
    """

    text: str
    advice: str
    kind: str = ""
    no_space: bool = False
    known: bool = True
    passing: bool = False
    pid: int | None = None
    fd: int | None = None


def explain(errors: list[str]) -> Reason:
    """Return the reason behind CRIU's error lines."""
    for known in KNOWN:
        for line in errors:
            found = re.search(known.pattern, line)
            if found is not None:
                return _located(_reason(known, found), errors)
    telling = [line for line in errors if not re.search(NOISE, line)]
    reason = Reason(
        f"CRIU says: {telling[0].strip()}" if telling else "CRIU gave no reason",
        "`holdfast doctor` shows whether live snapshots work at all here",
        known=False,
        passing=not telling,
    )
    return _located(reason, errors)


def named(reason: Reason, names: Mapping[tuple[int, int | None], str]) -> Reason:
    """Add the process's command and the descriptor's target to the reason, where they are known."""
    if reason.pid is None:
        return reason
    who = names.get((reason.pid, None), "")
    what = names.get((reason.pid, reason.fd), "") if reason.fd is not None else ""
    process = f"{who} (pid {reason.pid})" if who else f"process {reason.pid}"
    where = f", descriptor {reason.fd}" if reason.fd is not None else ""
    return replace(
        reason, text=f"{reason.text} - in {process}{where}{f', {what}' if what and what != who else ''}"
    )


def _reason(known: KnownPattern, found: re.Match[str]) -> Reason:
    kind = CATALOGUE.get(known.kind)
    text = known.text or (f"a process {kind.reason}" if kind is not None else "")
    advice = known.advice or (kind.advice if kind is not None else "")
    if found.groups() and found.group(1):
        text = f"{text} ({found.group(1)})"
    return Reason(text, advice, known.kind, no_space=known.no_space, passing=known.passing)


def _located(reason: Reason, errors: list[str]) -> Reason:
    return replace(reason, pid=_number(_PROCESS, errors), fd=_number(_DESCRIPTOR, errors))


def _number(patterns: tuple[str, ...], errors: list[str]) -> int | None:
    for pattern in patterns:
        for line in errors:
            found = re.search(pattern, line)
            if found is not None:
                return int(found[1])
    return None


class KnownPattern(NamedTuple):
    """A pattern. If `text` or `advice` is empty, the catalogue's wording for `kind` is used."""

    pattern: str
    kind: str = ""
    text: str = ""
    advice: str = ""
    no_space: bool = False
    passing: bool = False


_AGAIN = "try again"

KNOWN: tuple[KnownPattern, ...] = (
    KnownPattern(
        r"No space left on device|Error writing pages|Disk quota exceeded",
        text="there is no space left in the state directory",
        advice="make room, or set HOLDFAST_HOME elsewhere",
        no_space=True,
    ),
    KnownPattern(
        r"restore: not done after (\d+ s)",
        text="CRIU hung and was ended",
        advice=_AGAIN,
        passing=True,
    ),
    # They are counted by user of the host. CRIU takes one, and so does each supervisor that watches files.
    KnownPattern(
        r"Can't create inotify: Too many open files",
        text="the user that runs it has no inotify instance left on this machine",
        advice="end programs that watch files, or `sysctl fs.inotify.max_user_instances=1024` on the host",
        passing=True,
    ),
    # The kernel does not pass the descriptor of a ring to another process.
    KnownPattern(r"io_uring|send_fds failed \(-22\)", "io_uring"),
    KnownPattern(r"pending SIGTRAP", "trap"),
    KnownPattern(r"Unseizable non-zombie \d+ found, state D|Timeout reached. Try to interrupt", "stuck"),
    # The survey has found none: it is one that has begun since, and may end as soon.
    KnownPattern(
        r"Unseizable non-zombie|ptrace.*Operation not permitted|another one traces", "traced", passing=True
    ),
    KnownPattern(r"nested (\w+?)(?:_for_children)? namespace", "inner_namespace"),
    KnownPattern(
        r"Nested mount namespaces|doesn't have a proper root mount|IP tool failed", "inner_namespace"
    ),
    KnownPattern(
        r"half of stream unix connection|name-less external socket|External socket is used|"
        r"Unix socket \d+ (?:without peer|with unreachable peer)",
        "unix_outside",
    ),
    KnownPattern(
        r"write queue on an in-flight socket|closed in-flight socket|In-flight connection on non-listening",
        "unix_waiting",
        passing=True,
    ),
    KnownPattern(
        r"connections to a unix socket always wait to be accepted \((.*)\)",
        "unix_waiting",
        text="at no instant had a unix server accepted all waiting connections",
        advice="try again when the server is less busy",
        passing=True,
    ),
    KnownPattern(r"Dangling connection", "unix_outside", passing=True),
    KnownPattern(
        r"In-flight connection \(l\)",
        "connection_waiting",
        text="a connection was about to be accepted",
        advice=_AGAIN,
        passing=True,
    ),
    KnownPattern(r"The socket has data to read", "netlink_unread", passing=True),
    KnownPattern(r"corked dgram socket", "datagram_corked", passing=True),
    KnownPattern(
        r"Zombie(?:s with)? threads?(?: not supported| are not supported)|found while seizing|"
        r"Zombie with children",
        "headless",
        passing=True,
    ),
    KnownPattern(
        r"Unexpected \d+ task interruption|can't wait task|Uncollected thread|Too many threads discovered|"
        r"task not stopped after seize|Thread \d+ (?:is not in collected|was not resumed)|"
        r"can't (?:read|parse) (?:signfo|stopped siginfo)|Can't read link for pid|Can't get stat on",
        text="processes began or ended while they were being stopped",
        advice=_AGAIN,
        passing=True,
    ),
    KnownPattern(
        r"Individually stopped threads",
        text="a process has single threads stopped, as a debugger does",
        advice="let it continue, or end it",
    ),
    KnownPattern(r"Can't open file proc/\d+/task|Conflict with a dead task", "proc_file_gone"),
    KnownPattern(r"Can't dump that handle|Unable to open inotify|fsnotify", "watch_gone"),
    KnownPattern(
        r"ctty inheritance detected|dangling tty",
        text="a program holds a terminal whose controlling process is not known (/dev/tty)",
        advice="answer or end the program, then try again",
    ),
    KnownPattern(
        r"queued data overflow",
        text="more output waits in a terminal than can be kept",
        advice="read from that terminal, then try again",
        passing=True,
    ),
    KnownPattern(
        r"Can't get rlimit \d+: Operation not permitted",
        "other_user",
        text="a running program has changed its user (su, sudo) and cannot be inspected",
        advice="let it end, then try again",
    ),
    KnownPattern(r"Unsupported proto (\d+) for socket|Unsupported socket (?:family|type)", "socket_foreign"),
    KnownPattern(r"Unknown socket collected|Groups above 32|Multiple MC membership", "socket_foreign"),
    KnownPattern(
        r"More than 1 SCM|Control messages in queue|Unexpected 2nd SCM",
        text="descriptors that were sent over a unix socket have not been received yet",
        advice=_AGAIN,
        passing=True,
    ),
    KnownPattern(r"Can't get \d+:\d+ opt: Bad file descriptor|ptmx index: Bad file descriptor", "path_only"),
    KnownPattern(r"Can't dump ghost file|increase limit", "deleted_file_large"),
    KnownPattern(r"Can't lookup mount|overmounted mounts", "nowhere"),
    KnownPattern(
        r"Can't create link remap|Can't link remap|trim failed",
        text="a file that was deleted while open cannot be given a name again",
        advice="close that file, then try again",
    ),
    KnownPattern(r"pidfd pid .* not a part of process tree|PIDFD_THREAD", "pidfd_outside"),
    KnownPattern(r"Can't dump file \d+ of that type \[\w+\] \((chr .+?)\)|dump tun link", "device_hardware"),
    KnownPattern(
        r"Can't dump file \d+ of that type \[\w+\] \(anon (?:anon_inode:)?\[?(.+?)\]?\)|BPF", "kernel_object"
    ),
    KnownPattern(
        r"Can't dump file \d+ of that type \[\w+\] \((.+?)\)",
        text="a process holds something open that cannot be captured",
        advice="stop that process, then try again",
    ),
    KnownPattern(
        r"Escaped/closed fd descriptor|Dump eventpoll \(pid: \d+\) failed", "poll_lost", passing=True
    ),
    KnownPattern(r"Unknown shit|mapfile link|Unsupported mapping|device mapping", "device_memory"),
    KnownPattern(
        r"SysVIPC shmem map|shmem .*with a (?:tail )?hole",
        text="a process uses System V shared memory in a way that cannot be captured",
        advice="end that process",
    ),
    KnownPattern(
        r"packetized mode for pipes",
        text="a process uses a pipe in packet mode (O_DIRECT)",
        advice="end that process",
    ),
    KnownPattern(r"outside of the session's tree: (.*)", "outside", passing=True),
    KnownPattern(
        r"the copy of a process (?:ended before|could not be made)",
        text="memory could not be copied while the session ran",
        advice=_AGAIN,
        passing=True,
    ),
    KnownPattern(
        r"waits for a child of vfork",
        "stuck",
        text="at every instant, one of its programs was about to start another",
        advice="try again when it starts fewer programs, or end one that never starts its own",
        passing=True,
    ),
    # The survey has found none that remains in one.
    KnownPattern(r"in an uninterruptible sleep", "stuck", passing=True),
    KnownPattern(r"does not stop", "stuck"),
    KnownPattern(r"Can't find a session leader for|Can't figure out which sid", "adopted"),
    KnownPattern(
        r"outside of its pid namespace",
        "outside",
        text="a process was started from outside of the session",
        advice="end processes begun with `docker exec`",
    ),
    KnownPattern(
        r"unsupported bits|xsave size mismatch|instruction capabilities do not match|FPU feature required",
        text="this processor lacks features the captured processes use",
        advice="restore on a machine of the same kind",
    ),
    KnownPattern(
        r"bad size|bad build-ID|bad mode",
        text="a file that a process had open has changed",
        advice="check mounted folders for changes since the capture",
    ),
    KnownPattern(
        r"File exists.*pid|already exist|Can't fork for (\d+)",
        text="a process id of the snapshot is taken in the new container",
        advice=_AGAIN,
    ),
    KnownPattern(
        r"Cannot allocate memory|Out of memory",
        text="there is not enough memory",
        advice="free memory, or raise the session's `--memory`",
    ),
)

# Printed in every run on some machines, or only repeats an earlier failure.
NOISE = (
    r"Unable to create tun|RLIMIT_NOFILE for self|Dumping FAILED|Restoring FAILED|action.scripts|hold exited|"
    r"exited, status=|cgroupd|uffd: (PID recv|recv_fd)"
)

"""The permitted rights of a session's processes, and a check that a snapshot's stay within them. Pure.

A process image says with which rights the process is to run, and the checkpointer could grant it any. The
limit for a session is its container's first process: nothing in it can gain more on its own. Ids are not
judged: a setuid program can turn any of them into any other, within these rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.snapshots.record import RecordedProcess, RecordedThread, RecordedTree

# By number, capabilities(7).
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *(
        "LINUX_IMMUTABLE",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_ADMIN",
        "NET_RAW",
        "IPC_LOCK",
        "IPC_OWNER",
    ),
    *(
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_CHROOT",
        "SYS_PTRACE",
        "SYS_PACCT",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_NICE",
    ),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL"),
    *("SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ"),
    *("PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)
_SETS = ("bounding", "permitted", "effective", "inheritable", "ambient")
_FILTER = 2
"""The kernel's number for seccomp filters."""
# A restored tree has a time namespace and an IPC namespace of its own; its cgroup namespace is the host's
# view of the same cgroups, which are compared by path.
_ITS_OWN = frozenset({"time", "ipc", "cgroup", "time_for_children"})
_NO_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ProcessPolicy:
    """Capabilities as bits; how many seccomp filters at least; whether no_new_privs must be set.

    `label` is the security label that every thread must have, None where labels are not known (in images).
    """

    capabilities: int
    filters: int = 1
    no_new_privs: bool = False
    label: str | None = None

    @classmethod
    def of(cls, names: Iterable[str]) -> ProcessPolicy:
        """Return the policy of a container made with these capabilities."""
        return cls(sum(1 << CAPABILITIES.index(name) for name in names))

    def narrowed(self, init: RecordedThread) -> ProcessPolicy:
        """Return the policy limited to the rights of the container's first process."""
        return ProcessPolicy(
            self.capabilities & init.bounding,
            max(self.filters, init.filters),
            self.no_new_privs or init.no_new_privs,
            init.label,
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """A process that must not run, and why."""

    pid: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name}) {self.text}" if self.pid else f"it {self.text}"


def judge(tree: RecordedTree, policy: ProcessPolicy) -> list[Violation]:
    """Return all violations of the policy in a tree, by process; at most one line for each kind."""
    if not tree.processes:
        return [Violation(0, "", "cannot be checked: it is missing")]
    found = [violation for process in tree.processes for violation in _of_process(process, policy)]
    if tree.left_out:
        found.append(Violation(0, "", "and others are too many to be checked"))
    return found


def judge_running(tree: RecordedTree, policy: ProcessPolicy) -> list[Violation]:
    """Judge existing processes; the first process of their container, also judged, bounds them."""
    if tree.init is None:
        return [Violation(1, "init", "is gone")]
    first = [Violation(1, "init", text) for text in _of_thread(tree.init, policy)]
    return first + judge(tree, policy.narrowed(tree.init))


def strange(values: Iterable[object]) -> list[Violation]:
    """Return the images' requests beyond rights, as the checkpointer reports them; all are forbidden."""
    return [Violation(0, "", str(text)) for text in values]


def _of_process(process: RecordedProcess, policy: ProcessPolicy) -> Iterator[Violation]:
    if process.state == "zombie":
        return
    if not process.threads:
        yield Violation(process.pid, process.name, "does not declare the rights it runs with")
    said: set[str] = set()
    for thread in process.threads:
        for text in _of_thread(thread, policy):
            if text not in said:
                said.add(text)
                yield Violation(process.pid, process.name, text)
    outside = [name for name in process.outside if name not in _ITS_OWN]
    if outside:
        yield Violation(process.pid, process.name, f"is not in the session's own {', '.join(outside)}")
    if process.foreign:
        listed = ", ".join(process.foreign[:3])
        yield Violation(process.pid, process.name, f"holds resources outside the session: {listed}")


def _of_thread(thread: RecordedThread, policy: ProcessPolicy) -> Iterator[str]:
    for name in _SETS:
        beyond = getattr(thread, name) & ~policy.capabilities
        if beyond:
            yield f"has more {name} capabilities than a session: {_names(beyond)}"
    if thread.seccomp != _FILTER or thread.filters < policy.filters:
        yield f"is under {thread.filters} of the {policy.filters} seccomp filters of a session"
    if policy.no_new_privs and not thread.no_new_privs:
        yield "can gain privileges (no_new_privs is not set)"
    if policy.label is not None and thread.label != policy.label:
        yield f"has the security label {thread.label[:100]!r}, not the session's {policy.label[:100]!r}"
    if _NO_ID in (*thread.uids, *thread.gids):
        yield "has an invalid id"


def _names(bits: int) -> str:
    named = [name for number, name in enumerate(CAPABILITIES) if bits >> number & 1]
    unknown = bits >> len(CAPABILITIES)
    return ", ".join([*named[:5], *(["…"] if len(named) > 5 else []), *(["others"] if unknown else [])])

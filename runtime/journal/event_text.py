"""Events and journal entries as sentences, for people and for an agent's context.

Their contents come from sessions and can be anything; the caller makes them safe to show.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.store.entry import Entry

_WOKEN = {
    "started": "began",
    "restored": "was restored, and continues here",
    "resumed": "continues after a snapshot",
    "aborted": "continues after a snapshot that failed",
}
_SLEEPS = {"idle": ": it was idle, and wakes on use", "life": ": its life was over; it wakes on use"}
_DONE = {"suspend": "suspended", "remove": "removed"}
MAX_LINE = 160
_OF_THE_ONE_BEFORE = ("command_ended", "cell_ended", "changed")
"""They are indented."""


def format_event(kind: str, data: Mapping[str, Any]) -> str:
    """Return one line about an entry of the journal; of a kind without a sentence, its fields."""
    of = Fields(data)
    if kind in SENTENCES:
        return SENTENCES[kind](of)
    return " ".join(f"{key}={of(key)}" for key in data if of(key, ""))


class Fields:
    """The fields of an entry as texts; a guest can put anything there."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def __call__(self, key: str, default: str = "?") -> str:
        """Return a field unchanged, or the default if it is missing."""
        value = self._data.get(key)
        return default if value is None or isinstance(value, dict | list) else str(value)

    def part(self, key: str) -> Fields:
        """Return the fields of a nested object."""
        value = self._data.get(key)
        return Fields(value if isinstance(value, dict) else {})

    def listed(self, key: str) -> list[str]:
        """Return a list of texts; empty if it is missing."""
        value = self._data.get(key)
        return [str(each) for each in value] if isinstance(value, list) else []

    def ports(self) -> str:
        """Return the ports it listened on."""
        value = self._data.get("ports")
        ports = [str(each) for each in value] if isinstance(value, list) else []
        return f", port {', '.join(ports)}" if ports else ""

    def changed(self) -> str:
        """Return the names that a command changed."""
        tables = ("variables", "functions", "aliases", "names")
        names = [
            name for key in tables if isinstance(changed := self._data.get(key), dict) for name in changed
        ]
        names += [key for key in ("cwd", "umask", "ports", "epoch") if key in self._data]
        return f"{', '.join(map(str, names[:20]))}{' …' if len(names) > 20 else ''}"

    def during(self) -> str:
        """Return the commands that were running at the time."""
        value = self._data.get("during")
        runs = (
            [Fields(each)("command", "") for each in value if isinstance(each, dict)]
            if isinstance(value, list)
            else []
        )
        return f" while {', '.join(f'`{_first(each)}`' for each in runs)} ran" if any(runs) else ""

    def end(self) -> str:
        """Describe an end, and its cause."""
        cause, number = self("cause", ""), self("signal", "")
        if cause == "unknown":
            return "ended for an unknown reason"
        if not number:
            return f"ended with {self('exit_code')}"
        by = f", sent by {self('killed_by')}" if self("killed_by", "") else ""
        return (
            f"was killed: out of memory ({_name(number)})"
            if cause == "oom"
            else f"was ended by {_name(number)}{by}"
        )


def _process_exited(of: Fields) -> str:
    origin = of.part("origin")
    whence = f"{origin('kind')} {origin('id')} had left it running ({origin('command')})"
    return f"{of('command')} (pid {of('pid')}{of.ports()}) {of.end()}; {whence}"


def _job_started(of: Fields) -> str:
    return f"job {_job(of)} started: {of('command')}"


def _job_ended(of: Fields) -> str:
    return f"job {_job(of)} {of.end()}: {of('command')}"


def _kernel_died(of: Fields) -> str:
    how = "was restarted" if of("cause") == "restarted" else of.end()
    return f"kernel {of('kernel')} (pid {of('pid')}) {how}; its variables are gone"


def _waiting(of: Fields) -> str:
    state = of.part("state")
    return f"{state('command', 'it')} waits for input ({state('detail')}): {state('prompt', '')}"


def _refused(of: Fields) -> str:
    port = f" port {of('port')}" if of("port", "") else ""
    return f"{of('protocol')} to {of('address')}{port} was refused: the session's network rules forbid it"


def _first(text: str) -> str:
    head, _, rest = text.strip().partition("\n")
    return f"{head} …" if rest else head


def _started(of: Fields) -> str:
    key = f" [key {of('key')}]" if of("key", "") else ""
    return f"$ {_first(of('command', '(unknown)'))}{key}"


def _ended(of: Fields) -> str:
    how = "exit " + of("exit_code")
    if of("shell_exited") == "True":
        how = "the shell ended"
    elif of("timed_out") == "True":
        how = "timed out"
    return f"{how} after {_seconds(of)}"


def _seconds(of: Fields) -> str:
    try:
        return f"{float(of('duration')):.3g} s"
    except ValueError:
        return "? s"


def _cell_ended(of: Fields) -> str:
    return f"{of('status')} after {_seconds(of)}"


def _input(of: Fields) -> str:
    shown = of("text", "")
    return f"typed {of('bytes')} bytes{f': {_first(shown)}' if shown else ', hidden'}"


def _dropped(of: Fields) -> str:
    amount = ", ".join(f"{of(key)} {key}" for key in ("entries", "bytes") if of(key, ""))
    return f"entries are missing here ({of('why')}): {amount}"


def _named(of: Fields) -> str:
    return of("label", "") or of("snapshot")


def _network(of: Fields) -> str:
    """Describe a change of the session's network rules."""
    words = {
        "allowed": "also",
        "disallowed": "no longer",
        "denied": "without",
        "no_longer_denied": "no longer without",
    }
    changes = [f", {word} {of(key)}" for key, word in words.items() if of(key, "")]
    return f"reaches {of('network')}{''.join(changes)}"


def _files(of: Fields) -> str:
    counted = f" ({of('files')} files, {of('bytes')} bytes)" if of("files", "") else ""
    to = f" to {of('to')}" if of("to", "") else ""
    return f"{of('what')} {of('path')}{to}{counted}"


def _shell_ended(of: Fields) -> str:
    follows = "" if of("closed", "") == "True" else "; a new one follows"
    return f"shell {of('shell')} (pid {of('pid')}) {of.end()}{follows}"


def _restarted(of: Fields) -> str:
    why = of("why", "") or f"its supervisor {of.end()}{of.during()}"
    if kept := of.listed("kept"):
        lost = f"; not adopted: {', '.join(found)}" if (found := of.listed("lost")) else ""
        return f"the session's supervisor {of.end()} and was started again: {', '.join(kept)} continue{lost}"
    return f"the session was started again on its files: {why}; its shells, kernels and programs are new"


def _no_free_process(of: Fields) -> str:
    limit = f" of {of('limit')}" if of("limit", "") else ""
    said = f"no process{limit} was free{of.during()}"
    if not of("group", ""):
        return said
    crowd = f"{of('members')} were in process group {of('group')} ({of('command')})"
    return f"{said}: {crowd}; `{of('remedy')}` in the shell ends them"


def _recovered(of: Fields) -> str:
    """Describe what a loss of its machine has cost a session."""
    names = of.listed("commands")
    count = of("lost_commands", str(len(names)))
    told = f"; not done any more: {', '.join(f'`{_first(each)}`' for each in names)}" if names else ""
    whence = f"node {of('node')} was lost" if of("node", "") else "its machine was lost"
    return f"recovered, since {whence}: {of('lost_seconds')} s of work are gone, {count} commands{told}"


SENTENCES: Mapping[str, Callable[[Fields], str]] = {
    "process_exited": _process_exited,
    "no_free_process": _no_free_process,
    "oom": lambda of: f"processes killed for lack of memory: {of('kills')}",
    "job_started": _job_started,
    "job_ended": _job_ended,
    "kernel_died": _kernel_died,
    "shell_ended": _shell_ended,
    "shell_opened": lambda of: f"opened shell {of('shell')}",
    "shell_closed": lambda of: f"closed shell {of('shell')}",
    "ssh_opened": lambda of: "connected by ssh",
    "ssh_closed": lambda of: "left a connection by ssh",
    "waiting": _waiting,
    "woken": lambda of: f"the session {_WOKEN.get(of('event'), 'continues')}",
    "restarted": _restarted,
    "refused": _refused,
    "hook": lambda of: f"hook {of('hook')} was notified that the session was {of('event')}",
    "hook_failed": lambda of: f"hook {of('hook')} ({of('event')}): {of('trouble')}",
    "session_ended": lambda of: f"the session cannot be followed further ({of('cause')}): {of('message')}",
    "changed": lambda of: f"changed {of.changed()}",
    "command_started": _started,
    "command_ended": _ended,
    "cell_started": lambda of: f">>> {_first(of('code'))}",
    "cell_ended": _cell_ended,
    "input": _input,
    "dropped": _dropped,
    "created": lambda of: f"session {of('name')} was made",
    "snapshot": lambda of: f"snapshot {_named(of)} was taken ({of('of')})",
    "restored": lambda of: f"continues from snapshot {_named(of)}",
    "forked": lambda of: f"snapshot {_named(of)} continues as {of('into')}",
    "files": _files,
    "run_started": lambda of: f"run {of('argv')}",
    "run_ended": lambda of: f"run {of('argv')} {of.end()} after {of('duration')} s",
    "suspended": lambda of: f"suspended{_SLEEPS.get(of('why', ''), '')}",
    "life_ending": lambda of: f"its life ends in {of('seconds')} s; then it is {_DONE.get(of('then'), '?')}",
    "life_ended": lambda of: f"its life is over: it is {_DONE.get(of('then'), '?')}",
    "sleep_failed": lambda of: f"could not be ended or put to sleep: {of('why')}",
    "wake_failed": lambda of: f"could not be woken, and still sleeps: {of('why')}",
    "moved": lambda of: f"moved to {of('to')}, where it is {of('into')}",
    "arrived": lambda of: f"moved here from {of('source')}",
    "recovered": _recovered,
    "frozen": lambda of: f"frozen: {of('why')}",
    "thawed": lambda of: f"continues after it was frozen for {of('seconds')} s",
    "set_aside": lambda of: f"ended here, and its files are kept for a day: {of('why')}",
    "durability_broken": lambda of: (
        f"a loss of its machine would cost {of('seconds')} s of work, more than the {of('loss')} s of its "
        f"policy: {of('why')}"
    ),
    "durable_again": lambda of: "a loss of its machine costs no more than its policy says again",
    "handed_over": lambda of: f"handed over to node {of('to', '')}" if of("to", "") else "waits for a node",
    "asleep": lambda of: "sleeps, and wakes on any node",
    "not_handed_over": lambda of: f"stays on this machine, suspended: {of('why')}",
    "not_in_cluster": lambda of: f"only this machine has it: {of('why')}",
    "twin": lambda of: f"runs on another machine as well: {of('why')}",
    "network": _network,
    "resumed": lambda of: "resumed",
    "rewound": lambda of: (
        f"went back to snapshot {_named(of)}, leaving {of('left_behind')} commands behind"
        + (f"; kept as {of('kept')}" if of("kept", "") else "")
    ),
    "task_changed": lambda of: f"task: {of('what')}",
    "removed": lambda of: "removed",
    "died": lambda of: f"found dead: {of('why')}",
    "shared": lambda of: f"link {of('link')} lets others {of('may')} until it ends",
    "unshared": lambda of: f"link {of('link')} was revoked",
    "visited": lambda of: f"link {of('link')} was followed, to {of('may')}",
    "attached": lambda of: f"attached to shell {of('shell')}",
    "detached": lambda of: f"detached from shell {of('shell')}",
    "lease": lambda of: f"lease of shell {of('shell')}: {of('action')} by {of('holder', 'nobody')}",
    "resized": lambda of: f"shell {of('shell')} has {of('rows')} rows, {of('cols')} columns",
}


def _job(of: Fields) -> str:
    return of("name", "") or of("id")


def _name(number: str) -> str:
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {number}"


def entry_line(entry: Entry, *, asked: str) -> str:
    """Format one entry. Sessions other than the requested one are named."""
    at = entry.time.astimezone()
    number = f"{entry.seq}{'+' if entry.host else ''}"
    where = "" if entry.session == asked else f" [{entry.session}]"
    mark = " " if entry.current else "~"
    kind = "" if entry.kind in SENTENCES else f"{entry.kind.replace('_', ' ')}: "
    indent = "  " if entry.kind in _OF_THE_ONE_BEFORE else ""
    text = indent + plain(kind + format_event(entry.kind, entry.details), MAX_LINE)
    reason = Fields(entry.details)("reason", "")
    why = f"  ({plain(reason, 80)})" if reason else ""
    return f"{mark}{number:>6}  {at:%m-%d %H:%M:%S}  {entry.actor or '-':<14}{where} {text}{why}".rstrip()

"""Events of a session as sentences, for people and for an agent's context.

Pure. Their contents come from the guest and may be anything; the caller makes them safe to show.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

_WOKEN = {
    "started": "began",
    "restored": "was restored, and continues here",
    "resumed": "continues after a snapshot",
    "aborted": "continues after a snapshot that failed",
}


def format_event(kind: str, data: Mapping[str, Any]) -> str:
    """Return one line about an entry of the journal."""
    of = Fields(data)
    if kind in _SENTENCES:
        return _SENTENCES[kind](of)
    return " ".join(f"{key}={of(key)}" for key in data if of(key, ""))


class Fields:
    """The fields of an entry as texts; a guest can put anything there."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def __call__(self, key: str, default: str = "?") -> str:
        """Return a field as it is, or the default if it is missing."""
        value = self._data.get(key)
        return default if value is None or isinstance(value, dict | list) else str(value)

    def part(self, key: str) -> Fields:
        """Return the fields of a nested object."""
        value = self._data.get(key)
        return Fields(value if isinstance(value, dict) else {})

    def ports(self) -> str:
        """Return the ports something listened on."""
        value = self._data.get("ports")
        ports = [str(each) for each in value] if isinstance(value, list) else []
        return f", port {', '.join(ports)}" if ports else ""

    def end(self) -> str:
        """Describe how something ended, and why."""
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


def _task_started(of: Fields) -> str:
    return f"task {_task(of)} started: {of('command')}"


def _task_ended(of: Fields) -> str:
    return f"task {_task(of)} {of.end()}: {of('command')}"


def _kernel_died(of: Fields) -> str:
    how = "was restarted" if of("cause") == "restarted" else of.end()
    return f"kernel {of('kernel')} (pid {of('pid')}) {how}; its variables are gone"


def _waiting(of: Fields) -> str:
    state = of.part("state")
    return f"{state('command', 'it')} waits for input ({state('detail')}): {state('prompt', '')}"


def _refused(of: Fields) -> str:
    port = f" port {of('port')}" if of("port", "") else ""
    return f"{of('protocol')} to {of('address')}{port} was refused: the session may not reach it"


_SENTENCES: Mapping[str, Callable[[Fields], str]] = {
    "process_exited": _process_exited,
    "oom": lambda of: f"processes killed for lack of memory: {of('kills')}",
    "task_started": _task_started,
    "task_ended": _task_ended,
    "kernel_died": _kernel_died,
    "shell_ended": lambda of: f"shell {of('shell')} (pid {of('pid')}) {of.end()}; a new one follows",
    "waiting": _waiting,
    "woken": lambda of: f"the session {_WOKEN.get(of('event'), 'continues')}",
    "refused": _refused,
    "hook": lambda of: f"hook {of('hook')} was notified that the session was {of('event')}",
    "hook_failed": lambda of: f"hook {of('hook')} ({of('event')}): {of('trouble')}",
    "session_ended": lambda of: f"the session cannot be followed further ({of('cause')}): {of('message')}",
}


def _task(of: Fields) -> str:
    return of("name", "") or of("id")


def _name(number: str) -> str:
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {number}"

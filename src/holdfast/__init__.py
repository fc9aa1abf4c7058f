"""Sandbox sessions whose live execution state can be captured, restored and forked.

import sys
from holdfast import Holdfast

with Holdfast() as hf:
    work = hf.new("work")
    work.exec("make test", timeout=600, on_output=sys.stdout.write)
    before = work.snapshot("before-the-change")
    again = before.restore("again")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    BundleRefused,
    BundleUntrusted,
    CaptureFailed,
    CommandNotFound,
    EngineError,
    EngineUnavailable,
    GuestDisconnected,
    GuestError,
    HoldfastError,
    ImageError,
    Interrupted,
    InvalidArgument,
    KernelDied,
    KernelNotFound,
    LiveUnsupported,
    NetworkNotClosed,
    OutcomeUnknown,
    ProtocolError,
    QuotaExceeded,
    ReferenceNotFound,
    RegistryDenied,
    RegistryError,
    RegistryUnavailable,
    RestoreFailed,
    SecretsFound,
    SessionBusy,
    SessionDead,
    SessionError,
    SessionExists,
    SessionNotFound,
    SessionRewound,
    SessionUnhealthy,
    ShellNotFound,
    SnapshotDamaged,
    SnapshotError,
    SnapshotInUse,
    SnapshotNotFound,
    StoreError,
    TaskNotFound,
)
from holdfast.runtime.version import VERSION

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.diff.result import Diff
    from holdfast.runtime.drift.result import Drift
    from holdfast.runtime.egress.attempt_log import Refusal
    from holdfast.runtime.egress.changing import Reach
    from holdfast.runtime.event import Event
    from holdfast.runtime.fitness.recorded import Recorded
    from holdfast.runtime.guest.pulse.state import State
    from holdfast.runtime.home import Home
    from holdfast.runtime.inside_captures import Served, Serving
    from holdfast.runtime.journal.entry import Entry
    from holdfast.runtime.keeping.policy import Policy
    from holdfast.runtime.lineage.result import Rewound
    from holdfast.runtime.moving.handles import Exported
    from holdfast.runtime.moving.remote import Pushed
    from holdfast.runtime.pulse.facts import OpenFile, Process, Socket
    from holdfast.runtime.pulse.limits import Memory
    from holdfast.runtime.pulse.pulse import Port, Pulse
    from holdfast.runtime.recording.recording import Recording
    from holdfast.runtime.results import (
        CellError,
        CellEvent,
        CellResult,
        Check,
        ExecResult,
        Lease,
        Screen,
        ShellInfo,
        SyntaxCheck,
    )
    from holdfast.runtime.retry.many import Series
    from holdfast.runtime.retry.spread import Difference, Run, Spread
    from holdfast.runtime.session import Session
    from holdfast.runtime.session_options import Mount, SessionOptions
    from holdfast.runtime.snapshot import Snapshot
    from holdfast.runtime.tasks import Task, TaskInfo
    from holdfast.runtime.terminal.handle import SessionTerminal
    from holdfast.runtime.thawing import Thawed
    from holdfast.runtime.verification.result import Verification
    from holdfast.runtime.verifying import Verified
    from holdfast.snapshots.failure import Debugger, Failure
    from holdfast.snapshots.fitness import Ladder
    from holdfast.snapshots.survivability import Survivability
    from holdfast.snapshots.verification import Deviation

__version__ = VERSION

__all__ = [
    "BundleRefused",
    "BundleUntrusted",
    "CaptureFailed",
    "CellError",
    "CellEvent",
    "CellResult",
    "Check",
    "CommandNotFound",
    "Debugger",
    "Deviation",
    "Diff",
    "Difference",
    "Drift",
    "EngineError",
    "EngineUnavailable",
    "Entry",
    "Event",
    "ExecResult",
    "Exported",
    "Failure",
    "GuestDisconnected",
    "GuestError",
    "Holdfast",
    "HoldfastError",
    "Home",
    "ImageError",
    "Interrupted",
    "InvalidArgument",
    "KernelDied",
    "KernelNotFound",
    "Ladder",
    "Lease",
    "LiveUnsupported",
    "Memory",
    "Mount",
    "NetworkNotClosed",
    "OpenFile",
    "OutcomeUnknown",
    "Policy",
    "Port",
    "Process",
    "ProtocolError",
    "Pulse",
    "Pushed",
    "QuotaExceeded",
    "Reach",
    "Recorded",
    "Recording",
    "ReferenceNotFound",
    "Refusal",
    "RegistryDenied",
    "RegistryError",
    "RegistryUnavailable",
    "RestoreFailed",
    "Rewound",
    "Run",
    "Screen",
    "SecretsFound",
    "Series",
    "Served",
    "Serving",
    "Session",
    "SessionBusy",
    "SessionDead",
    "SessionError",
    "SessionExists",
    "SessionNotFound",
    "SessionOptions",
    "SessionRewound",
    "SessionTerminal",
    "SessionUnhealthy",
    "ShellInfo",
    "ShellNotFound",
    "Snapshot",
    "SnapshotDamaged",
    "SnapshotError",
    "SnapshotInUse",
    "SnapshotNotFound",
    "Socket",
    "Spread",
    "State",
    "StoreError",
    "Survivability",
    "SyntaxCheck",
    "Task",
    "TaskInfo",
    "TaskNotFound",
    "Thawed",
    "Verification",
    "Verified",
]

# The guest's entry and the command line's start import this package for its errors alone, so the rest is
# imported when it is asked for.
_LATE = {
    "CellError": "runtime.results",
    "CellEvent": "runtime.results",
    "CellResult": "runtime.results",
    "Check": "runtime.results",
    "Debugger": "snapshots.failure",
    "Deviation": "snapshots.verification",
    "Diff": "runtime.diff.result",
    "Difference": "runtime.retry.spread",
    "Drift": "runtime.drift.result",
    "Entry": "runtime.journal.entry",
    "Event": "runtime.event",
    "ExecResult": "runtime.results",
    "Exported": "runtime.moving.handles",
    "Failure": "snapshots.failure",
    "Holdfast": "runtime.controller",
    "Home": "runtime.home",
    "Ladder": "snapshots.fitness",
    "Lease": "runtime.results",
    "Memory": "runtime.pulse.limits",
    "Mount": "runtime.session_options",
    "OpenFile": "runtime.pulse.facts",
    "Policy": "runtime.keeping.policy",
    "Port": "runtime.pulse.pulse",
    "Process": "runtime.pulse.facts",
    "Pulse": "runtime.pulse.pulse",
    "Pushed": "runtime.moving.remote",
    "Reach": "runtime.egress.changing",
    "Recorded": "runtime.fitness.recorded",
    "Recording": "runtime.recording.recording",
    "Refusal": "runtime.egress.attempt_log",
    "Rewound": "runtime.lineage.result",
    "Run": "runtime.retry.spread",
    "Screen": "runtime.results",
    "Series": "runtime.retry.many",
    "Served": "runtime.inside_captures",
    "Serving": "runtime.inside_captures",
    "Session": "runtime.session",
    "SessionOptions": "runtime.session_options",
    "SessionTerminal": "runtime.terminal.handle",
    "ShellInfo": "runtime.results",
    "Snapshot": "runtime.snapshot",
    "Socket": "runtime.pulse.facts",
    "Spread": "runtime.retry.spread",
    "State": "runtime.guest.pulse.state",
    "Survivability": "snapshots.survivability",
    "SyntaxCheck": "runtime.results",
    "Task": "runtime.tasks",
    "TaskInfo": "runtime.tasks",
    "Thawed": "runtime.thawing",
    "Verification": "runtime.verification.result",
    "Verified": "runtime.verifying",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.{_LATE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

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

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.drift.result import Drift
    from holdfast.runtime.egress.attempt_log import Refusal
    from holdfast.runtime.egress.changing import Reach
    from holdfast.runtime.events import Event
    from holdfast.runtime.guest.pulse.state import State
    from holdfast.runtime.home import Home
    from holdfast.runtime.journal.entry import Entry
    from holdfast.runtime.lineage.result import Rewound
    from holdfast.runtime.moving.handles import Exported
    from holdfast.runtime.moving.remote import Pushed
    from holdfast.runtime.pulse.pulse import Port, Pulse
    from holdfast.runtime.results import (
        CellError,
        CellEvent,
        CellResult,
        Check,
        ExecResult,
        Screen,
        SyntaxCheck,
    )
    from holdfast.runtime.retry.spread import Spread
    from holdfast.runtime.session import Session
    from holdfast.runtime.session_options import Mount, SessionOptions
    from holdfast.runtime.snapshot import Snapshot
    from holdfast.runtime.tasks import Task, TaskInfo
    from holdfast.runtime.terminal.handle import SessionTerminal
    from holdfast.runtime.thawing import Thawed
    from holdfast.runtime.verification.result import Verification
    from holdfast.runtime.verifying import Verified
    from holdfast.snapshots.failure import Failure

__version__ = "0.1.0"

__all__ = [
    "BundleRefused",
    "BundleUntrusted",
    "CaptureFailed",
    "CellError",
    "CellEvent",
    "CellResult",
    "Check",
    "CommandNotFound",
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
    "LiveUnsupported",
    "Mount",
    "NetworkNotClosed",
    "OutcomeUnknown",
    "Port",
    "ProtocolError",
    "Pulse",
    "Pushed",
    "QuotaExceeded",
    "Reach",
    "ReferenceNotFound",
    "Refusal",
    "RegistryDenied",
    "RegistryError",
    "RegistryUnavailable",
    "RestoreFailed",
    "Rewound",
    "Screen",
    "SecretsFound",
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
    "ShellNotFound",
    "Snapshot",
    "SnapshotDamaged",
    "SnapshotError",
    "SnapshotInUse",
    "SnapshotNotFound",
    "Spread",
    "State",
    "StoreError",
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
    "CellError": "results",
    "CellEvent": "results",
    "CellResult": "results",
    "Check": "results",
    "Drift": "drift.result",
    "Entry": "journal.entry",
    "Event": "events",
    "ExecResult": "results",
    "Exported": "moving.handles",
    "Failure": "ci.record",
    "Holdfast": "controller",
    "Home": "home",
    "Mount": "session_options",
    "Port": "pulse.pulse",
    "Pulse": "pulse.pulse",
    "Pushed": "moving.remote",
    "Reach": "egress.changing",
    "Refusal": "egress.attempt_log",
    "Rewound": "lineage.result",
    "Screen": "results",
    "Session": "session",
    "SessionOptions": "session_options",
    "SessionTerminal": "terminal.handle",
    "Snapshot": "snapshot",
    "Spread": "retry.spread",
    "State": "guest.pulse.state",
    "SyntaxCheck": "results",
    "Task": "tasks",
    "TaskInfo": "tasks",
    "Thawed": "thawing",
    "Verification": "verification.result",
    "Verified": "verifying",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.runtime.{_LATE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

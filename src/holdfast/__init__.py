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

from holdfast.base.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.base.home import Home
    from holdfast.errors import (
        ArtifactNotFound,
        BundleNewer,
        BundleRefused,
        BundleUntrusted,
        CaptureFailed,
        ClusterError,
        ClusterUnavailable,
        CommandNotFound,
        EngineError,
        EngineUnavailable,
        EngineUnfit,
        GitFailed,
        GuestDisconnected,
        GuestError,
        HoldfastError,
        ImageError,
        Interrupted,
        InvalidArgument,
        JobNotFound,
        KernelDied,
        KernelNotFound,
        LeaseLost,
        LiveUnsupported,
        MoveFailed,
        NetworkNotClosed,
        NodeTaken,
        NotPermitted,
        OnlyInProcess,
        OutcomeUnknown,
        PortClosed,
        ProgramNotFound,
        ProtocolError,
        QuotaExceeded,
        QuotaReached,
        ReferenceNotFound,
        RegistryDenied,
        RegistryError,
        RegistryUnavailable,
        RestoreFailed,
        RunsEnded,
        SecretsFound,
        ServerDenied,
        ServerUnavailable,
        SessionAsleep,
        SessionBusy,
        SessionDead,
        SessionElsewhere,
        SessionError,
        SessionExists,
        SessionFileDenied,
        SessionFileError,
        SessionFileNotFound,
        SessionMoving,
        SessionNotFound,
        SessionPaused,
        SessionRewound,
        SessionUnhealthy,
        ShellNotFound,
        SnapshotDamaged,
        SnapshotError,
        SnapshotInUse,
        SnapshotNewer,
        SnapshotNotFound,
        StoreError,
    )
    from holdfast.runtime.access.shared_links import SharedLink
    from holdfast.runtime.api.artifact_handles import HomeArtifacts
    from holdfast.runtime.api.capture_requests import Served, Serving
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.git_calls import GitBranch, GitChange, GitStatus
    from holdfast.runtime.api.job import Job
    from holdfast.runtime.api.job_info import JobInfo
    from holdfast.runtime.api.option_types import LifetimeOptions, NewOptions, PolicyOptions
    from holdfast.runtime.api.redo_snapshot import Redo
    from holdfast.runtime.api.running_program import RunningProgram
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.api.session_git import SessionGit
    from holdfast.runtime.api.session_snapshots import Rewound
    from holdfast.runtime.api.session_task import SessionTask, TaskVerdict
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.api.spawn import SessionSpawn
    from holdfast.runtime.api.task_resumption import TaskResumed
    from holdfast.runtime.api.terminal_handle import SessionTerminal
    from holdfast.runtime.api.thawing import Thawed
    from holdfast.runtime.artifacts.generated_files import OrphanFile
    from holdfast.runtime.artifacts.kept_artifact import KeptArtifact
    from holdfast.runtime.attachment.terminal_link import TerminalLink
    from holdfast.runtime.client.aio.async_holdfast import AsyncHoldfast
    from holdfast.runtime.client.aio.async_session import AsyncSession
    from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
    from holdfast.runtime.client.blocking.remote_session import RemoteSession
    from holdfast.runtime.egress.attempt_log import Refusal
    from holdfast.runtime.egress.network_changes import Reach
    from holdfast.runtime.files.copied import Copied
    from holdfast.runtime.files.session_file import FoundFile, SessionFile
    from holdfast.runtime.flaky.repeat import Series
    from holdfast.runtime.flaky.spread import Difference, Run, Spread
    from holdfast.runtime.guest.pulse.state import State
    from holdfast.runtime.guest_rpc.event import Event
    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
    from holdfast.runtime.guest_rpc.results import (
        CellError,
        CellEvent,
        CellResult,
        Check,
        ExecResult,
        Screen,
    )
    from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo, SyntaxCheck
    from holdfast.runtime.history.diff.diff_result import Diff
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.history.recording.recording import Recording
    from holdfast.runtime.moving.move_session import Moved
    from holdfast.runtime.operations.step import Step
    from holdfast.runtime.pulse.facts import OpenFile, Process, Socket
    from holdfast.runtime.pulse.limits import Memory
    from holdfast.runtime.pulse.listening_ports import ListeningPort, Preview
    from holdfast.runtime.pulse.metrics_history import Metrics
    from holdfast.runtime.pulse.pulse import Port, Pulse
    from holdfast.runtime.restore.compat.command_history import Recorded
    from holdfast.runtime.sessions.session_options import Mount, SessionOptions
    from holdfast.runtime.storage.verify_storage import Verified
    from holdfast.runtime.store.entry import Entry
    from holdfast.runtime.store.lifetime import Lifetime
    from holdfast.runtime.store.policy import Policy
    from holdfast.runtime.task.redo_rules import RedoneAction
    from holdfast.runtime.task.stated_actions import StatedAction
    from holdfast.runtime.task.task_record import TaskRecord
    from holdfast.runtime.task.task_standing import TaskStanding
    from holdfast.runtime.task.work_report import WorkReport
    from holdfast.runtime.transfer.push_pull import Exported, Pushed
    from holdfast.runtime.verification.verification_result import Verification
    from holdfast.snapshots.failure import Debugger, Failure
    from holdfast.snapshots.fitness import Ladder
    from holdfast.snapshots.survivability import Survivability
    from holdfast.snapshots.verification import Deviation

__version__ = VERSION

__all__ = [
    "ArtifactNotFound",
    "AsyncHoldfast",
    "AsyncSession",
    "BundleNewer",
    "BundleRefused",
    "BundleUntrusted",
    "CaptureFailed",
    "CellError",
    "CellEvent",
    "CellResult",
    "Check",
    "ClusterError",
    "ClusterUnavailable",
    "CommandNotFound",
    "Copied",
    "Debugger",
    "Deviation",
    "Diff",
    "Difference",
    "Drift",
    "EngineError",
    "EngineUnavailable",
    "EngineUnfit",
    "Entry",
    "Event",
    "ExecResult",
    "Exported",
    "Failure",
    "FoundFile",
    "GitBranch",
    "GitChange",
    "GitFailed",
    "GitStatus",
    "GuestDisconnected",
    "GuestError",
    "Holdfast",
    "HoldfastError",
    "Home",
    "HomeArtifacts",
    "ImageError",
    "Interrupted",
    "InvalidArgument",
    "Job",
    "JobInfo",
    "JobNotFound",
    "KeptArtifact",
    "KernelDied",
    "KernelInfo",
    "KernelNotFound",
    "KernelSpecInfo",
    "Ladder",
    "Lease",
    "LeaseLost",
    "Lifetime",
    "LifetimeOptions",
    "ListeningPort",
    "LiveUnsupported",
    "Memory",
    "Metrics",
    "Mount",
    "MoveFailed",
    "Moved",
    "NetworkNotClosed",
    "NewOptions",
    "NodeTaken",
    "NotPermitted",
    "Notices",
    "OnlyInProcess",
    "OpenFile",
    "OrphanFile",
    "OutcomeUnknown",
    "Patience",
    "Policy",
    "PolicyOptions",
    "Port",
    "PortClosed",
    "Preview",
    "Process",
    "ProgramInfo",
    "ProgramNotFound",
    "ProgramResult",
    "ProtocolError",
    "Pulse",
    "Pushed",
    "QuotaExceeded",
    "QuotaReached",
    "Reach",
    "Recorded",
    "Recording",
    "Redo",
    "RedoneAction",
    "ReferenceNotFound",
    "Refusal",
    "RegistryDenied",
    "RegistryError",
    "RegistryUnavailable",
    "RemoteHoldfast",
    "RemoteSession",
    "RestoreFailed",
    "Rewound",
    "Run",
    "RunningProgram",
    "RunsEnded",
    "Screen",
    "SecretsFound",
    "Series",
    "Served",
    "ServerDenied",
    "ServerUnavailable",
    "Serving",
    "Session",
    "SessionAsleep",
    "SessionBusy",
    "SessionDead",
    "SessionElsewhere",
    "SessionError",
    "SessionExists",
    "SessionFile",
    "SessionFileDenied",
    "SessionFileError",
    "SessionFileNotFound",
    "SessionFiles",
    "SessionGit",
    "SessionMoving",
    "SessionNotFound",
    "SessionOptions",
    "SessionPaused",
    "SessionRewound",
    "SessionSpawn",
    "SessionTask",
    "SessionTerminal",
    "SessionUnhealthy",
    "SharedLink",
    "ShellInfo",
    "ShellNotFound",
    "Snapshot",
    "SnapshotDamaged",
    "SnapshotError",
    "SnapshotInUse",
    "SnapshotNewer",
    "SnapshotNotFound",
    "Socket",
    "Spread",
    "State",
    "StatedAction",
    "Step",
    "StoreError",
    "Survivability",
    "SyntaxCheck",
    "TaskRecord",
    "TaskResumed",
    "TaskStanding",
    "TaskVerdict",
    "TerminalLink",
    "Thawed",
    "Verification",
    "Verified",
    "WorkReport",
]

# The guest's entry and the command line's start import this package for its errors alone, so the rest is
# imported when it is asked for.
_LATE = {
    "AsyncHoldfast": "runtime.client.aio.async_holdfast",
    "AsyncSession": "runtime.client.aio.async_session",
    "CellError": "runtime.guest_rpc.results",
    "CellEvent": "runtime.guest_rpc.results",
    "CellResult": "runtime.guest_rpc.results",
    "Check": "runtime.guest_rpc.results",
    "Copied": "runtime.files.copied",
    "Debugger": "snapshots.failure",
    "Deviation": "snapshots.verification",
    "Diff": "runtime.history.diff.diff_result",
    "Difference": "runtime.flaky.spread",
    "Drift": "runtime.history.drift.drift_result",
    "Entry": "runtime.store.entry",
    "Event": "runtime.guest_rpc.event",
    "ExecResult": "runtime.guest_rpc.results",
    "Exported": "runtime.transfer.push_pull",
    "Failure": "snapshots.failure",
    "Holdfast": "runtime.api.controller",
    "Home": "base.home",
    "KernelInfo": "runtime.guest_rpc.kernel_report",
    "KernelSpecInfo": "runtime.guest_rpc.kernel_report",
    "Ladder": "snapshots.fitness",
    "Lease": "runtime.guest_rpc.shell_report",
    "Memory": "runtime.pulse.limits",
    "Mount": "runtime.sessions.session_options",
    "Moved": "runtime.moving.move_session",
    "OpenFile": "runtime.pulse.facts",
    "Patience": "runtime.guest_rpc.patience",
    "NewOptions": "runtime.api.option_types",
    "Notices": "runtime.client.server_notices",
    "Lifetime": "runtime.store.lifetime",
    "ListeningPort": "runtime.pulse.listening_ports",
    "Metrics": "runtime.pulse.metrics_history",
    "LifetimeOptions": "runtime.api.option_types",
    "Policy": "runtime.store.policy",
    "PolicyOptions": "runtime.api.option_types",
    "Port": "runtime.pulse.pulse",
    "Preview": "runtime.pulse.listening_ports",
    "Process": "runtime.pulse.facts",
    "ProgramInfo": "runtime.guest_rpc.program_result",
    "ProgramResult": "runtime.guest_rpc.program_result",
    "Pulse": "runtime.pulse.pulse",
    "Pushed": "runtime.transfer.push_pull",
    "Reach": "runtime.egress.network_changes",
    "RemoteHoldfast": "runtime.client.blocking.remote_holdfast",
    "RemoteSession": "runtime.client.blocking.remote_session",
    "Recorded": "runtime.restore.compat.command_history",
    "Recording": "runtime.history.recording.recording",
    "Refusal": "runtime.egress.attempt_log",
    "Rewound": "runtime.api.session_snapshots",
    "Run": "runtime.flaky.spread",
    "RunningProgram": "runtime.api.running_program",
    "Screen": "runtime.guest_rpc.results",
    "SharedLink": "runtime.access.shared_links",
    "Series": "runtime.flaky.repeat",
    "Served": "runtime.api.capture_requests",
    "Serving": "runtime.api.capture_requests",
    "Session": "runtime.api.session",
    "FoundFile": "runtime.files.session_file",
    "SessionFile": "runtime.files.session_file",
    "GitBranch": "runtime.api.git_calls",
    "GitChange": "runtime.api.git_calls",
    "GitStatus": "runtime.api.git_calls",
    "SessionFiles": "runtime.api.session_files",
    "SessionGit": "runtime.api.session_git",
    "SessionOptions": "runtime.sessions.session_options",
    "SessionSpawn": "runtime.api.spawn",
    "SessionTask": "runtime.api.session_task",
    "SessionTerminal": "runtime.api.terminal_handle",
    "ShellInfo": "runtime.guest_rpc.shell_report",
    "Snapshot": "runtime.api.snapshot",
    "Socket": "runtime.pulse.facts",
    "Spread": "runtime.flaky.spread",
    "Step": "runtime.operations.step",
    "State": "runtime.guest.pulse.state",
    "Redo": "runtime.api.redo_snapshot",
    "RedoneAction": "runtime.task.redo_rules",
    "StatedAction": "runtime.task.stated_actions",
    "Survivability": "snapshots.survivability",
    "SyntaxCheck": "runtime.guest_rpc.shell_report",
    "Job": "runtime.api.job",
    "JobInfo": "runtime.api.job_info",
    "TaskRecord": "runtime.task.task_record",
    "TaskResumed": "runtime.api.task_resumption",
    "HomeArtifacts": "runtime.api.artifact_handles",
    "KeptArtifact": "runtime.artifacts.kept_artifact",
    "OrphanFile": "runtime.artifacts.generated_files",
    "TaskStanding": "runtime.task.task_standing",
    "TaskVerdict": "runtime.api.session_task",
    "TerminalLink": "runtime.attachment.terminal_link",
    "Thawed": "runtime.api.thawing",
    "Verification": "runtime.verification.verification_result",
    "Verified": "runtime.storage.verify_storage",
    "WorkReport": "runtime.task.work_report",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.{_LATE.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Every error a caller can meet, and what it can do about it.

HoldfastError
  InvalidArgument      also a ValueError: an argument is not valid
  EngineError          the Docker engine refused or failed
    EngineUnavailable  also a ConnectionError: no engine answers
    EngineUnfit        sessions cannot run on it: it is Podman, has no root, or remaps users
  ImageError           an image is missing and could not be built
  RegistryError        a registry refused or failed
    RegistryUnavailable  also a ConnectionError: it does not answer
    RegistryDenied     it denies this user access, or this operation
    ReferenceNotFound  also a LookupError: it has nothing by that name
  ServerUnavailable    also a ConnectionError: no server answers at the URL
  ServerDenied         also a PermissionError: it does not let the caller in
  OnlyInProcess        also an AttributeError: it is not offered over a URL
  RunsEnded            runs of one command were ended before all were over
  StoreError           also an OSError: the state directory cannot be read or written
    ArtifactNotFound   also a LookupError: it keeps no artifact of that name
  SessionError
    SessionNotFound    also a LookupError: no session has that name or id
    SessionExists      the name is taken
    SessionDead        the container or its supervisor is gone
      SessionUnhealthy the container runs, but its supervisor does not answer
    SessionPaused      another program than Holdfast paused the container
    SessionBusy        another caller holds the session, shell or kernel
    NetworkNotClosed   its network could not be closed to the host, so nothing was run in it
    SessionRewound     the session was rewound in the meantime
    OutcomeUnknown     a command or cell with a key may have run, or a session may have moved; nothing says
    MoveFailed         it was not moved, and is where it was
  GuestError
    GuestDisconnected  also a ConnectionError: the connection to the supervisor was lost
    ProtocolError      the guest sent something that violates the protocol
    KernelDied         the kernel's process ended while a cell ran
    ShellNotFound      also a LookupError, like the next four: the session has no shell of that name
    KernelNotFound     it has no kernel of that name
    JobNotFound       it has no job of that name or id, or no longer
    CommandNotFound    it has no command of that id, or no longer
    ProgramNotFound    it has no program of that id, or no longer
    PortClosed         also a ConnectionRefusedError: nothing in the session listens on that port
    SessionFileError   also an OSError: a file of the session cannot be read or written
      SessionFileNotFound  also a FileNotFoundError: there is no such file
      SessionFileDenied  also a PermissionError: the user of the session may not
  SnapshotError
    SnapshotNotFound   also a LookupError
    SnapshotDamaged    a stored file or image is missing or does not match its digest
    SnapshotNewer      a newer version of Holdfast wrote it; it is kept as it is
    SnapshotInUse      something still needs it
    QuotaExceeded      the snapshots would exceed their quota
    LiveUnsupported    a live snapshot is not possible here or now; lists the reasons
    CaptureFailed      the capture was started, failed, and was undone
    RestoreFailed      the restore was started, failed, and was undone
    SecretsFound       an export holds secrets and may not; nothing left the home; lists them
    BundleRefused      an import is damaged, forged, or over a limit; nothing was imported
      BundleUntrusted  it is not signed, or not by a trusted key
      BundleNewer      also a SnapshotNewer: a newer version of Holdfast made it
  Interrupted          a person stopped the operation; what it had begun was undone

A command that exits with 1 is a result, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class HoldfastError(Exception):
    """Base of all errors of this package.

    `code` is stable and meant for programs; the message is one line for people; `hint` says what to do next,
    or
    is empty.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidArgument(HoldfastError, ValueError):
    """An argument is not valid."""

    code = "invalid_argument"


class EngineError(HoldfastError):
    """The Docker engine refused or failed."""

    code = "engine_error"


class EngineUnavailable(EngineError, ConnectionError):
    """No Docker engine answers."""

    code = "engine_unavailable"


class EngineUnfit(EngineError):
    """Sessions cannot run on this kind of engine; nothing was tried."""

    code = "engine_unfit"


class ImageError(HoldfastError):
    """An image is missing and could not be built."""

    code = "image_error"


class RegistryError(HoldfastError):
    """A registry refused or failed."""

    code = "registry_error"


class RegistryUnavailable(RegistryError, ConnectionError):
    """The registry does not answer, or answers only with failures."""

    code = "registry_unavailable"


class RegistryDenied(RegistryError):
    """The registry denies this user access, or denies this operation."""

    code = "registry_denied"


class ReferenceNotFound(RegistryError, LookupError):
    """The registry has nothing by that name."""

    code = "reference_not_found"


class ServerUnavailable(HoldfastError, ConnectionError):
    """No server answers at the URL, or its connection was lost."""

    code = "server_unavailable"


class ServerDenied(HoldfastError, PermissionError):
    """The server does not let the caller in."""

    code = "server_denied"


class OnlyInProcess(HoldfastError, AttributeError):
    """It is not offered over a URL."""

    code = "only_in_process"


class StoreError(HoldfastError, OSError):
    """The state directory cannot be read or written."""

    code = "store_error"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SessionError(HoldfastError):
    """An error about one session."""

    code = "session_error"


class SessionNotFound(SessionError, LookupError):
    """No session has that name or id."""

    code = "session_not_found"


class SessionExists(SessionError):
    """The name is taken by another session."""

    code = "session_exists"


class SessionDead(SessionError):
    """The session's container or supervisor is gone."""

    code = "session_dead"


class SessionUnhealthy(SessionDead):
    """The session's container runs, but its supervisor does not answer."""

    code = "session_unhealthy"


class SessionPaused(SessionError):
    """Another program than Holdfast has paused the session's container (`docker pause`)."""

    code = "session_paused"


class SessionBusy(SessionError):
    """Another caller holds the session, its shell or its kernel."""

    code = "session_busy"


class NetworkNotClosed(SessionError):
    """The session's network could not be closed to what it may not reach; nothing was run in it."""

    code = "network_not_closed"


class SessionRewound(SessionError):
    """The session was rewound in the meantime; the operation under way was abandoned."""

    code = "session_rewound"


class OutcomeUnknown(SessionError):
    """A command or cell with a key may have run, or a session may have moved; the outcome is lost."""

    code = "outcome_unknown"


class RunsEnded(HoldfastError):
    """Runs of one command were ended before all were over; nothing is left of them."""

    code = "runs_ended"


class MoveFailed(SessionError):
    """The session was not moved, and is where it was."""

    code = "move_failed"


class GuestError(HoldfastError):
    """The supervisor inside the session refused or failed."""

    code = "guest_error"


class GuestDisconnected(GuestError, ConnectionError):
    """The connection to the supervisor was lost."""

    code = "guest_disconnected"


class ProtocolError(GuestError):
    """The guest sent something that violates the protocol."""

    code = "protocol_error"


class KernelDied(GuestError):
    """The kernel's process ended while a cell ran."""

    code = "kernel_died"


class ShellNotFound(GuestError, LookupError):
    """The session has no shell of that name."""

    code = "shell_not_found"


class KernelNotFound(GuestError, LookupError):
    """The session has no kernel of that name."""

    code = "kernel_not_found"


class JobNotFound(GuestError, LookupError):
    """The session has no job of that name or id, or no longer."""

    code = "job_not_found"


class ArtifactNotFound(StoreError, LookupError):
    """The home keeps no artifact of that name."""

    code = "artifact_not_found"


class CommandNotFound(GuestError, LookupError):
    """The session has no command of that id, or no longer."""

    code = "command_not_found"


class ProgramNotFound(GuestError, LookupError):
    """The session has no program of that id, or no longer."""

    code = "program_not_found"


class PortClosed(GuestError, ConnectionRefusedError):
    """Nothing in the session listens on that port of its loopback, or does not accept."""

    code = "port_closed"


class SessionFileError(GuestError, OSError):
    """A file of the session cannot be read or written."""

    code = "session_file"


class SessionFileNotFound(SessionFileError, FileNotFoundError):
    """The session has no such file."""

    code = "session_file_not_found"


class SessionFileDenied(SessionFileError, PermissionError):
    """The user of the session may not do that with the file."""

    code = "session_file_denied"


class SnapshotError(HoldfastError):
    """An error about one snapshot."""

    code = "snapshot_error"


class SnapshotNotFound(SnapshotError, LookupError):
    """No snapshot has that label or id."""

    code = "snapshot_not_found"


class SnapshotDamaged(SnapshotError):
    """A stored file or image is missing or does not match its digest."""

    code = "snapshot_damaged"


class SnapshotNewer(SnapshotError):
    """A newer version of Holdfast wrote the snapshot, or a part of it; it is kept as it is."""

    code = "snapshot_newer"


class SnapshotInUse(SnapshotError):
    """Something still needs the snapshot."""

    code = "snapshot_in_use"


class QuotaExceeded(SnapshotError):
    """The snapshots would exceed their quota."""

    code = "quota_exceeded"


class LiveUnsupported(SnapshotError):
    """A live snapshot is not possible here or now. `findings` are the obstacles, where known."""

    code = "live_unsupported"

    def __init__(self, message: str, *, hint: str = "", findings: tuple[Mapping[str, Any], ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class CaptureFailed(SnapshotError):
    """The capture was started, failed, and was undone; the session keeps running."""

    code = "capture_failed"


class RestoreFailed(SnapshotError):
    """The restore was started, failed, and was undone; the snapshot is untouched."""

    code = "restore_failed"


class SecretsFound(SnapshotError):
    """An export holds secrets and may not. `findings` say which rules matched, and where."""

    code = "secrets_found"

    def __init__(self, message: str, *, hint: str = "", findings: tuple[Mapping[str, Any], ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class BundleRefused(SnapshotError):
    """An import is damaged, forged, or over a limit; nothing was imported."""

    code = "bundle_refused"


class BundleUntrusted(BundleRefused):
    """A bundle is not signed, or not by a trusted key."""

    code = "bundle_untrusted"


class BundleNewer(BundleRefused, SnapshotNewer):
    """A newer version of Holdfast made the bundle; nothing was imported."""

    code = "bundle_newer"


class Interrupted(HoldfastError):
    """A person stopped the operation; what it had begun was undone."""

    code = "interrupted"

"""Every error a caller can meet, and the remedy.

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
    NotPermitted       it let the caller in, with a key that does not allow this
  OnlyInProcess        also an AttributeError: it is not offered over a URL
  RunsEnded            runs of one command were ended before all were over
  StoreError           also an OSError: the state directory cannot be read or written
    ArtifactNotFound   also a LookupError: it keeps no artifact of that name
  QuotaReached         the quota of sessions, of running ones, or of commands is reached
  ClusterError         the cluster refused, or its database cannot be used
    ClusterUnavailable also a ConnectionError: its database does not answer
    LeaseLost          the node does not hold that session, or its own place, any more
    NodeTaken          another machine has the name of this node
  SessionError
    SessionNotFound    also a LookupError: no session has that name or id
    SessionExists      the name is taken
    SessionDead        the container or its supervisor is gone
      SessionUnhealthy the container runs, but its supervisor does not answer
    SessionAsleep      its lifetime has put it to sleep; use wakes it
    SessionPaused      another program than Holdfast paused or froze the container
    SessionBusy        another caller holds the session, shell or kernel
    SessionMoving      it is on its way to another machine
    SessionElsewhere   another node of the cluster has it
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
    GitFailed          `git` failed in the session
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
    or is empty. docs/errors.md is made of these docstrings.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidArgument(HoldfastError, ValueError):
    """An argument is not valid.

    What to do: Correct what the message names; nothing was done.
    """

    code = "invalid_argument"


class EngineError(HoldfastError):
    """The Docker engine refused or failed.

    What to do: Read what the engine said; `docker info` and its log tell more. `holdfast doctor` tries what
    Holdfast needs of it.
    """

    code = "engine_error"


class EngineUnavailable(EngineError, ConnectionError):
    """No Docker engine answers.

    What to do: Start Docker, or name the right one with `DOCKER_HOST` or `docker context use`; the user must
    be in the group `docker`.
    """

    code = "engine_unavailable"


class EngineUnfit(EngineError):
    """Sessions cannot run on this kind of engine; nothing was tried.

    What to do: Use a Docker engine that runs as root without a remapped user namespace.
    """

    code = "engine_unfit"


class ImageError(HoldfastError):
    """An image is missing and could not be built.

    What to do: Build it with `holdfast image build` and read the step that failed, or name an image that is
    there.
    """

    code = "image_error"


class RegistryError(HoldfastError):
    """A registry refused or failed.

    What to do: Read what the registry said, and try again.
    """

    code = "registry_error"


class RegistryUnavailable(RegistryError, ConnectionError):
    """The registry does not answer, or answers only with failures.

    What to do: Check its name, the network and the proxy; what was sent is kept, so a second try sends the
    rest.
    """

    code = "registry_unavailable"


class RegistryDenied(RegistryError):
    """The registry denies this user access, or denies this operation.

    What to do: Log in with `docker login`, or ask for the right to that repository.
    """

    code = "registry_denied"


class ReferenceNotFound(RegistryError, LookupError):
    """The registry has nothing by that name.

    What to do: Check the repository and the tag.
    """

    code = "reference_not_found"


class ServerUnavailable(HoldfastError, ConnectionError):
    """No server answers at the URL, or its connection was lost.

    What to do: Start it with `holdfast serve`, and check `HOLDFAST_URL`.
    """

    code = "server_unavailable"


class ServerDenied(HoldfastError, PermissionError):
    """The server does not let the caller in.

    What to do: Give the server's token in `HOLDFAST_TOKEN`; it is in `server-token` in the server's home.
    """

    code = "server_denied"


class NotPermitted(ServerDenied):
    """The caller's access key does not allow this; nothing was done.

    What to do: Ask for a key with the scope that the message names; `holdfast access new` makes one.
    """

    code = "not_permitted"


class OnlyInProcess(HoldfastError, AttributeError):
    """It is not offered over a URL.

    What to do: Call it where the session's home is, without a URL.
    """

    code = "only_in_process"


class StoreError(HoldfastError, OSError):
    """The state directory cannot be read or written.

    What to do: Make room, or correct the rights of the folder that the message names.
    """

    code = "store_error"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class QuotaReached(HoldfastError):
    """The quota of the home, or of the team, is reached. `retry_after` is in how many seconds
    that can be different; None if waiting does not help.

    What to do: Suspend or remove sessions, begin fewer commands, or raise it with `holdfast quota set`.
    """

    code = "quota"

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class ClusterError(HoldfastError):
    """The cluster refused, or its database cannot be used.

    What to do: Read what the message names; `holdfast cluster nodes` shows the nodes.
    """

    code = "cluster_error"


class ClusterUnavailable(ClusterError, ConnectionError):
    """The cluster's database does not answer.

    What to do: Check that PostgreSQL runs and that this machine reaches it; nodes freeze their sessions when
    their leases end, and continue them afterwards.
    """

    code = "cluster_unavailable"


class LeaseLost(ClusterError):
    """The node does not hold that session, or its own place in the cluster, any more.

    What to do: Nothing: the node freezes what is no longer its own and registers again.
    """

    code = "lease_lost"


class NodeTaken(ClusterError):
    """Another machine has the name of this node, and its lease can still last.

    What to do: Wait as long as the message says, if this machine was restarted; else name it differently.
    """

    code = "node_taken"


class SessionError(HoldfastError):
    """An error about one session.

    What to do: Do what the hint says; `holdfast ls` shows the session's state.
    """

    code = "session_error"


class SessionNotFound(SessionError, LookupError):
    """No session has that name or id.

    What to do: `holdfast ls` lists the sessions; one that was removed is in `holdfast snapshots` as far as
    it was captured.
    """

    code = "session_not_found"


class SessionExists(SessionError):
    """The name is taken by another session.

    What to do: Choose another name, or remove that session.
    """

    code = "session_exists"


class SessionDead(SessionError):
    """The session's container or supervisor is gone.

    What to do: `holdfast resume` starts it again on its files, `holdfast rewind` takes it back to a snapshot
    with what ran, `holdfast cp` reads its files.
    """

    code = "session_dead"


class SessionUnhealthy(SessionDead):
    """The session's container runs, but its supervisor does not answer.

    What to do: Wait a moment; if it stays so, `holdfast rewind` goes back to a snapshot.
    """

    code = "session_unhealthy"


class SessionAsleep(SessionError):
    """The session sleeps, because it was not used or its life is over. `why` is `idle` or `life`.

    What to do: Use it: a command, a cell or typed text wakes it, as `holdfast resume` does. Looking at it
    does not.
    """

    code = "session_asleep"

    def __init__(self, message: str, *, hint: str = "", why: str = "") -> None:
        super().__init__(message, hint=hint)
        self.why = why


class SessionPaused(SessionError):
    """Another program than Holdfast has paused the session's container (`docker pause`), or has frozen its
    control group. `state` is `paused` or `frozen`.

    What to do: `docker unpause`, or the command in the hint, lets it continue.
    """

    code = "session_paused"

    def __init__(self, message: str, *, hint: str = "", state: str = "paused") -> None:
        super().__init__(message, hint=hint)
        self.state = state


class SessionBusy(SessionError):
    """Another caller holds the session, its shell or its kernel.

    What to do: Wait for the other caller (`busy_wait`, `lease_wait`), or look at who it is with `holdfast
    lease` and `holdfast pulse`.
    """

    code = "session_busy"


class SessionMoving(SessionError):
    """The session is on its way to another machine, where it continues.

    What to do: Try again in a moment, with the same key if the call has one. `holdfast cluster ls` shows
    where sessions of a cluster are.
    """

    code = "session_moving"


class SessionElsewhere(SessionError):
    """Another node of the cluster has the session.

    What to do: Send the request to the node that the message names, or to the proxy in front of the nodes.
    """

    code = "session_elsewhere"


class NetworkNotClosed(SessionError):
    """The session's network could not be closed to forbidden destinations; no program was run in it.

    What to do: `holdfast doctor` shows what the kernel lacks; `--network none` needs less.
    """

    code = "network_not_closed"


class SessionRewound(SessionError):
    """The session was rewound in the meantime; the operation under way was abandoned.

    What to do: Look at where the session is now (`holdfast snapshots --tree`), and decide again.
    """

    code = "session_rewound"


class OutcomeUnknown(SessionError):
    """A command, cell or request may have been carried out, or a session may have moved; the outcome is lost.

    What to do: Look in the session for the effect before you do it again: it may have happened.
    """

    code = "outcome_unknown"


class RunsEnded(HoldfastError):
    """Runs of one command were cut short; their results were discarded.

    What to do: Repeat the call.
    """

    code = "runs_ended"


class MoveFailed(SessionError):
    """The session was not moved, and is where it was.

    What to do: Read why; the session continues here, and the move can be repeated.
    """

    code = "move_failed"


class GuestError(HoldfastError):
    """The supervisor inside the session refused or failed.

    What to do: Read what the supervisor said; `holdfast pulse` shows what runs.
    """

    code = "guest_error"


class GuestDisconnected(GuestError, ConnectionError):
    """The connection to the supervisor was lost.

    What to do: Repeat the call; with an idempotency key it joins what it began.
    """

    code = "guest_disconnected"


class ProtocolError(GuestError):
    """The guest sent something that violates the protocol.

    What to do: Do not trust what runs in the session; remove it, or rewind it.
    """

    code = "protocol_error"


class KernelDied(GuestError):
    """The kernel's process ended while a cell ran.

    What to do: Run the next cell, in a new kernel; `holdfast events` has the cause.
    """

    code = "kernel_died"


class ShellNotFound(GuestError, LookupError):
    """The session does not have a shell with that name.

    What to do: `holdfast shells` lists them; `shells S open NAME` opens one.
    """

    code = "shell_not_found"


class KernelNotFound(GuestError, LookupError):
    """The session does not have a kernel with that name.

    What to do: `holdfast kernels` lists them; `kernels S open NAME` opens one.
    """

    code = "kernel_not_found"


class JobNotFound(GuestError, LookupError):
    """The session does not know a job with that name or id, or has forgotten it.

    What to do: `holdfast jobs` lists them; of those that ended, the last 200.
    """

    code = "job_not_found"


class ArtifactNotFound(StoreError, LookupError):
    """The home keeps no artifact of that name.

    What to do: `holdfast artifact ls` lists them.
    """

    code = "artifact_not_found"


class CommandNotFound(GuestError, LookupError):
    """The session does not know a command with that id, or has forgotten it.

    What to do: `holdfast journal` lists commands; outputs of old ones are not kept.
    """

    code = "command_not_found"


class ProgramNotFound(GuestError, LookupError):
    """The session does not know a program with that id, or has forgotten it.

    What to do: `holdfast pulse` shows what runs.
    """

    code = "program_not_found"


class PortClosed(GuestError, ConnectionRefusedError):
    """No program in the session listens on that port of its loopback, or it does not accept.

    What to do: Start the server in the session, or wait until it listens (`holdfast pulse --port`).
    """

    code = "port_closed"


class GitFailed(GuestError):
    """`git` failed in the session.

    What to do: Read the reason, which `git` gave.
    """

    code = "git_failed"


class SessionFileError(GuestError, OSError):
    """A file of the session cannot be read or written.

    What to do: Read the reason, which the session's own system gave.
    """

    code = "session_file"


class SessionFileNotFound(SessionFileError, FileNotFoundError):
    """The file does not exist in the session.

    What to do: Check the path; a relative one is below the session's directory.
    """

    code = "session_file_not_found"


class SessionFileDenied(SessionFileError, PermissionError):
    """The session's user lacks permission for the file.

    What to do: Use a user who may, or change the file's rights.
    """

    code = "session_file_denied"


class SnapshotError(HoldfastError):
    """An error about one snapshot.

    What to do: Do what the hint says; `holdfast snapshots` shows what there is.
    """

    code = "snapshot_error"


class SnapshotNotFound(SnapshotError, LookupError):
    """No snapshot has that label or id.

    What to do: `holdfast snapshots` lists them.
    """

    code = "snapshot_not_found"


class SnapshotDamaged(SnapshotError):
    """A stored file or image is missing or does not match its digest.

    What to do: `holdfast verify` repairs what can be; else use another snapshot, or import it again.
    """

    code = "snapshot_damaged"


class SnapshotNewer(SnapshotError):
    """A newer version of Holdfast wrote the snapshot, or a part of it; it is kept as it is.

    What to do: Upgrade Holdfast.
    """

    code = "snapshot_newer"


class SnapshotInUse(SnapshotError):
    """Something still needs the snapshot.

    What to do: Remove what the message names first.
    """

    code = "snapshot_in_use"


class QuotaExceeded(SnapshotError):
    """The snapshots would exceed their quota.

    What to do: Remove snapshots (`holdfast rmi`, `holdfast gc`), or raise it with `holdfast quota`.
    """

    code = "quota_exceeded"


class LiveUnsupported(SnapshotError):
    """A live snapshot is not possible here or now. `findings` are the obstacles, if known.

    What to do: Do what the finding advises, leave it out with `force_drop`, or keep the files alone (`--kind
    filesystem`). `holdfast snapshot --check` lists all findings.
    """

    code = "live_unsupported"

    def __init__(self, message: str, *, hint: str = "", findings: tuple[Mapping[str, Any], ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class CaptureFailed(SnapshotError):
    """The capture was started, failed, and was undone; the session keeps running.

    What to do: Try again; if it fails again, `holdfast doctor` shows whether live snapshots work here.
    """

    code = "capture_failed"


class RestoreFailed(SnapshotError):
    """The restore was started, failed, and was undone; the snapshot is unchanged.

    What to do: Read why; `restore --as files` restores the files alone.
    """

    code = "restore_failed"


class SecretsFound(SnapshotError):
    """An export holds secrets and is not allowed. `findings` name the rules that matched, and the places.

    What to do: Remove what was found from the session and capture it again, or let it leave with `--secrets
    warn`.
    """

    code = "secrets_found"

    def __init__(self, message: str, *, hint: str = "", findings: tuple[Mapping[str, Any], ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class BundleRefused(SnapshotError):
    """An import is damaged, forged, or over a limit; nothing was imported.

    What to do: Ask for the file again; it is not what was made.
    """

    code = "bundle_refused"


class BundleUntrusted(BundleRefused):
    """A bundle is not signed, or not by a trusted key.

    What to do: Ask its sender for the key, and trust it with `holdfast key trust`; or import the files alone
    (`--files-only`).
    """

    code = "bundle_untrusted"


class BundleNewer(BundleRefused, SnapshotNewer):
    """A newer version of Holdfast made the bundle; nothing was imported.

    What to do: Upgrade Holdfast.
    """

    code = "bundle_newer"


class Interrupted(HoldfastError):
    """A person stopped the operation; its partial work was undone.

    What to do: Nothing: what had begun was undone. Repeat the call if it is still wanted.
    """

    code = "interrupted"

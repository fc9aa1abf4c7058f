"""A CI job and its outcome, as values. Knows nothing of how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.runtime.ci.capture_job import CaptureLimits
from holdfast.runtime.ci.delivery import DeliveryTarget
from holdfast.runtime.ci.job_summary import KeptCapture
from holdfast.runtime.ci.watchdog import TimeLimits
from holdfast.snapshots.failure import Failure

WAITED = 75
"""Exit code of a job that was given up because it waited for input: EX_TEMPFAIL of sysexits.h."""
TIMED_OUT = 124
"""Exit code of a job that took too long or made no progress, as of timeout(1)."""


@dataclass(frozen=True, slots=True)
class CIJob:
    """The command to run, its kind of session, and what happens if it fails.

    Attributes:
        command: as bash reads it.
        options: of the session, as for `Holdfast.new`.
        variables: those the command has; `job_environment.chosen` makes them.
        redact: patterns of more names whose values are secret.
        checkout: the folder that goes into the session; None for none.
        written: files that are written when it is over, which do not go into the session of another job.
        setup: commands that are run before; one that fails is a failure of the job.
        captures: limit of captures that the command itself may request.
        keep: leave the session as it is when the job is over.
        job: the address of the job, for the failure record.
    """

    command: str
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    checkout: Path | None = None
    written: tuple[Path, ...] = ()
    setup: tuple[str, ...] = ()
    patience: TimeLimits = field(default_factory=TimeLimits)
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    destination: DeliveryTarget = field(default_factory=DeliveryTarget)
    captures: int = 5
    keep: bool = False
    job: str | None = None


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a job.

    `session` is its name if it was left. `not_kept` says why there is no live snapshot of a failed job.
    """

    exit_code: int
    seconds: float
    failure: Failure | None = None
    kept: tuple[KeptCapture, ...] = ()
    not_kept: str = ""
    notes: tuple[str, ...] = ()
    session: str | None = None

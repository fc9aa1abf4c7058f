"""The differences between two snapshots, as a value.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.holdings import NamedChange, ProcessChange
from holdfast.runtime.history.drift.packages import Package


@dataclass(frozen=True, slots=True)
class Diff:
    """All differences. `drift` holds them in the form of changes over time, without authors."""

    before: str
    after: str
    drift: Drift

    @property
    def files(self) -> tuple[FileChange, ...]:
        """Files, without the files of `packages` and without noise."""
        return self.drift.files

    @property
    def packages(self) -> tuple[Package, ...]:
        """Packages that were added or removed, or whose versions differ."""
        return self.drift.packages

    @property
    def processes(self) -> tuple[ProcessChange, ...]:
        """Processes that started or ended, or listen on different ports."""
        return self.drift.processes

    @property
    def shell(self) -> tuple[NamedChange, ...]:
        """Variables, functions and aliases of shells, their directory and umask."""
        return self.drift.shell

    @property
    def kernel(self) -> tuple[NamedChange, ...]:
        """Names of kernels."""
        return self.drift.kernel

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what could not be compared."""
        return self.drift.notes

    @property
    def empty(self) -> bool:
        """True if there are no differences."""
        return self.drift.empty

    def text(self, limit: int = 12, *, every_file: bool = False) -> str:
        """Summarize the differences in few words. Arguments as of `Drift.text`."""
        return self.drift.text(limit, every_file=every_file)

    def as_dict(self) -> dict[str, Any]:
        """Return all of them for programs."""
        fields = self.drift.as_dict()
        parts = ("files", "packages", "processes", "shell", "kernel")
        return {
            "from": self.before,
            "to": self.after,
            **{name: fields[name] for name in ("session", "since", "at")},
            **{part: [_without_authors(one) for one in fields[part]] for part in parts},
            "noise": fields["noise"],
            "notes": fields["notes"],
        }


def _without_authors(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "by"}

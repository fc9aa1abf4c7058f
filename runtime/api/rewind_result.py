"""The result of a rewind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base.value_classes import as_table

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Rewound:
    """A session that went back to `snapshot`.

    `kept` is the snapshot of its state before, if that was captured. `left_behind` counts the commands, cells
    and inputs since `snapshot`; `lost` those after `kept`, which are in no snapshot. `deviations` say what
    differs, such as the address.
    """

    session: Session
    snapshot: Snapshot
    kept: Snapshot | None
    left_behind: int
    lost: int
    deviations: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {
            **as_table(self, "session", "snapshot", "kept"),
            "id": self.session.id,
            "name": self.session.name,
            "generation": self.session.row.generation,
            "snapshot": self.snapshot.id,
            "kept": self.kept.id if self.kept else None,
        }

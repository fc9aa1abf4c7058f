"""The requirements of a snapshot that is being taken, for its manifest. Decides nothing."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.base.version import VERSION
from holdfast.engine.engine import Engine
from holdfast.snapshots.fitness import Needs
from holdfast.snapshots.machine import MachineFeatures

# Images of CRIU that exist only if processes use features that not every kernel has.
_USES = {"timens-*.img": "time_namespace", "seccomp.img": "seccomp"}


def by(engine: Engine, about: Mapping[str, Any] | None, staged: Path) -> Needs:
    """Return the requirements of the snapshot in the folder `staged`.

    Args:
        engine: the engine that runs the session.
        about: what the checkpointer reported of the machine; None for a snapshot of files.
        staged: the folder with the snapshot's parts.
    """
    return Needs(
        live=about is not None,
        machine=machine(about or {}),
        uses=[] if about is None else sorted(name for form, name in _USES.items() if _any(staged, form)),
        engine=engine.title,
        holdfast=VERSION,
    )


def machine(about: Mapping[str, Any]) -> MachineFeatures:
    """Return the machine of this process, with what the checkpointer reported of it as far as it is valid."""
    known = {"arch": platform.machine(), "kernel": platform.release()}
    try:
        return MachineFeatures.model_validate({**known, **about})
    except ValidationError:
        return MachineFeatures.model_validate(known)


def _any(staged: Path, form: str) -> bool:
    return next(staged.glob(f"images/{form}"), None) is not None

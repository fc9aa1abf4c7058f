"""Makes CRIU put a restored tree under the AppArmor profile of its container.

CRIU writes the profile that the image of a thread names into /proc/thread-self/attr/current after all else
of that thread (`lsm_set_label` in its restorer). Images name none here: a capture records no profile, so
that a snapshot can be restored where the profile has a different name or does not exist, and the name in a
foreign image must never decide. The profile is always the new container's first process's.

Owns the images' entries and the guard's input (`guard_labels.c`); reads labels by `record/labels.py`. CRIU as
Debian builds it does not support SELinux: there the audit refuses what was restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CLAIMED = "HOLDFAST_APPARMOR"
"""The variable that has the guard say that the kernel has AppArmor; see guard_labels.c."""


def give(images: Path, profile: str) -> dict[str, str]:
    """Name `profile` in every thread's image in a scratch folder, and return the guard's input.

    Images are replaced, not changed: they share their inodes with the kept snapshot. Empty: nothing is done.
    """
    if not profile:
        return {}
    # Not at the top: pycriu is in the toolbox only, and the rest of this module is tested without it.
    from holdfast.snapshots.checkpointer.criu import criu_images

    for path in sorted(images.glob("core-*.img")):
        magic, found = criu_images.read(path)
        name_in(found, profile)
        path.unlink()
        criu_images.write(path, magic, found)
    return {CLAIMED: "1"}


def name_in(cores: Iterable[Any], profile: str) -> None:
    """Name `profile` in entries of CRIU's core.proto, in place of any other. A zombie's lacks credentials."""
    for core in cores:
        if core.HasField("thread_core") and core.thread_core.HasField("creds"):
            core.thread_core.creds.lsm_profile = profile


def cache(folder: str, environment: Mapping[str, str] | None) -> str:
    """Return the place of CRIU's cache of kernel features, AppArmor's among them."""
    return f"{folder}-apparmor" if CLAIMED in (environment or {}) else folder

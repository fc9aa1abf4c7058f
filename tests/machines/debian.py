"""Roots of Debian systems, made by `mmdebstrap` from the mirror that this machine's apt uses. Needs root."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.machines.engine_kinds import SUBORDINATE

from holdfast.images import apt_sources

SUITE = "trixie"
ENGINE = (
    *("ca-certificates", "containerd", "docker.io", "iproute2", "iptables", "kmod", "procps", "runc"),
    *("util-linux",),
)
"""What an engine needs: Docker 20.10 in bookworm, 26.1 in trixie, 28.5 in sid at the time of writing."""
OTHERS = (*ENGINE, "crun", "netavark", "passt", "podman", "rootlesskit", "slirp4netns", "uidmap")
"""What Podman and an engine without root need in addition."""
FUSE = (*ENGINE, "fuse-overlayfs")
"""What an engine with that storage driver needs in addition."""
_WITHOUT = ("doc", "man", "locale")
# Files need not be on the disk before the next: whatever is not complete is made again. Mirrors of sid may be
# behind for longer than their lists are valid.
_OPTIONS = (
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _WITHOUT),
    "--dpkgopt=force-unsafe-io",
    '--aptopt=Acquire::Check-Valid-Until "false"',
)


def bootstrap(target: Path, packages: Iterable[str], suite: str = SUITE) -> None:
    """Make a system with these packages in a folder that does not exist yet."""
    mirror = apt_sources.host_mirror()
    assert mirror is not None, "apt's sources name no mirror"
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}"]
    subprocess.run([*command, *_OPTIONS, suite, target, f"deb {mirror.archive} {suite} main"], check=True)


def engine_root(cache: Path, suite: str = SUITE, packages: Sequence[str] = ENGINE) -> Path:
    """Return a system with an engine, from the cache if it is there: a minute or two and 350 MB if it is not.

    Nothing writes to it: see `daemon`, which mounts it read-only. An older one of the same suite and packages
    is removed.
    """
    kind = f"{suite}-{len(packages)}"
    root = cache / f"{kind}-{hashlib.sha256(repr((packages, _OPTIONS)).encode()).hexdigest()[:16]}"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (cache / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            for older in cache.glob(f"{kind}-*"):
                shutil.rmtree(older)
            making = cache / f"{kind}-making"
            bootstrap(making, packages, suite)
            (making / "etc/docker").mkdir(exist_ok=True)
            for name in ("subuid", "subgid"):
                (making / "etc" / name).write_text(f"{SUBORDINATE}:200000:65536\n")
            making.rename(root)
    return root


def default_cache() -> Path:
    """Return the place where the engines' systems are kept between runs."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches, "holdfast-engines")

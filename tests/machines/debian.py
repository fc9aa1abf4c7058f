"""Roots of Debian systems, made by `mmdebstrap` from the mirror that this machine's apt uses. Needs root."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from holdfast.images import apt_sources

SUITE = "trixie"
ENGINE = (
    *("ca-certificates", "containerd", "docker.io", "iproute2", "iptables", "kmod", "procps", "runc"),
    *("util-linux",),
)
"""What an engine needs: Docker 26.1 in trixie."""
_WITHOUT = ("doc", "man", "locale")


def bootstrap(target: Path, packages: Iterable[str], suite: str = SUITE) -> None:
    """Make a system with these packages in a folder that does not exist yet."""
    mirror = apt_sources.host_mirror()
    assert mirror is not None, "apt's sources name no mirror"
    without = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _WITHOUT]
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}", *without]
    subprocess.run([*command, suite, target, f"deb {mirror.archive} {suite} main"], check=True)


def engine_root(cache: Path) -> Path:
    """Return a system with an engine, from the cache if it is there: a minute and 600 MB if it is not.

    Nothing writes to it: see `daemon`, which mounts it read-only.
    """
    root = cache / hashlib.sha256(repr((SUITE, ENGINE, _WITHOUT)).encode()).hexdigest()[:16]
    if root.exists():
        return root
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(mode=0o700, parents=True)
    making = cache / "making"
    bootstrap(making, ENGINE)
    (making / "etc/docker").mkdir(exist_ok=True)
    return making.rename(root)


def default_cache() -> Path:
    """Return the place where the engine's system is kept between runs."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches, "holdfast-second-engine")

"""The commands that start an engine, by its kind: Docker as root, Docker without root, Podman. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DOCKER, ROOTLESS, PODMAN, PODMAN_ROOTLESS = "docker", "rootless", "podman", "podman-rootless"
WITHOUT_ROOT = (ROOTLESS, PODMAN_ROOTLESS)
CONTAINERD, FUSE_OVERLAYFS = "containerd", "fuse-overlayfs"
OWNER, SUBORDINATE = 1, "daemon"
"""The user of engines without root, which every system has; it has other users below it (`debian`)."""
_ROOTLESS = "/usr/share/docker.io/contrib/dockerd-rootless.sh"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where an engine keeps its files. `root` has the others, with `daemon.json` and sockets."""

    root: Path
    data: Path

    @property
    def socket(self) -> Path:
        """The socket of its API."""
        return self.root / "docker.sock"


def command(
    kind: str, folders: Folders, store: str, cgroup: str = "", options: Sequence[str] = ()
) -> list[str]:
    """Return the command that starts it, in its namespaces.

    Args:
        kind: one of the constants here.
        folders: its places.
        store: CONTAINERD, or the name of a storage driver.
        cgroup: the group that its containers are in; without root there is none.
        options: more of the daemon's.
    """
    if kind in (PODMAN, PODMAN_ROOTLESS):
        places = ["--root", str(folders.data), "--runroot", str(folders.root / "exec")]
        made = ["podman", *places, "--cgroup-manager=cgroupfs", "system", "service", "--time=0"]
        made.append(f"unix://{folders.socket}")
    else:
        made = ["dockerd" if kind == DOCKER else _ROOTLESS]
        made += ["--config-file", str(folders.root / "daemon.json"), "--data-root", str(folders.data)]
        made += ["--exec-root", str(folders.root / "exec"), "--pidfile", str(folders.root / "dockerd.pid")]
        made += ["--host", f"unix://{folders.socket}"]
        made += ["--cgroup-parent", f"/{cgroup}"] if kind == DOCKER else []
        made += [] if store == CONTAINERD else ["--storage-driver", store]
    if kind not in WITHOUT_ROOT:
        return [*made, *options]
    owner = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
    environment = [f"HOME={folders.root}", f"XDG_RUNTIME_DIR={folders.root}"]
    return [*owner, "env", *environment, *made, *options]

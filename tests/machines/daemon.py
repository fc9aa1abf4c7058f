"""A Docker daemon in namespaces of its own: started, and ended without a trace.

This machine's engine, or a different system's, in which case that is its root. Does not know Holdfast.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.machines.engine_kinds import CONTAINERD, DOCKER, OWNER, WITHOUT_ROOT, Folders, command

PATIENCE = 90.0
"""Seconds after which a daemon that does not answer counts as broken; it takes one or two."""
ROOMY = 8 << 30
"""Bytes of free memory above which the data root, one to two gigabytes, is kept in memory: faster."""
SPACIOUS = ("vfs",)
"""Storage drivers that copy every layer as a whole: too much for the memory."""
CGROUPS = Path("/sys/fs/cgroup")
_NAME = "holdfast-second-"

# Run in new network and mount namespaces. A new sysfs, as the old one shows the interfaces of the namespace
# it was mounted in; cgroups, which are mounted below it, are kept. A /run of its own, so that no daemon of
# the host is found, what is left in it goes with the namespace; an /etc/docker of its own, where the key is
# that identifies an engine. If the tests are killed, so is the daemon. This machine's system remains at
# /run/host of another one: its commands run there, and what is mounted in `homes` is seen in both. Engines
# without root make their network with a TUN device that everyone may use.
_SCRIPT = """
set -eu
mkdir "$1/cgroup"
mount --rbind /sys/fs/cgroup "$1/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$1/cgroup" /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
[ ! -d /etc/docker ] || mount -t tmpfs tmpfs /etc/docker
ip link set lo up
[ -z "${NEW_HOST_NAME:-}" ] || hostname "$NEW_HOST_NAME"
if [ -n "$2" ]; then
    mount --bind "$1/homes" "$1/homes"
    mount --make-shared "$1/homes"
    mkdir /run/host
    mount --rbind / /run/host
    mount --bind "$2" "$2"
    mount -o remount,bind,ro "$2"
    for folder in proc dev sys tmp run; do mount --rbind "/$folder" "$2/$folder"; done
    if [ -e /dev/net/tun ]; then
        mknod -m 666 /run/tun c 10 200
        mount --bind /run/tun "$2/dev/net/tun"
    fi
    for folder in etc/docker var; do mount -t tmpfs -o mode=755 tmpfs "$2/$folder"; done
    mkdir /run/old "$2/var/lib" "$2/var/tmp"
    cd "$2" && pivot_root . run/old && umount -l run/old
fi
shift 2
exec setpriv --pdeathsig TERM -- "$@"
"""


class Daemon:
    """A daemon below `root`, a folder with a short path, which is removed with it.

    Args:
        root: the folder, empty.
        system: the root of the system that the daemon is from; this machine's if None. It also sees /tmp.
        kind: what it is, of `engine_kinds`.
        store: where it keeps images: a storage driver, or CONTAINERD for its image store (Docker 23).
        data: its data root, if that is to outlast it; the caller makes and removes it.
        options: more of the daemon's.
        name: the name of the machine, in a namespace of its own; this machine's if it is empty.
    """

    def __init__(
        self,
        root: Path,
        system: Path | None = None,
        *,
        kind: str = DOCKER,
        store: str = "overlay2",
        data: Path | None = None,
        options: Sequence[str] = (),
        name: str = "",
    ) -> None:
        self.root, self._name = root, name
        self.system = system
        self._kind = kind
        self._store = store
        self._options = options
        self.homes = root / "homes"
        self.homes.mkdir(mode=0o711)
        self.data = data or root / "data"
        self._folders = Folders(root, self.data)
        self.socket = self._folders.socket
        self.log = root / "dockerd.log"
        self.cgroup = f"{_NAME}{os.getpid()}-{time.monotonic_ns():x}"
        self._process: subprocess.Popen[bytes] | None = None
        self._namespaces: dict[str, str] = {}
        self.data.mkdir(exist_ok=data is not None)
        _remove_stale()
        self._mounted = data is None and store not in SPACIOUS and _available_memory() >= ROOMY
        if self._mounted:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "mode=710", self.cgroup, str(self.data)], check=True
            )

    @property
    def pid(self) -> int:
        """The daemon's first process, which is in its namespaces."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert self.system is None or self.root.is_relative_to("/tmp"), self.root
        features = {"features": {"containerd-snapshotter": self._store == CONTAINERD}} if self.system else {}
        (self.root / "daemon.json").write_text(json.dumps(features))
        if self._kind in WITHOUT_ROOT:
            for folder in (self.root, self.data):
                os.chown(folder, OWNER, OWNER)
        starting = [
            *("unshare", "--mount", "--net", "--propagation", "private", *(["--uts"] if self._name else [])),
            *("sh", "-c", _SCRIPT, "start", str(self.root), str(self.system or "")),
            *command(self._kind, self._folders, self._store, self.cgroup, self._options),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                starting,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "NEW_HOST_NAME": self._name},
            )
        self._await()
        self._namespaces = {kind: _namespace(self.pid, kind) for kind in ("net", "mnt")}
        for kind, own in self._namespaces.items():
            assert own != _namespace(os.getpid(), kind), f"the second engine has not its own {kind}"

    def _await(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            said = self.log.read_text(errors="replace")[-2000:]
            assert self._process.poll() is None, f"the second engine ended at once:\n{said}"
            assert time.monotonic() < deadline, f"the second engine does not answer:\n{said}"
            time.sleep(0.02)

    def crash(self) -> None:
        """Kill the daemon alone, and start it again in the same namespaces, as systemd does."""
        assert self._process is not None
        held = [os.open(f"/proc/{self.pid}/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt")]
        try:
            self._process.kill()
            self._process.wait()
            for pid, name in self.processes().items():
                if name == "containerd":  # its child, which keeps its files locked; containers live on
                    _kill(pid)
            net, mount = (f"/proc/{os.getpid()}/fd/{each}" for each in held)
            starting = ["nsenter", f"--net={net}", f"--mount={mount}", "setpriv", "--pdeathsig", "TERM", "--"]
            started = command(self._kind, self._folders, self._store, self.cgroup, self._options)
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*starting, *started],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._await()
        finally:
            for each in held:
                os.close(each)

    def end(self) -> None:
        """End it and everything it started, and remove everything it made."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        deadline = time.monotonic() + PATIENCE
        while left := self.processes():
            assert time.monotonic() < deadline, f"still there: {left}"
            for pid in left:
                _kill(pid)
            time.sleep(0.02)
        for parent in (CGROUPS, *CGROUPS.glob("*/")):
            _remove_cgroup(parent / self.cgroup)
        if self._mounted:
            subprocess.run(["umount", str(self.data)], check=True)
        # Ten times as fast as shutil.rmtree, with tens of thousands of files.
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.root)], check=True)

    def processes(self) -> dict[int, str]:
        """Return the processes in its mounts or network: names by number."""
        mine = set(self._namespaces.items())
        return {
            pid: name
            for pid, name in _running()
            if mine & {("net", _namespace(pid, "net")), ("mnt", _namespace(pid, "mnt"))}
        }

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(PATIENCE)
            try:
                asking.connect(str(self.socket))
                asking.sendall(b"GET /_ping HTTP/1.0\r\nHost: d\r\n\r\n")
                return b" 200 " in asking.recv(4096)
            except OSError:
                return False


def _remove_stale() -> None:
    """Free the memory of daemons whose tests were killed; the daemons themselves ended with those."""
    for line in Path("/proc/mounts").read_text().splitlines():
        source, point = line.split()[:2]
        if source.startswith(_NAME) and not Path("/proc", source.removeprefix(_NAME).split("-")[0]).exists():
            subprocess.run(["umount", "--lazy", point], check=False)


def _available_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def _running() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "comm").read_text().strip()
        except OSError:
            continue


def _namespace(pid: int, kind: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _remove_cgroup(folder: Path) -> None:
    if folder.is_dir():
        for below in folder.glob("*/"):
            _remove_cgroup(below)
        folder.rmdir()

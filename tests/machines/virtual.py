"""A virtual machine with the kernel of a Debian release: systemd, cgroup v2, AppArmor, its own Docker engine.

QEMU emulates the processor, so that no KVM is needed: 15 to 20 times slower than the machine it runs on. It
is made from the mirror that this machine's apt uses, the locked packages, and images of the engine here; the
slowest part, the system without images, is cached under a digest of its recipe.

Needs root, `mmdebstrap`, `qemu-system-x86_64`, `mke2fs` and `ssh`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.machines import debian, wheel

from holdfast.engine.engine import Engine
from holdfast.images import authorities, build

PACKAGES = (
    *("apparmor", "ca-certificates", "containerd", "dbus", "docker.io", "initramfs-tools"),
    *("iproute2", "iptables", "kmod", "linux-image-cloud-amd64", "openssh-server", "procps", "python3"),
    *("python3-venv", "runc", "systemd", "systemd-resolved", "systemd-sysv", "udev"),
)
RELEASES = {
    "bookworm": ("3.11", ()),
    debian.SUITE: ("3.13", ("docker-cli",)),
    "sid": ("3.14", ("docker-cli",)),
}
"""By suite: its version of Python, and packages that only some have."""
LOCK = wheel.ROOT / "requirements.lock"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""The path of the project there; tags of images depend on it, so it equals the one here."""
PROJECT = "/root/project"
"""The path of the project's tests there."""
BOOT_SECONDS = 900.0
"""The limit until its engine answers; 45 s on an idle machine."""
MEMORY, DISK = "5120", "16G"
# Without la57 and cmpxchg16b, which QEMU 7.2 emulates wrongly: the kernel's flags are lost in the allocator.
PROCESSOR = ("-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max,la57=off,cx16=off", "-smp", "2")

_CONFIGURE = """
set -eu
cd "$1"
echo '/dev/vda / ext4 defaults,noatime 0 1' > etc/fstab
echo vm > etc/hostname
echo '127.0.0.1 localhost vm' > etc/hosts
printf '[Match]\\nName=eth*\\n[Network]\\nDHCP=yes\\n' > etc/systemd/network/10-eth.network
chroot . systemctl --quiet enable systemd-networkd systemd-resolved ssh docker
chroot . systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer \
    systemd-networkd-wait-online.service
ln -sf /run/systemd/resolve/stub-resolv.conf etc/resolv.conf
mkdir -p root/.ssh var/wheels && chmod 700 root/.ssh
cp -L "$2" etc/ssl/certs/ca-certificates.crt
# What an administrator added is named in the tags of images; what a distribution knows differs by release.
rm -r usr/share/ca-certificates && cp -a "$4" usr/share/ca-certificates
cp "$3"/*.whl var/wheels
chroot . python3 -m venv /opt/venv
chroot . sh -c '/opt/venv/bin/pip install --quiet --no-index --no-deps /var/wheels/*.whl'
rm -r var/wheels
"""
# An engine in the new system loads the images before it boots: ten times as fast as in there. The system is
# its root, so that it runs with its own containerd; it needs neither a network nor iptables for that.
_LOAD = """
set -eu
mount --bind "$1" "$1"
cd "$1"
for folder in proc dev sys; do mount --rbind "/$folder" "$folder"; done
mount -t tmpfs tmpfs run
touch run/images.tar && mount --bind "$2" run/images.tar
mkdir -p run/old && pivot_root . run/old && umount -l run/old
export DOCKER_HOST=unix:///run/loading.sock
dockerd --iptables=false --bridge=none --host "$DOCKER_HOST" --pidfile /run/loading.pid \
    --exec-root /run/loading > /run/loading.log 2>&1 &
until docker version > /dev/null 2>&1; do kill -0 $! || { cat /run/loading.log; exit 1; }; done
docker load --quiet --input /run/images.tar
kill $! && wait $! || true
"""


class VirtualMachine:
    """The machine while it runs; files of one run are in `folder`, the kept systems in `cache`."""

    def __init__(self, folder: Path, cache: Path, images: Iterable[str], suite: str = debian.SUITE) -> None:
        self._folder = folder
        self._key = folder / "key"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        system = folder / "system"
        subprocess.run(["cp", "-a", "--reflink=auto", _kept_system(cache, suite), system], check=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._key], check=True)
        shutil.copy(self._key.with_suffix(".pub"), system / "root/.ssh/authorized_keys")
        self._install(system)
        archive = folder / "images.tar"
        subprocess.run(["docker", "save", "--output", archive, *images], check=True)
        command = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", _LOAD, "load"]
        subprocess.run([*command, system, archive], check=True)
        archive.unlink()
        self._disk = folder / "disk.img"
        subprocess.run(["truncate", "--size", DISK, self._disk], check=True)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", system, self._disk], check=True)
        self._kernel = next((system / "boot").glob("vmlinuz-*"))
        self._initrd = next((system / "boot").glob("initrd.img-*"))

    @property
    def console(self) -> Path:
        """The output of the machine on its serial line."""
        return self._folder / "console.log"

    def run(self, command: str, *, seconds: float = 900.0) -> subprocess.CompletedProcess[str]:
        """Run a shell command in it, as root, with `holdfast` on the path."""
        environment = f"PATH=/opt/venv/bin:$PATH SSL_CERT_FILE={AUTHORITIES} HOLDFAST_HOME=/var/lib/holdfast"
        return subprocess.run(
            [*self._ssh(), f"export {environment}; {command}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def fetch(self, path: Path, to: Path) -> None:
        """Copy a file of the machine to this one."""
        with to.open("wb") as file:
            subprocess.run([*self._ssh(), f"cat {path}"], stdin=subprocess.DEVNULL, stdout=file, check=True)

    def passes(self, *tests: str, seconds: float = 7200.0) -> None:
        """Run tests of the project there, which must pass."""
        command = f"cd {PROJECT} && python -m pytest -q -p no:cacheprovider --timeout={seconds:.0f}"
        done = self.run(f"{command} {shlex.join(tests)}", seconds=seconds)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

    def holdfast(self, *arguments: str) -> str:
        """Return the output of the command line there; it must succeed."""
        done = self.run(shlex.join(["holdfast", *arguments]))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __enter__(self) -> VirtualMachine:
        """Boot it, and wait until its engine answers."""
        # If the tests are killed, so is the machine.
        command = ["setpriv", "--pdeathsig", "KILL", "--", "nice"]
        command += ["qemu-system-x86_64", *PROCESSOR, "-m", MEMORY, "-display", "none", "-no-reboot"]
        drive = f"file={self._disk},format=raw,if=virtio,cache=unsafe"
        network = f"user,id=n0,hostfwd=tcp:127.0.0.1:{self._port}-:22"
        parameters = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off quiet"
        command += ["-serial", f"file:{self.console}", "-drive", drive, "-netdev", network]
        command += ["-device", "virtio-net-pci,netdev=n0", "-device", "virtio-rng-pci"]
        command += ["-kernel", str(self._kernel), "-initrd", str(self._initrd), "-append", parameters]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._answers():
            said = self.console.read_text(errors="replace")[-2000:] if self.console.exists() else ""
            assert self._process.poll() is None, f"the virtual machine ended:\n{said}"
            assert "Kernel panic" not in said, said
            assert time.monotonic() < deadline, f"the virtual machine does not answer:\n{said}"
            time.sleep(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        subprocess.run(["rm", "-rf", "--one-file-system", self._folder], check=True)

    def _answers(self) -> bool:
        try:
            return self.run("docker version", seconds=60).returncode == 0
        except subprocess.TimeoutExpired:  # what was begun before its network was up may hang
            return False

    def _ssh(self) -> list[str]:
        options = [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "ConnectTimeout=30",
            "LogLevel=ERROR",
        ]
        told = [word for option in options for word in ("-o", option)]
        return ["ssh", *told, "-p", str(self._port), "-i", str(self._key), "root@127.0.0.1"]

    def _install(self, system: Path) -> None:
        source = self._folder / "source"
        wheel.copy_source(source)
        built = wheel.build(source, system / "root")
        pip = ["/opt/venv/bin/pip", "install", "--quiet", "--no-index", "--no-deps", f"/root/{built.name}"]
        subprocess.run(["chroot", system, *pip], check=True)
        built.unlink()
        wheel.copy_tests(Path(f"{system}{PROJECT}"))


def _kept_system(cache: Path, suite: str) -> Path:
    """Return the system without images and package, from the cache if it is there; remove an older one."""
    python, more = RELEASES[suite]
    recipe = repr((PACKAGES, more, suite, python, _CONFIGURE)).encode()
    digest = hashlib.sha256(recipe + LOCK.read_bytes() + AUTHORITIES.read_bytes()).hexdigest()[:16]
    system = cache / f"{suite}-{digest}"
    if system.exists():
        return system
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    for older in cache.glob(f"{suite}-*"):
        shutil.rmtree(older)
    making, wheels = cache / f"{suite}-making", cache / f"{suite}-wheels"
    debian.bootstrap(making, (*PACKAGES, *more), suite)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    kinds = ["manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "any"]
    download += [f"--platform={kind}" for kind in kinds]
    download += [f"--python-version={python}", "--implementation=cp"]
    download += [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
    subprocess.run([*download, "--dest", wheels, "--requirement", LOCK], check=True)
    command: list[str | Path] = [
        "sh",
        "-c",
        _CONFIGURE,
        "configure",
        making,
        AUTHORITIES,
        wheels,
        authorities.DISTRIBUTION_FOLDER,
    ]
    subprocess.run(command, check=True)
    shutil.rmtree(wheels)
    return making.rename(system)


def ours(folder: Path, suite: str = debian.SUITE) -> VirtualMachine:
    """Return a machine that has the images of this machine's engine; files of this run are in `folder`."""
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
    finally:
        engine.close()
    return VirtualMachine(folder, default_cache(), images, suite)


def default_cache() -> Path:
    """Return the place where the systems are kept between runs: 600 MB each."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches, "holdfast-virtual-machine")


def _free_port() -> int:
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])

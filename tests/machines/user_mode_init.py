"""The first process of a user-mode Linux: mounts file systems this machine lacks, and makes homes on them.

Prints a line of JSON for each, and powers off. Run by `user_mode.py`; the variables are kernel parameters.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import traceback
from pathlib import Path

TREE = Path(os.environ.get("TREE", ""))
MARK = "RESULT "
USER = 4322
MODULES = ("nfsd", "nfs", "nfsv4", "loop", "vfat", "nls_ascii", "nls_cp437")
_FINIT_MODULE, _POWER_OFF = 313, 0x4321FEDC  # <asm/unistd_64.h>, reboot(2)
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def run(*command: str | Path) -> None:
    """Run a command that must succeed; its complaints go to the console."""
    subprocess.run(command, check=True)


def mount(kind: str, point: str, options: str = "rw", source: str = "none") -> Path:
    """Mount a file system on a new folder."""
    Path(point).mkdir(parents=True, exist_ok=True)
    run("mount", "-i", "-t", kind, "-o", options, source, point)
    return Path(point)


def load(names: tuple[str, ...]) -> None:
    """Load modules of the kernel, each after its dependencies."""
    found = {path.stem.replace("-", "_"): path for path in TREE.glob("usr/lib/uml/modules/*/kernel/**/*.ko")}
    loaded: set[str] = set()

    def insert(name: str) -> None:
        if name in loaded:
            return
        loaded.add(name)
        depends = re.search(rb"\0depends=([^\0]*)", found[name].read_bytes())
        for other in depends[1].decode().split(",") if depends and depends[1] else []:
            insert(other.replace("-", "_"))
        with found[name].open("rb") as file:
            assert _LIBRARY.syscall(_FINIT_MODULE, file.fileno(), b"", 0) == 0, (name, ctypes.get_errno())

    for name in names:
        insert(name)


def serve(exports: dict[str, str]) -> None:
    """Serve folders below /mnt/exported by NFS, version 4.2, each with its options."""
    mount("tmpfs", "/mnt/exported")
    for folder in ("rpc_pipefs", "v4recovery", "nfsdcltrack"):
        Path("/var/lib/nfs", folder).mkdir(parents=True)
    for file in ("etab", "rmtab"):
        Path("/var/lib/nfs", file).touch()
    mount("nfsd", "/proc/fs/nfsd")
    mount("rpc_pipefs", "/var/lib/nfs/rpc_pipefs")
    common = "rw,insecure,no_subtree_check"
    run("exportfs", "-i", "-o", f"{common},fsid=0,crossmnt", "127.0.0.1:/mnt/exported")
    for number, (name, options) in enumerate(exports.items(), 1):
        place = mount("tmpfs", f"/mnt/exported/{name}", "mode=1777")
        run("exportfs", "-i", "-o", f"{common},fsid={number},{options}", f"127.0.0.1:{place}")
    run("rpc.nfsd", "--host", "127.0.0.1", "--no-nfs-version", "3", "2")
    Path("/proc/fs/nfsd/v4_end_grace").write_text("Y\n")  # new locks are given out only then
    run("rpc.mountd", "--no-nfs-version", "2", "--no-nfs-version", "3")


def report(name: str, point: Path) -> None:
    """Have an ordinary user make a home there, and report whether root can look into it, as the engine
    must."""
    home = point / "home"
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    as_user += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # for the interpreter
    done = subprocess.run(
        [*as_user, os.environ["PYTHON"], "-m", "holdfast", "ls"],
        env={"PATH": os.environ["PATH"], "HOLDFAST_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        root = (home / "holdfast.db").exists()
    except OSError:
        root = False
    found = {"name": name, "code": done.returncode, "said": done.stderr, "root": root}
    os.write(1, f"{MARK}{json.dumps(found)}\n".encode())


def main() -> None:
    """Try NFS, whose server trusts root or not, and vfat."""
    folders = ("usr/sbin", "sbin", "usr/bin", "bin")
    os.environ["PATH"] = ":".join([*(f"{TREE}/{one}" for one in folders), *(f"/{one}" for one in folders)])
    os.environ["LD_LIBRARY_PATH"] = f"{TREE}/usr/lib/x86_64-linux-gnu:{TREE}/lib/x86_64-linux-gnu"
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    for point in ("/run", "/mnt", "/var/lib"):
        mount("tmpfs", point)
    run("ip", "link", "set", "lo", "up")
    load(MODULES)
    exports = {"squashed": "root_squash", "open": "no_root_squash"}
    serve(exports)
    for name in exports:
        options = "vers=4.2,soft,addr=127.0.0.1,clientaddr=127.0.0.1"
        report(f"nfs, {exports[name]}", mount("nfs4", f"/mnt/{name}", options, f"127.0.0.1:/{name}"))
    image = Path("/mnt/disk.img")
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("mkfs.fat", image)
    report(
        "vfat",
        mount("vfat", "/mnt/vfat", f"loop,uid={USER},gid={USER},umask=077,iocharset=ascii", str(image)),
    )


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001 - the machine ends before Python would show it
        traceback.print_exc()
    finally:
        os.sync()
        _LIBRARY.reboot(_POWER_OFF)

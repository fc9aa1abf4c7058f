"""Another kernel within seconds: Debian's user-mode Linux, an ordinary process on this machine's own files.

It has file systems that this machine's kernel can lack, NFS above all, with server and client; no engine.
It writes to nothing of this machine. Needs nothing installed: `setup/unpacked` fetches it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.machines import user_mode_init
from tests.machines.unpacked import program

PACKAGES = (
    *("user-mode-linux", "nfs-kernel-server", "nfs-common", "dosfstools", "libtirpc3", "libwrap0", "libnsl2"),
    *("libevent-core-2.1-7", "libkeyutils1", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3"),
    *("libkrb5support0", "libcom-err2"),
)
MEMORY = "512M"
SECONDS = 600.0


def homes() -> dict[str, Any]:
    """Return the result of a home on each file system, by its name: see `user_mode_init.report`."""
    kernel = program("usr/bin/linux.uml", *PACKAGES)
    script = Path(user_mode_init.__file__)
    # A script of its own, as the kernel wants one word; the interpreter's path may be long.
    done = subprocess.run(
        [
            kernel,
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"mem={MEMORY}", "quiet"),
            *("con=null", "con0=fd:0,fd:1", f"init={sys.executable}"),
            *(f"TREE={kernel.parents[2]}", f"PYTHON={sys.executable}", "--", str(script)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    lines = (line.strip() for line in done.stdout.splitlines())
    marked = [
        line.removeprefix(user_mode_init.MARK) for line in lines if line.startswith(user_mode_init.MARK)
    ]
    found = [json.loads(line) for line in marked]
    assert "Traceback" not in done.stdout, done.stdout[-4000:] + done.stderr[-1000:]
    return {each["name"]: each for each in found}

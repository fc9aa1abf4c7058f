"""What the checkpointer answers to a greeting: what snapshots made here depend on.

It is determined once, before the first request: CRIU is asked, and the kernel.
"""

from __future__ import annotations

import functools
import os
import subprocess

from holdfast.snapshots.checkpointer.criu import host_features


@functools.cache
def versions() -> dict[str, object]:
    """Return the versions of CRIU and of the kernel, the kind of machine, and what memory depends on."""
    printed = subprocess.run(["/usr/sbin/criu", "--version"], capture_output=True, text=True, check=True)
    system = os.uname()
    return {
        "criu": printed.stdout.partition("Version:")[2].split()[0],
        "kernel": system.release,
        "machine": system.machine,
        "about": host_features.look(),
    }

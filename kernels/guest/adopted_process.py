"""The process of a kernel that another supervisor has started, as jupyter_client wants to have it.

The library drives a `subprocess.Popen`, which cannot be made of a process that is not a child. Messages of
kernels are not known here.
"""

from __future__ import annotations

import os
from typing import Any


class AdoptedProcess:
    """The part of a Popen that a provisioner of jupyter_client uses; the reaper sets `returncode`."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or the negative number of a signal; None while it runs."""
        return self.returncode

    def wait(self) -> int | None:
        """Return the same, without waiting: the library asks only after `poll` has known it."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)


async def attach(manager: Any, process: AdoptedProcess) -> None:
    """Make a manager, as if it had started the process, which leads its process group."""
    from jupyter_client.provisioning.factory import KernelProvisionerFactory

    factory = KernelProvisionerFactory.instance(parent=manager.parent)
    provisioner: Any = factory.create_provisioner_instance(
        manager.kernel_id, manager.kernel_spec, parent=manager
    )
    provisioner.process, provisioner.pid, provisioner.pgid = process, process.pid, process.pid
    manager.provisioner = provisioner

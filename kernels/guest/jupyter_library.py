"""The parts of jupyter_client that kernels need: its late import, and replacements.

It would import IPython to find a spec, and drive a `subprocess.Popen`, which cannot be made of a process that
another supervisor has started. Messages of kernels are not known here.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.kernels.guest import kernel_specs

_IMPORT_SWITCH = 0.0005
"""Seconds the importing thread can keep the interpreter while the loop wants it."""
_LIBRARY = "jupyter_client.manager"


class KernelFailure(Exception):
    """The kernel could not be started; the message says why."""


class UnknownSpec(KernelFailure):
    """There is no kernel spec with that name."""


async def load_library() -> None:
    """Import jupyter_client in a thread that ends with it: shells must not wait for 200 ms of imports.

    Raises:
        KernelFailure: there is no room for another thread.
    """
    if _LIBRARY in sys.modules:
        return
    loop = asyncio.get_running_loop()
    loaded = loop.create_future()

    def work() -> None:
        try:
            from jupyter_client.manager import AsyncKernelManager  # noqa: F401
            from jupyter_client.provisioning.factory import KernelProvisionerFactory

            KernelProvisionerFactory.instance()
        finally:
            loop.call_soon_threadsafe(loaded.set_result, None)

    thread = threading.Thread(target=work, name="import", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        from holdfast.runtime.guest.pulse import cgroup_limits  # few sessions need it

        raise KernelFailure(f"cannot start a kernel: {cgroup_limits.lacks_processes()}") from None
    patience = sys.getswitchinterval()
    sys.setswitchinterval(_IMPORT_SWITCH)
    await loaded
    thread.join()
    sys.setswitchinterval(patience)


def one_spec(spec: kernel_specs.FoundSpec, command: list[str]) -> Any:
    """Return a finder of one spec, given everything it would import IPython for: 20 MB for a path."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

    class OneSpec(KernelSpecManager):
        def get_kernel_spec(self, _name: str) -> Any:
            return found

    taken = ("display_name", "language", "env", "interrupt_mode", "metadata")
    fields = {key: spec.fields[key] for key in taken if key in spec.fields}
    found = KernelSpec(argv=command, resource_dir=str(spec.folder), **fields)
    return OneSpec(ensure_native_kernel=False, kernel_dirs=[])


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
        """Return the same without waiting: the library calls this only after `poll` has succeeded."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)


async def attach(manager: Any, process: AdoptedProcess) -> None:
    """Make a manager, as if it had started this process, a process group leader."""
    from jupyter_client.provisioning.factory import KernelProvisionerFactory

    factory = KernelProvisionerFactory.instance(parent=manager.parent)
    provisioner: Any = factory.create_provisioner_instance(
        manager.kernel_id, manager.kernel_spec, parent=manager
    )
    provisioner.process, provisioner.pid, provisioner.pgid = process, process.pid, process.pid
    manager.provisioner = provisioner

"""The kernels of a session beside the main one: what there is, listed, opened, closed.

What is done in a kernel (`cell`, `interrupt`, `restart`) takes its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.guest_rpc import call_arguments

if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

PYTHON = "python3"
"""The kernel spec of every image that has kernels."""


class SessionKernels:
    """The kernels of one session. `main` is always there; others last until they are closed."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    def list(self) -> tuple[KernelInfo, ...]:
        """Return all kernels, the main one first.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.kernel_report import Kernels

        return Kernels.of(self._line.request("hello").head).kernels

    def specs(self) -> tuple[KernelSpecInfo, ...]:
        """Return the specs of Jupyter that are found in the session, by their names, 100 at most.

        They are those of the image, of the user, and of the environments whose `python` or `jupyter` is on
        the path. Whether a kernel of one works is seen when it is opened.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.kernel_report import KernelSpecs

        return KernelSpecs.of(self._line.request("kernel_specs").head).specs

    def open(self, name: str, *, spec: str = PYTHON, cwd: str | None = None) -> KernelInfo:
        """Open a kernel, or return the one of that name that is open already.

        It is a process of its own with its own variables, and is captured, restored and forked with the
        session. A restore without processes has the main one only.

        Args:
            name: up to 40 letters, digits, `-` and `_`.
            spec: one of `specs`, by its name.
            cwd: the directory in which it starts, also after a restart; the session's workspace by default.

        Raises:
            InvalidArgument: the name is not valid, one of that name but of another spec is open, or the
                session has no such directory.
            KernelNotFound: the image has no such spec.
            GuestError: there are 16 already, or it did not start.
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.kernel_report import kernel_reported

        asked: dict[str, Any] = {
            "kernel": call_arguments.text(name, "kernel"),
            "spec": call_arguments.text(spec, "spec"),
        }
        if cwd is not None:
            asked["cwd"] = call_arguments.text(cwd, "cwd")
        return kernel_reported(self._line.request("kernel_open", slow=True, **asked).head)

    def close(self, name: str, *, force: bool = False) -> None:
        """End a kernel, and forget its variables and cells.

        Args:
            name: any but `main`.
            force: also if a cell runs in it, which dies.

        Raises:
            KernelNotFound: the session has no kernel of that name.
            SessionBusy: a cell runs in it.
            InvalidArgument: it is the main one.
            SessionDead, SessionError: the session cannot be used.
        """
        self._line.request("kernel_close", kernel=call_arguments.text(name, "kernel"), force=force)

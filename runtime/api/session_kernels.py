"""The kernels of a session, as its handle offers them: cells run in them, and they are opened and closed."""

from __future__ import annotations

from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.kernel_calls import OnEvent, OnInput
    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.results import CellResult
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.guest_rpc.shell_calls import OnStart


class SessionKernel:
    """Runs code in the kernels of one session."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    @call_arguments.awaits_nothing
    def cell(
        self,
        code: str,
        *,
        timeout: float | None = None,
        busy_wait: float | None = None,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        key: str | None = None,
        reason: str | None = None,
        patience: float | Patience | None = None,
        on_start: OnStart | None = None,
        kernel: str = defaults.MAIN,
        before: str | None = None,
    ) -> CellResult:
        """Run code in the kernel and wait for its end. Code that raises is a result.

        Args:
            code: in the kernel's language.
            timeout: seconds after which it is interrupted.
            busy_wait: seconds to wait while the kernel runs another cell; else SessionBusy is raised at
                once.
            on_event: called with output, displays and errors as they come.
            on_input: called for a line when the code reads input: (prompt, is it a password) -> line. If
                it raises EOFError, the code is interrupted. Without it the result says what the code is
                `waiting` for; `answer` continues it.
            key: as for `exec`.
            reason: as for `exec`.
            patience: seconds after which the result says that it still runs, or a `Patience`. They count
                from the moment the session takes it; before that, others can have the kernel. `join`
                follows it further.
            on_start: called with its id when the session takes it; its code runs as soon as the kernel does.
            kernel: which of the session's kernels.
            before: code that is run first, in the same turn and without a trace: it shows nothing, raises
                nothing, and is neither counted nor journalled. Up to 256 Ki characters.

        Raises:
            SessionBusy: the kernel runs another cell, or the patience was ended before the cell began.
            KernelNotFound: the session does not have a kernel with that name.
            KernelDied: the kernel's process ended.
            InvalidArgument: `on_input` had no more lines, or the key was used for other code.
            OutcomeUnknown: as for `exec`.
        """

        def call() -> CellResult:
            with self._line.explained():
                if not self._line.captures():
                    return run()
                from holdfast.runtime.capture import autosnapshot

                return autosnapshot.around(self._line, code, run, autosnapshot.of_cell)

        def run() -> CellResult:
            from holdfast.runtime.guest_rpc.kernel_calls import KernelCall

            running = KernelCall(
                self._line.client(),
                self._line.reconnection(wakes=True),
                code,
                kernel=kernel,
                timeout=timeout,
                on_event=on_event,
                on_input=on_input,
                key=key,
                reason=reason,
                busy_wait=busy_wait,
                patience=patience,
                before=before,
            )
            running.on_start = on_start
            return running.run()

        self._line.begins()
        if key is None:
            return call()
        from holdfast.runtime.guest_rpc.idempotency import cell_once

        return cell_once(self._line.context, self._line.known, key, code, kernel, call)

    @call_arguments.awaits_nothing
    def join(
        self,
        cell_id: str,
        *,
        after: int = 0,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        patience: float | Patience | None = None,
        kernel: str = defaults.MAIN,
    ) -> CellResult:
        """Follow a cell that was started elsewhere, or before a restore. As `cell`.

        Args:
            cell_id: of its result, or as `on_start` receives it.
            after: the `seq` of the last event that is known; 0 for all.
            on_event: called with what it showed after that, then as it comes.
            on_input: as for `cell`, like `patience`.
            patience: see `on_input`.
            kernel: which of the session's kernels.

        Raises:
            CommandNotFound: the kernel does not know the cell, or no longer.
        """
        from holdfast.runtime.guest_rpc.kernel_calls import KernelCall

        with self._line.explained():
            return KernelCall(
                self._line.awake().client(),
                self._line.reconnection(),
                "",
                kernel=kernel,
                timeout=None,
                on_event=on_event,
                on_input=on_input,
                joined=(call_arguments.text(cell_id, "cell"), after),
                patience=patience,
            ).run()

    @call_arguments.awaits_nothing
    def answer(
        self,
        waiting: CellResult,
        text: str,
        *,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        patience: float | Patience | None = None,
        kernel: str = defaults.MAIN,
    ) -> CellResult:
        """Answer a cell that waits for input, and follow it from there; otherwise as `cell`.

        Raises:
            GuestError: no cell of that kernel waits.
        """
        from holdfast.runtime.guest_rpc.reply import answer_cell

        with self._line.explained():
            return answer_cell(
                self._line,
                waiting,
                text,
                kernel=kernel,
                on_event=on_event,
                on_input=on_input,
                patience=patience,
            )

    def interrupt(self, kernel: str = defaults.MAIN, *, cell_id: str | None = None) -> None:
        """Interrupt the kernel; with `cell_id` only that cell, if it is still running.

        A cell whose kernel still starts ends immediately, and is never run.
        """
        only: dict[str, Any] = {} if cell_id is None else {"only": call_arguments.text(cell_id, "cell")}
        self._line.request("kernel_interrupt", kernel=kernel, **only)

    def restart(self, kernel: str = defaults.MAIN) -> None:
        """End the kernel and start a new one; its variables are lost."""
        self._line.request("kernel_restart", slow=True, uses=True, kernel=kernel)


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
        """Return the Jupyter specs found in the session, by their names, at most 100.

        They come from the image, the user, and the environments whose `python` or `jupyter` is on the path.
        Whether a kernel of one works is seen when it is opened.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.kernel_report import KernelSpecs

        return KernelSpecs.of(self._line.request("kernel_specs").head).specs

    def open(self, name: str, *, spec: str = PYTHON, cwd: str | None = None) -> KernelInfo:
        """Open a kernel, or return the open kernel with that name.

        It is a process of its own with its own variables, and is captured, restored and forked with the
        session. A restore without processes has the main one only.

        Args:
            name: up to 40 letters, digits, `-` and `_`.
            spec: one of `specs`, by its name.
            cwd: the directory in which it starts, also after a restart; the session's workspace by default.

        Raises:
            InvalidArgument: the name is not valid, one of that name but of another spec is open, or the
                session does not have that directory.
            KernelNotFound: the image does not have that spec.
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
        return kernel_reported(self._line.request("kernel_open", slow=True, uses=True, **asked).head)

    def close(self, name: str, *, force: bool = False) -> None:
        """End a kernel, and forget its variables and cells.

        Args:
            name: any but `main`.
            force: also if a cell runs in it, which dies.

        Raises:
            KernelNotFound: the session does not have a kernel with that name.
            SessionBusy: a cell runs in it.
            InvalidArgument: it is the main one.
            SessionDead, SessionError: the session cannot be used.
        """
        self._line.request("kernel_close", kernel=call_arguments.text(name, "kernel"), force=force)

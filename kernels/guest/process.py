"""Starts a Jupyter kernel and speaks with it. jupyter_client does the work and is imported late.

It turns channels into callbacks; it does not know cells, clients or journals.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from holdfast.kernels.guest.jupyter_library import (
    AdoptedProcess,
    KernelFailure,
    UnknownSpec,
    attach,
    one_spec,
)
from holdfast.kernels.guest.kernel_channel import KernelChannel, Monitor, new_socket
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.identity.account import UserAccount, expose_to_oom, working_directory
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.layout import DEFAULT_SPEC, KERNEL_STARTER
from holdfast.runtime.guest.pulse import access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.kernels.guest import kernel_specs

READY_PATIENCE = 60.0
"""Seconds in which a kernel answers. One that waits for the processor at their end has as many again."""
READY_TURNS = 10
"""How often in all: a machine can be too busy for any number."""
STARTS_WITHIN = 20.0
"""Seconds of the processor in which a kernel starts, unless it hangs in a loop."""
_ASK_AGAIN = 0.25
_LOG_LIMIT = 1 << 20
_LEAST_FREE = 16
"""Processes and threads that must be free: two threads of zmq's, the kernel and its own."""
_DIGESTS = 1024
"""Signatures kept against replays: the library's 65536 would cost 10 MB."""
_LAST_WORDS = 0.01
"""Seconds without a message after which an ended process is taken to have sent everything."""
_BEHIND_OUTPUT = 0.01
"""Seconds a question waits for the output before it. There is no order between a kernel's sockets."""
_DELIMITER = b"<IDS|MSG>"
"""Stands before the signature of a message."""
_REQUEST = {
    "code": "",
    "silent": False,
    "store_history": True,
    "user_expressions": {},
    "allow_stdin": True,
    "stop_on_error": True,
}
_SILENT = {
    **_REQUEST,
    "silent": True,
    "store_history": False,
    "allow_stdin": False,
    "stop_on_error": False,
}

_PARENT = {"JPY_PARENT_PID": "1"}
"""The process that ipykernel checks each second, in order to end with it; PID 1 is not checked for."""
_STILL = (
    "(lambda shell: (lambda thread: (thread.io_loop.add_callback(thread._event_pipe_gc_task.cancel), "
    "shell.events.register('post_run_cell', lambda *_: thread.io_loop.add_callback(thread._event_pipe_gc))"
    ") and None)(shell.kernel.iopub_thread))(get_ipython())"
)
"""Makes ipykernel clean up at the end of each cell, not every ten seconds, so that it sleeps when idle."""

logger = logging.getLogger(__name__)

Message = dict[str, Any]
Listener = Callable[[str, Message], None]


class KernelProcess:
    """One process of a kernel, from its start to its end. It is not started twice."""

    def __init__(
        self,
        spec: str,
        folder: Path,
        account: UserAccount,
        workspace: Path,
        reaper: Reaper,
        marks: Mapping[str, str],
        python: str | None = None,
    ) -> None:
        """Prepare the process.

        `marks` are added to its environment. `python` is the interpreter for the spec `python3`; by default
        the spec's own.
        """
        self.spec = spec
        self._python = python if spec == DEFAULT_SPEC else None
        self._marks = marks
        self.pid: int | None = None
        self.language = ""
        """The language the kernel reports, in lower case."""
        self.info = b""
        """Its answer to a question about itself, as JSON; empty until it has one."""
        self.epoch = 0
        self.ended = asyncio.Event()
        self.returncode: int | None = None
        self.replaced = False
        """True if it was ended in order to be restarted."""
        self.leaving = False
        """True once it has said that it will end."""
        self._folder = folder
        self._account = account
        self._workspace = workspace
        self._reaper = reaper
        self._manager: Any = None
        self._session: Any = None
        self._channels: dict[str, KernelChannel] = {}
        self._listen: Listener = _ignore
        self._log = folder / "kernel.log"

    @property
    def launched_pid(self) -> int | None:
        """The process, also before the library that launches it has returned."""
        launched = getattr(self._manager and self._manager.provisioner, "process", None)
        return self.pid or (launched and int(launched.pid))

    async def start(self, listen: Listener) -> None:
        """Start the kernel and wait until it answers on all channels. `listen` gets (channel, message).

        Raises:
            KernelFailure: it could not be started.
        """
        self._listen = listen
        try:
            await self._launch()
        except KernelFailure:
            raise
        except Exception as error:
            raise KernelFailure(f"cannot start kernel {self.spec}: {error}") from error
        began = asyncio.get_running_loop().time()
        try:
            await self._in_time(self._ready())
        except TimeoutError:
            self.kill()
            waited = asyncio.get_running_loop().time() - began
            message = f"cannot start kernel {self.spec}: no answer in {waited:.0f} s{self._last_output()}"
            raise KernelFailure(message) from None
        if self.language == "python":
            self.ask({"still": _STILL})

    async def adopt(self, pid: int, kept: Mapping[str, Any], listen: Listener, *, busy: bool) -> None:
        """Continue with the process of another supervisor, given what `kept` returned there.

        `listen` as for `start`. A busy kernel is not waited for: it answers when its cell is over.

        Raises:
            KernelFailure: it cannot be reached; it still runs.
        """
        import zmq

        self._listen = listen
        try:
            zmq.Context.instance().socket(zmq.PAIR).close()
            manager = self._new_manager(self._account.environment(os.environ))
            manager.load_connection_info({**kept["connection"], "key": kept["connection"]["key"].encode()})
            self._session = manager.session
            self._session.session = kept["session"]
            self.pid, self.language = pid, str(kept["language"])
            await attach(manager, AdoptedProcess(pid))
            self._reaper.watch(pid, self._ended_adopted)
            await self._in_time(self._joined() if busy else self._ready())
        except KernelFailure:
            raise
        except Exception as error:
            raise KernelFailure(f"cannot reach kernel {self.spec}: {error}") from error
        logger.info("kernel %s: adopted, pid %s", self.spec, pid)

    def kept(self) -> dict[str, Any]:
        """Return the facts that a new supervisor needs to reach the process."""
        info = dict(self._manager.get_connection_info())
        return {
            "connection": {**info, "key": bytes(info["key"]).decode()},
            "session": self._session.session,
            "language": self.language,
        }

    def probe(self) -> str:
        """Send a request that the kernel answers once all earlier ones are done; return the message's id."""
        return self._send("shell", "kernel_info_request", {})

    def _ended_adopted(self) -> None:
        assert self.pid is not None
        process = cast(Any, self._manager.provisioner).process
        process.returncode = os.waitstatus_to_exitcode(self._reaper.status(self.pid))
        self._note_end(process)

    def _note_end(self, process: Any) -> None:
        logger.info("kernel %s: pid %s ended with %s", self.spec, process.pid, process.returncode)
        self.returncode = process.returncode
        self.ended.set()

    def execute(self, code: str, before: str | None = None) -> str:
        """Send code and return the id of the message; `before` is sent as a separate message."""
        self._trim_log()
        if before is not None:
            self._send("shell", "execute_request", {**_SILENT, "code": before})
        return self._send("shell", "execute_request", {**_REQUEST, "code": code})

    def ask(self, expressions: Mapping[str, str]) -> str:
        """Send expressions to be evaluated without a trace and return the id of the message."""
        return self._send("shell", "execute_request", {**_SILENT, "user_expressions": dict(expressions)})

    def answer(self, text: str) -> None:
        """Answer the kernel's request for input."""
        self._send("stdin", "input_reply", {"value": text})

    def pass_on(self, name: str, parts: Sequence[bytes]) -> None:
        """Send a message of a front end: header, parent's header, metadata, content and buffers.

        Raises:
            BlockingIOError: the kernel takes no more messages now.
        """
        import zmq

        if name not in self._channels:
            self._open(name)
        channel, signed = self._channels[name], self._session.sign(list(parts[:4]))
        try:
            channel.socket.send_multipart([_DELIMITER, signed, *parts], zmq.NOBLOCK)
        except zmq.Again:
            raise BlockingIOError from None
        channel.look_soon()

    async def interrupt(self) -> None:
        """Interrupt the running code in the way the kernel's spec requires."""
        if not self.ended.is_set():
            await self._manager.interrupt_kernel()

    def kill(self) -> None:
        """Kill the process, and its children in its process group."""
        if self.pid and not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Read the last messages of an ended process, then close the channels."""
        while self._channels:
            await asyncio.sleep(_LAST_WORDS)
            if not sum(channel.look() for channel in self._channels.values()):
                break
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        if self._manager is None:
            return
        # Otherwise its finalizer removes this file, perhaps when it is already the next kernel's.
        self._manager.cleanup_connection_file()
        if self._manager.has_kernel:
            with contextlib.suppress(Exception):
                await self._manager.cleanup_resources(restart=True)

    def _new_manager(self, environment: Mapping[str, str]) -> Any:
        import zmq.asyncio
        from jupyter_client.manager import AsyncKernelManager

        spec = self._found(environment)
        self._manager = manager = AsyncKernelManager(
            kernel_name=self.spec,
            context=zmq.asyncio.Context(zmq.Context.instance()),
            transport="ipc",
            ip=str(self._folder / "c"),
            connection_file=str(self._folder / "connection.json"),
            kernel_spec_manager=one_spec(spec, self._command(spec, environment)),
        )
        self._session = manager.session
        self._session.digest_history_size = _DIGESTS
        return manager

    async def _launch(self) -> None:
        import zmq

        from holdfast.runtime.guest.pulse import cgroup_limits

        if (free := cgroup_limits.free_processes()) is not None and free < _LEAST_FREE:
            # Its C library aborts this process where it cannot start a thread.
            raise KernelFailure(f"cannot start kernel {self.spec}: {cgroup_limits.lacks_processes()}")
        zmq.Context.instance().socket(zmq.PAIR).close()  # its threads begin now, and stay
        environment = self._account.environment(os.environ)
        manager = self._new_manager(environment)
        removal.discard(self._folder)
        self._folder.mkdir(parents=True, mode=0o700)
        manager.write_connection_file()
        self._account.own(self._folder, Path(manager.connection_file))
        with self._log.open("ab") as log, self._reaper.held():
            await manager.start_kernel(
                cwd=working_directory(self._workspace, self._account),
                env={**environment, **self._marks, **_PARENT, **self._choice()},
                independent=True,
                stdout=log,
                stderr=log,
                **self._identity(),
            )
            process = cast(Any, manager.provisioner).process
            self.pid = int(process.pid)
            expose_to_oom(self.pid)

            def ended() -> None:
                process.poll()
                self._note_end(process)

            self._reaper.watch(self.pid, ended)
        logger.info("kernel %s: started, pid %s", self.spec, self.pid)

    def _found(self, environment: Mapping[str, str]) -> kernel_specs.FoundSpec:
        """Return the spec.

        Raises:
            UnknownSpec: the session does not have a spec with that name.
        """
        from holdfast.kernels.guest import kernel_specs  # not before the shell is there

        places = kernel_specs.folders(environment, self._account.home)
        spec = kernel_specs.find(self.spec, places)
        if spec is None:
            known = ", ".join(each.name for each in kernel_specs.listed(places)) or "none"
            raise UnknownSpec(
                f"cannot start kernel {self.spec[:100]}: the session has no such kernel, but {known[:200]}"
            )
        return spec

    def _command(self, spec: kernel_specs.FoundSpec, environment: Mapping[str, str]) -> list[str]:
        if self._python is None:
            from holdfast.kernels.guest import kernel_specs

            return kernel_specs.command(spec, environment)
        if not os.path.isfile(self._python) or not os.access(self._python, os.X_OK):  # noqa: PTH113
            raise KernelFailure(
                f"cannot run cells in {self._python}: there is no such program in the session"
            )
        return [sys.executable, "-I", str(KERNEL_STARTER), "-f", "{connection_file}"]

    def _choice(self) -> dict[str, str]:
        return {} if self._python is None else {"HOLDFAST_PYTHON": self._python}

    def _identity(self) -> dict[str, Any]:
        account = self._account
        if not account.foreign:
            return {}
        return {"user": account.uid, "group": account.gid, "extra_groups": account.groups()}

    async def _in_time(self, answer: Coroutine[Any, Any, None]) -> None:
        """Wait for an answer of the kernel. Raises TimeoutError, KernelFailure."""
        waiting = asyncio.create_task(answer)
        try:
            for _ in range(READY_TURNS):
                await asyncio.wait({waiting}, timeout=READY_PATIENCE)
                if waiting.done():
                    return await waiting
                if not self._lacks_processor():
                    break
            raise TimeoutError
        finally:
            waiting.cancel()

    def _lacks_processor(self) -> bool:
        """Return whether the process would have started by now if the machine were less busy."""
        found = access.stat(self.pid) if self.pid is not None else None
        return found is not None and found.state in ("R", "D") and found.cpu < STARTS_WITHIN

    async def _ready(self) -> None:
        """Wait until all channels work.

        A kernel drops a question to the user if no client has joined its stdin channel yet, so that one is
        waited for first; then the kernel is asked for information until shell and iopub carry the answer.
        """
        asked: set[str] = set()
        answered: set[str] = set()
        joined, both = asyncio.Event(), asyncio.Event()

        def hear(channel: str, message: Message) -> None:
            if message["parent_header"].get("msg_id") in asked:
                answered.add(channel)
                if channel == "shell":
                    self.info = bytes(message["parts"][3])
                self._note_language(message)
                if {"shell", "iopub"} <= answered:
                    both.set()

        listen, self._listen = self._listen, hear
        info, monitor = self._manager.get_connection_info(), self._connect(joined)
        found = self._found_sockets(info)
        try:
            await self._unless_ended(joined, None)
            while not both.is_set():
                asked.add(self._send("shell", "kernel_info_request", {}))
                await self._unless_ended(both, _ASK_AGAIN)
        finally:
            if monitor:
                monitor.close()
            if found:
                found.cancel()
        self._listen = listen

    async def _joined(self) -> None:
        """Connect to a kernel that cannot answer before its cell is over."""
        joined = asyncio.Event()
        monitor = self._connect(joined)
        try:
            await self._unless_ended(joined, None)
        finally:
            if monitor:
                monitor.close()

    def _connect(self, joined: asyncio.Event | None = None) -> Monitor | None:
        """Connect all channels; the event is set once the kernel has answered on the control channel."""
        self._open("shell")
        self._open("iopub")
        return self._open("stdin", joined)

    def _open(self, name: str, joined: asyncio.Event | None = None) -> Monitor | None:
        """Connect a channel; the event is set when the kernel has answered on it."""
        info, socket = self._manager.get_connection_info(), new_socket(name, self._session.bsession)
        monitor = None if joined is None else Monitor(socket, joined.set)
        socket.connect(f"ipc://{info['ip']}-{info[f'{name}_port']}")
        self._channels[name] = KernelChannel(socket, partial(self._hear, name))
        return monitor

    def _found_sockets(self, info: Mapping[str, Any]) -> asyncio.Task[None] | None:
        """Begin to look for sockets of other names; the usual kernel has only the known ones."""
        if self.spec == DEFAULT_SPEC:
            return None
        from holdfast.kernels.guest.kernel_channel import keep_sockets_linked

        ports = [int(info[f"{name}_port"]) for name in ("stdin", "hb", "control", "iopub", "shell")]
        return asyncio.create_task(keep_sockets_linked(Path(info["ip"]), ports))

    def _note_language(self, message: Message) -> None:
        language = message["content"].get("language_info")
        if isinstance(language, dict) and isinstance(language.get("name"), str):
            self.language = language["name"].lower()

    async def _unless_ended(self, event: asyncio.Event, seconds: float | None) -> None:
        """Wait for an event, at most this long.

        Raises:
            KernelFailure: the process ended.
        """
        waits = [asyncio.create_task(each.wait()) for each in (event, self.ended)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.ended.is_set():
            raise KernelFailure(f"cannot start kernel {self.spec}: it ended{self._last_output()}")

    def _send(self, name: str, kind: str, content: dict[str, Any]) -> str:
        channel = self._channels[name]
        message = self._session.send(channel.socket, kind, content)
        channel.look_soon()
        return str(message["header"]["msg_id"])

    def _hear(self, name: str, parts: list[bytes]) -> None:
        try:
            _, message = self._session.feed_identities(parts)
            content = self._session.deserialize(message)
            content["parts"] = message[1:]
        except Exception:
            logger.exception("kernel %s: unreadable message on %s", self.spec, name)
            return
        if name == "stdin":
            # What was printed before the question comes by another socket, and may arrive later.
            asyncio.get_running_loop().call_later(_BEHIND_OUTPUT, self._listen, name, content)
        else:
            self._listen(name, content)

    def _trim_log(self) -> None:
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > _LOG_LIMIT:
                os.truncate(self._log, 0)

    def _last_output(self) -> str:
        try:
            words = " ".join(self._log.read_text(errors="replace").split())[-500:]
        except OSError:
            return ""
        return f"; its output ends with: {words}" if words else ""


def _ignore(_channel: str, _message: Message) -> None:
    return

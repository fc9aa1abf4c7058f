"""The supervisor's state, as operations see it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.kernels.guest.cell_journal import CellJournal
from holdfast.kernels.guest.kernel import RunningKernel
from holdfast.runtime.guest import holdfast_session
from holdfast.runtime.guest.adoption import Inheritance
from holdfast.runtime.guest.captures.capture_queue import CaptureQueue
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.files.uploads import FileCalls, Uploads
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.identity.engine_files import EngineFiles
from holdfast.runtime.guest.identity.hooks import Hooks
from holdfast.runtime.guest.identity.identity import WAITS, Awakening, Identity, publish
from holdfast.runtime.guest.jobs.jobs import Jobs
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.layout import DEFAULT_SPEC, MAIN, Layout
from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.programs.program import Programs
from holdfast.runtime.guest.pulse.death_watch import DeathWatch
from holdfast.runtime.guest.pulse.deaths import ProcessEnd
from holdfast.runtime.guest.pulse.origins import Origins
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.records.change_notes import ChangeNotes
from holdfast.runtime.guest.records.command_journal import CommandJournal
from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest.records.keyed import Keyed
from holdfast.runtime.guest.records.notifications import Notifications
from holdfast.runtime.guest.shells.open_shells import OpenShells, repeat_size_notice
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_access import ShellAccess
from holdfast.runtime.guest.shells.shell_program import ShellProgram
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.protocol import VERSION

if TYPE_CHECKING:
    from holdfast.runtime.guest.programs.ssh_server import SshServers
    from holdfast.runtime.guest.records.past_runs import PastRuns

GUEST_VERSION = "0.1.0"
MAX_KERNELS = 16
_KERNEL_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


def _awakening(event: str, fields: Mapping[str, Any], before: Identity) -> Awakening:
    snapshot = fields.get("snapshot")
    return Awakening(event, snapshot if isinstance(snapshot, str) else "", before)


class Guest:
    """The shells and kernels of the session, and its identity."""

    def __init__(
        self,
        layout: Layout,
        identity: Identity,
        account: UserAccount,
        reaper: Reaper,
        program: ShellProgram,
        inheritance: Inheritance | None = None,
    ) -> None:
        """Prepare all parts; `inheritance` is the legacy of a killed supervisor."""
        inheritance = inheritance or Inheritance()
        self.inheritance = inheritance
        self.layout = layout
        self.program = program
        self.identity = identity
        self.account = account
        self.reaper = reaper
        self.journal = Journal(layout.journal, layout.journal_copy)
        self.keyed = Keyed(layout.keys)
        self.lineage = Origins(reaper.keeper.pid)
        self.notifications = Notifications()
        self.past: PastRuns | None = None
        """The commands from before the session was started again."""
        self.surroundings = ProcessSurroundings(layout, account, reaper, self.lineage, self.notice)
        self.watch = DeathWatch(self.lineage, reaper, self._write_down, inheritance.session.get("kills"))
        self.opened = OpenShells(layout, self._shell, self.journal.append)
        self.shells, self.accesses, self.keyboards = (
            self.opened.shells,
            self.opened.accesses,
            self.opened.keyboards,
        )
        for name in dict.fromkeys((MAIN, *inheritance.shells)):
            self.opened.add(name)
        self.jobs = Jobs(self.surroundings, inheritance.jobs)
        self.programs = Programs(self.surroundings)
        self.kernels = {
            name: self._kernel(name, identity.kernel or DEFAULT_SPEC)
            for name in dict.fromkeys((MAIN, *inheritance.kernels))
        }
        self.engine_files = EngineFiles()
        self.uploads = Uploads()
        self.file_calls = FileCalls()
        self.watches: dict[object, Callable[[], None]] = {}
        """How to end each watch of files: a capture must not find it."""
        self.port_cuts: set[Callable[[], None]] = set()
        """How to cut each connection to a port: nor must it find those."""
        self.ssh: SshServers | None = None
        """Servers of ssh, once there was one."""
        self.hooks = Hooks(layout, account, reaper, self.journal.append)
        self.captures = CaptureQueue(layout.identity, lambda: self.identity.generation)
        self.changes = ChangeNotes(self.shells, self.kernels, self.lineage, self.journal)
        self.journal.heard = self.changes.heard
        self.requests = 0
        """The number of requests that did more than read."""
        self.arriving = False
        """True in a copy that possibly does not run all of its processes yet."""
        self.settle: Callable[[], None] | None = None
        """Records the outcome of a capture that is not known yet, if there is one."""
        self.unbegun = ""
        """The parts that are ready while it waits in a pool (`identity.WAITS`); empty once it has begun."""

    def arrive(self) -> None:
        """Complete the arrival of a copy, once all of its processes run; record the outcome of a capture."""
        if self.settle is not None:
            self.settle()
        if not self.arriving:
            return
        self.arriving = False
        for name, shell_access in self.accesses.items():
            before = self.shells[name].size
            shell_access.arrived()
            if self.shells[name].size != before:
                repeat_size_notice(partial(getattr, self.shells[name], "terminal"))

    def start(self, awakening: Awakening, before: ProcessEnd | None = None) -> None:
        """Start the shell immediately and the kernel in the background.

        `before` is how the supervisor before this one ended, if one was killed in this container.
        """
        publish(self.layout.identity, self.identity, awakening)
        self.captures.begin(again=self.inheritance.found)
        self.watch.count_kills()
        if awakening.event == "restarted":
            self._restarted(awakening, before)
        elif awakening.event == "waiting":
            self.unbegun = awakening.why
        else:
            self.woke(awakening, begins=True)
        self.lineage.look()
        for shell in self.shells.values():
            shell.start()
        if self.unbegun != WAITS[0]:
            self._begin_kernels()

    def _begin_kernels(self) -> None:
        for kernel in self.kernels.values():
            kernel.begin()

    async def begin(self, fields: Mapping[str, Any]) -> None:
        """Begin the session that was made ready in a pool, with the identity the host gives.

        From here on it is like one that has just been started: its journal begins, and programs that listen
        get its name.
        """
        ready, self.unbegun = self.unbegun, ""
        self.identity = self.identity.updated(dict(fields))
        awakening = Awakening("started")
        holdfast_session.reseed(everything=True)
        publish(self.layout.identity, self.identity, awakening)
        self.woke(awakening, begins=True)
        if ready == WAITS[0]:
            self._begin_kernels()
        await self.hooks.tell(Awakening("begun"), self.identity)

    def become(self, fields: Mapping[str, Any], event: str) -> None:
        """Continue after a pause, with the identity the host gave."""
        before, self.identity = self.identity, self.identity.updated(dict(fields))
        if event == "later":  # `learn` records the outcome
            return
        if event == "again":  # the attempt failed, another follows, whose outcome is recorded
            self.captures.woken(event, "")
            return
        awakening = _awakening(event, fields, before)
        if event == "restored":
            holdfast_session.reseed(everything=True)
            self.engine_files.carry_over()
            publish(self.layout.identity, self.identity, awakening)
            self._keep()
        self.captures.woken(event, awakening.snapshot)
        self.woke(awakening)

    def learn(self, event: str, fields: Mapping[str, Any]) -> None:
        """Record the outcome of a capture (`again`: another attempt follows) while the session runs."""
        awakening = _awakening(event, fields, self.identity)
        self.captures.woken(event, awakening.snapshot)
        if event != "again":
            self.woke(awakening)

    def _keep(self) -> None:
        """Renew the keeper's records, once all processes were restored with other start times."""
        for shell in self.shells.values():
            shell.keep(moved=True)
        self.jobs.keep()
        self.programs.keep()
        for kernel in self.kernels.values():
            kernel.keep()

    def woke(self, awakening: Awakening, *, begins: bool = False) -> None:
        """Record that this session begins or resumes, perhaps under a new identity.

        `begins`: its processes are new, wherever its files came from.
        """
        identity = self.identity
        self.journal.append(
            "woken",
            event=awakening.event,
            session=identity.session,
            generation=identity.generation,
            snapshot=awakening.snapshot or None,
            begins=begins or None,
            actor="system",
        )
        if awakening.snapshot:
            self.hooks.begin(awakening, identity)

    def _restarted(self, awakening: Awakening, before: ProcessEnd | None) -> None:
        """Record that this session begins again, on its files or with its processes, and why.

        The next results tell it.
        """
        from holdfast.runtime.guest.records.past_runs import PastRuns

        left = self.inheritance
        self.past = PastRuns(self.journal, left.runs if left.found else None)
        fields: dict[str, Any] = {"why": awakening.why or None}
        if before is not None:
            fields |= {
                "exit_code": before.exit_code,
                "signal": before.signal,
                "cause": self.watch.cause(before),
            }
        if left.found:
            fields |= {"kept": left.kept, "lost": left.lost or None}
        self._write_down(
            awakening.event,
            session=self.identity.session,
            generation=self.identity.generation,
            begins=not left.found or None,
            during=self.past.cut_off() or None,
            actor="system",
            **fields,
        )

    @property
    def _root(self) -> int:
        """The root of the tree that a capture takes."""
        return self.reaper.keeper.pid or os.getpid()

    def moment(self) -> dict[str, Any]:
        """Return the present ends of the session's records, for a snapshot to keep."""
        return {
            "journal_seq": self.journal.last,
            "at": round(time.time(), 6),
            "offsets": {name: shell.log.end for name, shell in self.shells.items()},
            "requests": self.requests,
            "supervisor_pid": os.getpid(),
            "root_pid": self._root,
        }

    def notice(self, kind: str, end: ProcessEnd | None = None, /, **fields: Any) -> None:
        """Record an event of one of our processes and, if it ended, the cause."""
        if end is not None:
            fields = {
                "exit_code": end.exit_code,
                "signal": end.signal,
                "cause": self.watch.cause(end),
                **fields,
            }
        self._write_down(kind, **fields)

    def stop(self) -> None:
        """End shells, jobs, programs and kernels without successors."""
        self.jobs.stop()
        self.programs.stop()
        for shell in self.shells.values():
            shell.stop()
        for kernel in self.kernels.values():
            kernel.stop()

    def shell(self, name: str) -> Shell:
        """Return the shell of that name."""
        return self.opened.find(name)

    def shell_access(self, name: str) -> ShellAccess:
        """Return the access to the shell of that name."""
        return self.accesses[self.shell(name).name]

    def kernel(self, name: str) -> RunningKernel:
        """Return the kernel of that name."""
        found = self.kernels.get(name)
        if found is None or found.closed:
            known = ", ".join(each.name for each in self.kernels.values() if not each.closed)
            raise RequestRefused(
                "unknown_kernel", f"cannot find kernel {name[:100]}: the session has {known}"
            )
        return found

    def new_kernel(self, name: str, spec: str, cwd: str | None = None) -> RunningKernel:
        """Add a kernel without starting it."""
        if not _KERNEL_NAME.fullmatch(name):
            raise RequestRefused(
                "invalid", "cannot open the kernel: its name can have up to 40 letters, digits, - and _"
            )
        if name in self.kernels:
            raise RequestRefused("busy", f"cannot open kernel {name}: it is being closed")
        if len(self.kernels) >= MAX_KERNELS:
            raise RequestRefused(
                "limit", f"cannot open kernel {name}: there are {MAX_KERNELS} already; close one"
            )
        # Left by a kernel of the same name, in files that were restored without processes.
        removal.discard(self.layout.kernel(name))
        kernel = self.kernels[name] = self._kernel(name, spec, cwd)
        return kernel

    def forget_kernel(self, kernel: RunningKernel) -> None:
        """Remove a kernel that was closed, or did not start."""
        if self.kernels.get(kernel.name) is kernel:
            del self.kernels[kernel.name]
            removal.discard(self.layout.kernel(kernel.name))

    def hello(self) -> dict[str, Any]:
        """Return the state of the session, for a client."""
        identity = self.identity
        return {
            "protocol": VERSION,
            "guest_version": GUEST_VERSION,
            "session": identity.session,
            "name": identity.name,
            "generation": identity.generation,
            "pid": os.getpid(),
            "root_pid": self._root,
            "shell_remark": self.program.remark,
            "shells": [self.opened.described(shell) for shell in self.shells.values()],
            "kernels": [kernel.as_dict() for kernel in self.kernels.values() if not kernel.closed],
            "ssh": 0 if self.ssh is None else self.ssh.count,
        }

    def _write_down(self, kind: str, /, **fields: Any) -> None:
        seq = self.journal.append(kind, **fields)
        self.notifications.add(seq, time.time(), kind, fields)

    def _waits(self, shell: str, state: State, command: str | None) -> None:
        self.journal.append("waiting", shell=shell, id=command, state=state.as_dict())

    def _shell(self, name: str) -> Shell:
        command_journal = CommandJournal(name, self.journal, self.keyed, self.lineage)
        shell = Shell(
            name,
            self.surroundings,
            command_journal,
            self.program,
            self.inheritance.shells.pop(name, None),
        )
        shell.watching.notify = partial(self._waits, name)
        return shell

    def _kernel(self, name: str, spec: str, cwd: str | None = None) -> RunningKernel:
        held = self.inheritance.kernels.pop(name, None)
        if held is not None:
            spec, cwd = str(held.fields["spec"]), str(held.fields["cwd"])
        return RunningKernel(
            name,
            spec,
            Path(cwd) if cwd else self.layout.workspace,
            self.surroundings,
            CellJournal(name, self.journal, self.keyed),
            self.identity.python,
            held,
        )

"""Verbs: exec, wait, send, screen.

Modules on the way of these verbs load nothing that a command does not need: a command often takes less time.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from holdfast.base.ids import ID
from holdfast.errors import CommandNotFound, InvalidArgument, ShellNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import (
    BUSY_WAIT,
    JSON,
    KEY,
    LEASE_WAIT,
    PATIENCE,
    RAW,
    REASON,
    SESSION_REF,
    SHELL,
    TIMEOUT,
)
from holdfast.runtime.cli.caller import command_text, controller, wants_json
from holdfast.runtime.cli.grammar import SET_APART, argument, examples, option
from holdfast.runtime.guest.defaults import MAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.job_info import JobInfo
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import ExecResult

WAITS = 75
"""Exit code for a command that waits: EX_TEMPFAIL of sysexits.h, "try again later"."""
SIGNALLED = 128
"""Added to the number of the signal that ended something, as shells do."""


@examples(
    "exec work 'cd app && make test'    # one text for the shell",
    "exec work -- ls -la                # words, with options of their own",
    "exec work -d --name train 'python3 train.py'",
)
def exec_(
    set_apart: bool = SET_APART,
    session: str = SESSION_REF,
    command: list[str] = argument(
        "TEXT | -- ARG...", help="Text for bash, `-` for standard input, or words."
    ),
    timeout: float | None = TIMEOUT,
    patience: float | None = PATIENCE,
    wait: bool = option("--wait", help="Keep waiting even while it waits for an answer."),
    lease_wait: float | None = LEASE_WAIT,
    busy_wait: float | None = BUSY_WAIT,
    detach: bool = option("--detach", "-d", help="Run it as a job, outside the shell, and print its id."),
    name: str | None = option(help="With --detach: a name for the job."),
    check: bool = option("--check", help="Only check the syntax: exit code 0, or 2 if bash cannot parse it."),
    key: str | None = KEY,
    reason: str | None = REASON,
    shell: str = SHELL,
    raw: bool = RAW,
    json: bool = JSON,
) -> int:
    """Run a command in the session's shell. Exits with the command's code, or 124 after a timeout.

    75 means that it is waiting for input: answer with `send`, or follow it with `wait`.
    """
    text = command_text(command, separated=set_apart)
    found = controller().session(session)
    if check:
        return _checked(found, text, shell, as_json=wants_json(json))
    if detach:
        if key is not None:
            raise InvalidArgument("cannot use a key with --detach", hint="give the job a --name instead")
        if shell != MAIN:
            raise InvalidArgument("cannot use --shell with --detach", hint="a job has a terminal of its own")
        return _detached(found, text, name, lease_wait, as_json=wants_json(json))
    how: dict[str, Any] = {"timeout": timeout, "patience": patience, "wait": wait, "lease_wait": lease_wait}
    how |= {"busy_wait": busy_wait, "key": key, "reason": reason, "shell": shell}
    return _ran(found, text, how, as_json=wants_json(json), raw=raw)


def _detached(found: Session, text: str, name: str | None, lease_wait: float | None, *, as_json: bool) -> int:
    """Start a job and print its id."""
    made = found.detach(text, name=name, lease_wait=lease_wait)
    if as_json:
        printing.emit({**made.info().as_dict(), "session": found.name})
    else:
        printing.say(made.id)
    return 0


def _checked(found: Session, text: str, shell: str, *, as_json: bool) -> int:
    """Report whether bash can parse a text, without running it, and return bash's exit code for it."""
    checked = found.check_syntax(text, shell=shell)
    if as_json:
        printing.emit({"id": found.id, "name": found.name, **checked.as_dict()})
    elif not checked.ok:
        printing.note(f"line {checked.line}: {checked.message}" + " (not finished)" * checked.incomplete)
    return 0 if checked.ok else 2


def _ran(found: Session, text: str, how: Mapping[str, Any], *, as_json: bool, raw: bool) -> int:
    """Run a command, show its output, and return the exit code; `how` as for `Session.exec`."""
    if as_json:
        return report(found, found.exec(text, **how), how["shell"], as_json=True)
    try:
        with printing.guest_output(raw=raw) as show:
            result = found.exec(text, **how, on_bytes=show)
    except BrokenPipeError:
        # Without a reader, a writing command would hold the shell forever.
        found.interrupt(patience=0, shell=how["shell"])
        raise
    if result.timed_out:
        printing.note(f"the command was interrupted after {how['timeout']:g} s")
    return report(found, result, how["shell"])


@examples("wait work", "wait work --port 8000", "wait work train    # a job")
def wait(
    session: str = SESSION_REF,
    command: str | None = argument(
        "ID", default=None, help="Id of a command, or id or name of a job (default: the running command)."
    ),
    patience: float | None = option("--patience", metavar="S", help="Stop waiting after this many seconds."),
    through: bool = option("--wait", help="Keep waiting even while it waits for an answer."),
    shell: str = SHELL,
    port: int | None = option(
        "--port", metavar="N", help="Wait until a server accepts at this port, 60 s without --patience."
    ),
    raw: bool = RAW,
    json: bool = JSON,
) -> int:
    """Wait for a running command to end, printing its output from the start. Exit codes as for `exec`.

    With --port, wait for a server instead.
    """
    found = controller().session(session)
    if port is not None:
        return _served(found, command, port, patience, as_json=wants_json(json))
    name = command or found.shell(shell).command_id
    if name is None:
        raise InvalidArgument("cannot wait: no command runs in the shell", hint="`holdfast exec` runs one")
    how: dict[str, Any] = {"wait": through, "patience": patience}
    with _shown(as_json=wants_json(json), raw=raw) as show:
        # Jobs are listed before only for names and beginnings of ids: most calls are for commands.
        job = None if command is None or re.fullmatch(ID, command) else _job(found, command)
        if job is None:
            try:
                result = found.join(name, **how, on_bytes=show, shell=shell)
            except (CommandNotFound, ShellNotFound):
                if command is None or (job := _job(found, command)) is None:
                    raise
        if job is not None:
            result = found.job(job.id).wait(**how, on_bytes=show)
    return report(found, result, shell, as_json=wants_json(json))


def _job(found: Session, reference: str) -> JobInfo | None:
    """Return the job with a name, or an id with this beginning."""
    known = found.jobs()
    return next((each for each in known if each.name == reference or each.id.startswith(reference)), None)


def _served(found: Session, command: str | None, port: int, patience: float | None, *, as_json: bool) -> int:
    """Wait until a port accepts connections; print what listens there."""
    from holdfast.runtime.cli import pulse_verbs

    if command is not None:
        raise InvalidArgument("cannot wait for both: give a command or --port")
    waiting = {} if patience is None else {"patience": patience}
    answer = found.wait_port(port, **waiting)
    if as_json:
        printing.emit({"id": found.id, "name": found.name, **answer.as_dict()})
    else:
        printing.say("\n".join(pulse_verbs.port_lines(answer)))
    return 0


def _shown(*, as_json: bool, raw: bool) -> AbstractContextManager[Callable[[bytes], None] | None]:
    """Return the stream for output as it arrives; programs get the output with the result instead."""
    return nullcontext() if as_json else printing.guest_output(raw=raw)


@examples("send work -e yes", "send work -k C-c")
def send(
    session: str = SESSION_REF,
    text: list[str] | None = argument(
        "TEXT", default=None, help="Text to type; arguments are joined by spaces."
    ),
    key: list[str] | None = option(
        "--key", "-k", metavar="NAME", help="Then press a key, such as C-c or Up. Repeatable."
    ),
    enter: bool = option("--enter", "-e", help="Then press Enter."),
    through: bool = option("--wait", help="Then follow the running command, as `wait` does."),
    patience: float | None = option(
        "--patience", metavar="S", help="With --wait: stop waiting after this many seconds."
    ),
    job: str | None = option("--job", metavar="JOB", help="Type into this job's terminal."),
    shell: str = SHELL,
    raw: bool = RAW,
    json: bool = JSON,
) -> int:
    """Type text and keys into the session's terminal."""
    data = " ".join(text or []).encode("utf-8", "surrogateescape")
    pressed = [*(key or []), *(["Enter"] * enter)]
    if pressed:
        from holdfast.runtime.terminal.key_names import keys

        data += keys(pressed)
    if not data:
        raise InvalidArgument("cannot send: there is nothing to send", hint="give a text, --key or --enter")
    found = controller().session(session)
    as_json = wants_json(json)
    wanted = found.job(job) if job else None
    if wanted is not None:
        wanted.send(data)
    elif not through:
        found.send(data, shell=shell)
    if through:
        with _shown(as_json=as_json, raw=raw) as show:
            how: dict[str, Any] = {"on_bytes": show, "patience": patience}
            result = wanted.wait(**how) if wanted else found.answer(data, **how, shell=shell)
        return report(found, result, shell, as_json=as_json)
    if as_json:
        printing.emit({"id": found.id, "name": found.name, "bytes": len(data)})
    return 0


@examples("screen work")
def screen(session: str = SESSION_REF, shell: str = SHELL, json: bool = JSON) -> int:
    """Print the session's terminal screen."""
    _load_emulator()
    found = controller().session(session)
    shown = found.terminal_of(shell).screen()
    if wants_json(json):
        row, col = shown.cursor
        printing.emit(
            {
                "id": found.id,
                "name": found.name,
                "text": shown.text,
                "rows": shown.rows,
                "cols": shown.cols,
                "cursor": {"row": row, "col": col},
                "title": shown.title,
            }
        )
    else:
        printing.say(shown.text)
    return 0


def report(found: Session, result: ExecResult, shell: str, *, as_json: bool = False) -> int:
    """Report the outcome of a command, except its output, and return the exit code."""
    if as_json:
        from holdfast.runtime.api import results_as_json

        fields = {"id": found.id, "name": found.name, **results_as_json.exec_result(result)}
        printing.emit_long(fields, "output", result.output)
    else:
        notes(found, result, shell)
    if result.waiting:
        return WAITS
    if result.timed_out or result.running:
        return 124
    if (
        result.exit_code is None
    ):  # its shell ended: by a signal, as shells report it, or in a way that is not known
        return 1 if result.signal is None else SIGNALLED + result.signal
    return result.exit_code & 0xFF


def notes(found: Session, result: ExecResult, shell: str) -> None:
    """Report the news that come with an outcome."""
    if result.recorded:
        printing.note("it ran before under this key; this is its recorded result")
    if result.lost and result.recorded:
        printing.note(f"{printing.size(result.lost)} of its output are no longer kept")
    elif result.lost:
        printing.note(
            f"{printing.size(result.lost)} of the output were lost: it came faster than it was read"
        )
    if result.message:
        printing.note(result.message)
    for event in result.news:
        printing.note(f"since your last command: {event.text}; `holdfast events {found.name}`")
    if result.shell_exited and not result.message:
        printing.note("the shell ended; the next command gets a new one")
    if result.running:
        _note_running(found, result, shell)


def _note_running(found: Session, result: ExecResult, shell: str) -> None:
    from holdfast.base.suggestion import command
    from holdfast.runtime.guest_rpc.wait_state import advice

    if result.output and not result.output.endswith(b"\n"):
        sys.stderr.write("\n")  # end the line of a prompt
    info = found.shell(shell)
    mine = info.command_id == result.command_id
    state = result.waiting or (info.observed if mine else None)
    printing.note(state.phrase(time.time()) if state and state.pid else "the command still runs")
    if result.waiting:
        printing.note(advice(found.name, result.waiting, "" if mine else result.command_id, shell))
    else:
        where = ["--shell", shell] if shell != MAIN else []
        printing.note(f"`{command('wait', found.name, result.command_id, *where)}` follows it")


def _load_emulator() -> None:
    """Load pyte without wcwidth's tables, which take longer to load than the rest of `screen`.

    Only for the process of a command line: for a moment, another module takes the place of wcwidth.
    """
    if "wcwidth" in sys.modules:
        return
    stand_in = type(sys)("wcwidth")
    vars(stand_in)["wcwidth"] = _columns
    sys.modules["wcwidth"] = stand_in
    try:
        import pyte.screens  # noqa: F401
    finally:
        del sys.modules["wcwidth"]


def _columns(char: str) -> int:
    """Return the columns that a character takes; wcwidth is loaded for the first one outside ASCII."""
    if " " <= char <= "~":
        return 1
    from wcwidth import wcwidth

    return wcwidth(char)

"""What exec, wait, send and screen do, given their parameters. Loads no Typer.

The parameters are described where they are defined, in `shell_verbs`. Each returns the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from holdfast.errors import CommandNotFound, InvalidArgument, ShellNotFound
from holdfast.runtime.cli import light_pyte, printing, shell_outcome
from holdfast.runtime.cli.caller import command_text, controller, wants_json
from holdfast.runtime.guest.defaults import MAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.session import Session


def execute(
    session: str,
    command: Sequence[str],
    *,
    separated: bool,
    detach: bool = False,
    name: str | None = None,
    check: bool = False,
    key: str | None = None,
    shell: str = MAIN,
    raw: bool = False,
    json: bool = False,
    **how: Any,
) -> int:
    """Run a command; `separated`: `--` stood before it; `how` is for `Session.exec`."""
    text = command_text(command, separated=separated)
    found = controller().session(session)
    if check:
        return _checked(found, text, shell, as_json=wants_json(json))
    if detach:
        if key is not None:
            raise InvalidArgument("cannot use a key with --detach", hint="give the job a --name instead")
        if shell != MAIN:
            raise InvalidArgument("cannot use --shell with --detach", hint="a job has a terminal of its own")
        return _detached(found, text, name, how.get("lease_wait"), as_json=wants_json(json))
    how |= {"key": key, "shell": shell}
    return shell_outcome.run(found, text, how, as_json=wants_json(json), raw=raw)


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


def wait(
    session: str,
    command: str | None = None,
    *,
    patience: float | None = None,
    through: bool = False,
    shell: str = MAIN,
    port: int | None = None,
    raw: bool = False,
    json: bool = False,
) -> int:
    """Follow a command or a job, or wait for a server."""
    found = controller().session(session)
    if port is not None:
        return _served(found, command, port, patience, as_json=wants_json(json))
    name = command or found.shell(shell).command_id
    if name is None:
        raise InvalidArgument("cannot wait: no command runs in the shell", hint="`holdfast exec` runs one")
    how: dict[str, Any] = {"wait": through, "patience": patience}
    with _shown(as_json=wants_json(json), raw=raw) as show:
        try:
            result = found.join(name, **how, on_bytes=show, shell=shell)
        except (CommandNotFound, ShellNotFound):
            # Jobs are listed only now, because most calls are for commands, whose ids no job has.
            known = [] if command is None else found.jobs()
            if not any(each.name == command or each.id.startswith(name) for each in known):
                raise
            result = found.job(name).wait(**how, on_bytes=show)
    return shell_outcome.report(found, result, shell, as_json=wants_json(json))


def _served(found: Session, command: str | None, port: int, patience: float | None, *, as_json: bool) -> int:
    """Wait until a port accepts connections; print what listens there."""
    from holdfast.runtime.cli import pulse_answers

    if command is not None:
        raise InvalidArgument("cannot wait for both: give a command or --port")
    waiting = {} if patience is None else {"patience": patience}
    answer = found.wait_port(port, **waiting)
    if as_json:
        printing.emit({"id": found.id, "name": found.name, **answer.as_dict()})
    else:
        printing.say("\n".join(pulse_answers.port(answer)))
    return 0


def _shown(*, as_json: bool, raw: bool) -> AbstractContextManager[Callable[[bytes], None] | None]:
    """Return where to write output as it arrives; programs get it with the result instead."""
    return nullcontext() if as_json else printing.guest_output(raw=raw)


def send(
    session: str,
    text: Sequence[str] | None = None,
    *,
    key: Sequence[str] | None = None,
    enter: bool = False,
    through: bool = False,
    patience: float | None = None,
    job: str | None = None,
    shell: str = MAIN,
    raw: bool = False,
    json: bool = False,
) -> int:
    """Type text and keys."""
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
        return shell_outcome.report(found, result, shell, as_json=as_json)
    if as_json:
        printing.emit({"id": found.id, "name": found.name, "bytes": len(data)})
    return 0


def screen(session: str, *, shell: str = MAIN, json: bool = False) -> int:
    """Print what a terminal shows."""
    light_pyte.load()
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

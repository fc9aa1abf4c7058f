"""The verbs of the command `holdfast`, and how errors are reported.

Exit codes: 0, or that of the command run; 1 for an error, 2 for wrong usage, 75 if the command waits for
input, 124 after a timeout, 130 when interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.errors import HoldfastError, Interrupted
from holdfast.runtime.cli import (
    attach_verbs,
    capture_verbs,
    ci_verbs,
    deprecated,
    diff_verbs,
    doctor_verbs,
    drift_verbs,
    event_verbs,
    file_verbs,
    fitness_verbs,
    image_verbs,
    journal_verbs,
    kernel_verbs,
    key_verbs,
    lease_verbs,
    lineage_verbs,
    network_verbs,
    printing,
    program_verbs,
    pulse_verbs,
    recording_verbs,
    registry_verbs,
    retention_verbs,
    retry_verbs,
    session_verbs,
    shell_verbs,
    snapshot_verbs,
    task_verbs,
    thaw_verbs,
    transfer_verbs,
    verify_verbs,
)
from holdfast.runtime.cli.arguments import EarlyOptions, Json, Separated
from holdfast.runtime.cli.families import FAMILIES

INTERRUPTED = 130
# The base of all errors of usage, which Typer does not name: BadParameter < UsageError < ClickException.
USAGE: type[Exception] = typer.BadParameter.__mro__[2]


class Verbs(TyperGroup):
    """The group of all verbs."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs in their families, all lines in one column."""
        width = max(len(verb) for verb in self.list_commands(ctx))
        for family, lines in FAMILIES.items():
            with formatter.section(family):
                formatter.write_dl([(verb.ljust(width), line) for verb, line in lines.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run a verb. Report Ctrl-C as an error; Typer would exit quietly."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted("interrupted", hint="; ".join(getattr(error, "__notes__", []))) from error


# Rich would cost 50 ms on every start, for boxes around the help.
app = typer.Typer(
    name="holdfast",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        from holdfast import __version__

        printing.say(__version__)
        raise typer.Exit


@app.callback()
def main(
    json: Json = False,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="ACTOR", help="Who is acting, for the journal: agent:NAME or person:NAME."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the journal.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Sandbox sessions whose live execution state can be captured, restored and forked."""
    EarlyOptions.json, EarlyOptions.actor, EarlyOptions.reason = json, as_, reason


app.command()(doctor_verbs.doctor)
app.add_typer(image_verbs.app, name="image")
app.add_typer(ci_verbs.app, name="ci")
app.command()(session_verbs.new)
app.command()(session_verbs.ls)
app.command()(network_verbs.network)
app.command("exec", cls=Separated)(shell_verbs.exec_)
app.command()(shell_verbs.wait)
app.command()(kernel_verbs.cell)
app.command()(task_verbs.tasks)
app.command()(task_verbs.task)
app.command("output")(task_verbs.output_)
app.command()(task_verbs.kill)
app.command()(program_verbs.run)
app.command()(file_verbs.cp)
app.command()(event_verbs.events)
app.command()(journal_verbs.journal)
app.command()(shell_verbs.send)
app.command()(shell_verbs.screen)
app.command()(attach_verbs.attach)
app.command()(pulse_verbs.pulse)
app.command()(lease_verbs.lease)
app.command()(recording_verbs.replay)
app.command()(drift_verbs.drift)
app.command()(diff_verbs.diff)
app.command()(snapshot_verbs.snapshot)
app.command()(capture_verbs.serve_captures)
app.command()(lineage_verbs.snapshots)
app.command()(snapshot_verbs.restore)
app.command()(thaw_verbs.thaw)
app.command()(fitness_verbs.fits)
app.command(cls=Separated)(retry_verbs.retry)
app.command(cls=Separated)(retry_verbs.bisect)
app.command()(snapshot_verbs.fork)
app.command()(lineage_verbs.rewind)
app.command()(retention_verbs.pin)
app.command()(retention_verbs.unpin)
app.command()(retention_verbs.policy)
app.command()(retention_verbs.quota)
app.command()(retention_verbs.autosnap)
app.command()(retention_verbs.gc)
app.command()(snapshot_verbs.suspend)
app.command()(snapshot_verbs.resume)
app.command()(session_verbs.rm)
app.command()(snapshot_verbs.rmi)
app.command()(verify_verbs.verify)
app.command()(transfer_verbs.export)
app.command("import")(transfer_verbs.import_)
app.command()(registry_verbs.push)
app.command()(registry_verbs.pull)
app.add_typer(key_verbs.app, name="key")
app.add_typer(kernel_verbs.app, name="kernel")


def call(given: list[str]) -> int:
    """Run one command line and return its exit code; every error has been shown."""
    given, notes = deprecated.translated(given)
    for note in notes:
        printing.note(note)
    own = given[: given.index("--")] if "--" in given else given
    as_json = "--json" in own
    try:
        result = typer.main.get_command(app).main(given, prog_name="holdfast", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except HoldfastError as error:
        printing.fail(error, as_json=as_json)
        return INTERRUPTED if isinstance(error, Interrupted) else 1
    except typer.Abort:
        printing.report("interrupted", "interrupted", "", as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        printing.mute()
        return 1
    except USAGE as error:
        return _usage(error, as_json=as_json)


def _usage(error: BaseException, *, as_json: bool) -> int:
    code = int(getattr(error, "exit_code", 2))
    message = str(getattr(error, "format_message", lambda: str(error))())
    context = getattr(error, "ctx", None)
    if message.startswith("Usage:") and not as_json:  # a group without a verb: show its help
        sys.stderr.write(message + "\n")
        return code
    command = getattr(context, "command_path", "holdfast")
    printing.report("usage", f"cannot understand this: {message}", f"`{command} --help`", as_json=as_json)
    return code

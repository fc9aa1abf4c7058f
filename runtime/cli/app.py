"""The verbs of the command `holdfast`, and what an error becomes.

Exit codes: 0, or that of the command run; 1 for an error, 2 for wrong usage, 75 if the command waits for
somebody, 124 after a timeout, 130 when interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.errors import HoldfastError, Interrupted
from holdfast.runtime.cli import (
    attach,
    captures,
    ci,
    diff,
    doctor,
    drift,
    events,
    fitness,
    images,
    journal,
    keeping,
    kernel,
    keys,
    lease,
    lineage,
    moving,
    network,
    output,
    pulse,
    recording,
    registries,
    retry,
    sessions,
    shell,
    snapshots,
    tasks,
    thaw,
    verify,
)
from holdfast.runtime.cli.arguments import Json, Separated, Wanted
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
        """Run a verb. Typer would take Ctrl-C for a quiet exit; it is an error that is to be told."""
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

        output.say(__version__)
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
    Wanted.json, Wanted.actor, Wanted.reason = json, as_, reason


app.command()(doctor.doctor)
app.add_typer(images.app, name="image")
app.add_typer(ci.app, name="ci")
app.command()(sessions.new)
app.command()(sessions.ls)
app.command()(network.network)
app.command("exec", cls=Separated)(shell.exec_)
app.command()(shell.wait)
app.command()(kernel.cell)
app.command()(tasks.tasks)
app.command()(tasks.task)
app.command("output")(tasks.output_)
app.command()(tasks.kill)
app.command()(events.events)
app.command()(journal.journal)
app.command()(shell.send)
app.command()(shell.screen)
app.command()(attach.attach)
app.command()(pulse.pulse)
app.command()(lease.lease)
app.command()(recording.replay)
app.command()(drift.drift)
app.command()(diff.diff)
app.command()(snapshots.snapshot)
app.command()(captures.serve_captures)
app.command()(lineage.snapshots)
app.command()(snapshots.restore)
app.command()(thaw.thaw)
app.command()(fitness.fits)
app.command(cls=Separated)(retry.retry)
app.command(cls=Separated)(retry.bisect)
app.command()(snapshots.fork)
app.command()(lineage.rewind)
app.command()(keeping.pin)
app.command()(keeping.unpin)
app.command()(keeping.policy)
app.command()(keeping.quota)
app.command()(keeping.autosnap)
app.command()(keeping.gc)
app.command()(snapshots.suspend)
app.command()(snapshots.resume)
app.command()(sessions.rm)
app.command()(snapshots.rmi)
app.command()(verify.verify)
app.command()(moving.export)
app.command("import")(moving.import_)
app.command()(registries.push)
app.command()(registries.pull)
app.add_typer(keys.app, name="key")
app.add_typer(kernel.app, name="kernel")


def call(given: list[str]) -> int:
    """Run one command line and return its exit code; every error has been shown."""
    own = given[: given.index("--")] if "--" in given else given
    as_json = "--json" in own
    try:
        result = typer.main.get_command(app).main(given, prog_name="holdfast", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except HoldfastError as error:
        output.fail(error, as_json=as_json)
        return INTERRUPTED if isinstance(error, Interrupted) else 1
    except typer.Abort:
        output.report("interrupted", "interrupted", "", as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        output.mute()
        return 1
    except USAGE as error:
        return _usage(error, as_json=as_json)


def _usage(error: BaseException, *, as_json: bool) -> int:
    code = int(getattr(error, "exit_code", 2))
    message = str(getattr(error, "format_message", lambda: str(error))())
    context = getattr(error, "ctx", None)
    if message.startswith("Usage:") and not as_json:  # a group without a verb: the help is what was wanted
        sys.stderr.write(message + "\n")
        return code
    command = getattr(context, "command_path", "holdfast")
    output.report("usage", f"cannot understand this: {message}", f"`{command} --help`", as_json=as_json)
    return code

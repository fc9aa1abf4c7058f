"""The verbs of the command `holdfast`, and how errors are reported.

Exit codes: 0, or that of the command run; 1 for an error, 2 for wrong usage, 75 if the command waits for
input, 124 after a timeout, 130 when interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.runtime.cli import deprecated, first_guesses, printing, readable_help, reporting
from holdfast.runtime.cli.arguments import Json, Separated
from holdfast.runtime.cli.caller import EarlyOptions
from holdfast.runtime.cli.families import FAMILIES
from holdfast.runtime.cli.light_parameters import lighten
from holdfast.runtime.cli.plain_forms import COMPLETION
from holdfast.runtime.cli.verb_places import GROUP, SEPARATED, VERBS

# The base of all errors of usage, which Typer does not name: BadParameter < UsageError < ClickException.
USAGE: type[Exception] = typer.BadParameter.__mro__[2]


class Verbs(TyperGroup):
    """The group of all verbs."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs of every day, the names of all others, and the options: one screen."""
        first, *others = FAMILIES
        width = max(map(len, FAMILIES))
        with formatter.section(first):
            formatter.write_dl([(verb.ljust(width), line) for verb, line in FAMILIES[first].items()])
        with formatter.section("More (`holdfast help all` explains each)"):
            formatter.write_dl([(family, ", ".join(FAMILIES[family])) for family in others])
        options = [record for each in self.get_params(ctx) if (record := each.get_help_record(ctx))]
        with formatter.section("Options (`holdfast VERB --help` lists those of a verb)"):
            formatter.write_dl([record for record in options if "completion" not in record[0]])

    def invoke(self, ctx: Any) -> Any:
        """Run a verb. Report Ctrl-C as an error; Typer would exit quietly."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise reporting.interrupted(error) from error


def _version(wanted: bool) -> None:
    if wanted:
        from holdfast import __version__

        printing.say(__version__)
        raise typer.Exit


def _all_verbs(wanted: bool) -> None:
    if wanted:
        width = max(len(verb) for lines in FAMILIES.values() for verb in lines)
        for number, (family, lines) in enumerate(FAMILIES.items()):
            printing.say(f"{chr(10) if number else ''}{family}:")
            for verb, line in lines.items():
                printing.say(f"  {verb.ljust(width)}  {line}")
        raise typer.Exit


def _early(
    json: Json = False,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="ACTOR", help="The actor for the journal: agent:NAME or person:NAME."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the journal.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not show on the terminal what is under way.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
    help_all: Annotated[
        bool, typer.Option("--help-all", hidden=True, is_eager=True, callback=_all_verbs)
    ] = False,
) -> None:
    """Sandbox sessions whose live execution state can be captured, restored and forked."""
    EarlyOptions.json, EarlyOptions.actor, EarlyOptions.reason = json, as_, reason
    EarlyOptions.quiet = quiet


def application(verb: str | None = None) -> typer.Typer:
    """Return the command line: with all verbs, or with one of them only."""
    # Rich would cost 50 ms on every start, for boxes around the help.
    app = typer.Typer(
        name="holdfast",
        cls=Verbs,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=True,
    )
    app.callback()(_early)
    for name in VERBS if verb is None else (verb,):
        module, function = VERBS[name]
        found = getattr(importlib.import_module(f"holdfast.runtime.cli.{module}"), function)
        if function == GROUP:
            app.add_typer(found, name=name)
        elif name in SEPARATED:
            app.command(name, cls=Separated)(found)
        else:
            app.command(name)(found)
    return app


def readable(verb: str | None = None) -> Any:
    """Return the command of the command line, or of one verb of it, with the help that people read."""
    return readable_help.polish(typer.main.get_command(application(verb)))


def _needed(given: Sequence[str]) -> str | None:
    """Return the verb of a command line, if it needs no other; help and completion of verbs need all."""
    if COMPLETION in os.environ:
        words = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
        return words[1] if len(words) > 2 and words[1] in VERBS else None
    if not given:
        return None
    at = deprecated.verb_index(given)
    return given[at] if given[at] in VERBS and "--help" not in given[:at] else None


def call(given: list[str]) -> int:
    """Run one command line and return its exit code; every error has been shown."""
    given, notes = first_guesses.translated(given)
    given, old = deprecated.translated(given)
    for note in (*notes, *old):
        printing.note(note)
    as_json = reporting.wants_json(given)
    try:
        return reporting.reported(lambda: _run(given), as_json=as_json)
    except typer.Abort:
        printing.report("interrupted", "interrupted", "", as_json=as_json)
        return reporting.INTERRUPTED
    except USAGE as error:
        return _usage(error, as_json=as_json)


def _run(given: list[str]) -> int:
    command = readable(_needed(given))
    lighten(command)
    result = command.main(given, prog_name="holdfast", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _usage(error: BaseException, *, as_json: bool) -> int:
    code = int(getattr(error, "exit_code", 2))
    message = str(getattr(error, "format_message", lambda: str(error))())
    context = getattr(error, "ctx", None)
    if message.startswith("Usage:") and not as_json:  # a group without a verb: show its help
        sys.stderr.write(message + "\n")
        return code
    command = getattr(context, "command_path", "holdfast")
    verb = command.partition(" ")[2]
    hint = f"`{command} --help`"
    if verb in (*SEPARATED, "run") and message.startswith("No such option"):
        hint = f"options of the command itself go behind `--`: `{command} NAME -- ls -la`; {hint}"
        if verb == "exec" and message.split()[-1] in ("-i", "-t"):
            hint = "`holdfast attach NAME` puts you at the session's shell; " + hint
    printing.report("usage", f"cannot understand this: {message}", hint, as_json=as_json)
    return code

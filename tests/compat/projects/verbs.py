"""`python -m tests.compat projects`: run the projects or any command, list them, write the page."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from tests.compat.projects import catalog, page, results, running
from tests.compat.projects.outcome import Outcome, all_good
from tests.compat.projects.project import Project
from tests.compat.trials import note

from holdfast import Holdfast
from holdfast.errors import InvalidArgument

app = typer.Typer(no_args_is_help=True)

Seed = Annotated[int | None, typer.Option(help="Of the moments; by default a new one, which is printed.")]
Snapshots = Annotated[int, typer.Option(min=1, help="How many are taken while the command runs.")]
Logs = Annotated[Path | None, typer.Option(help="A folder for what each run prints.")]


@app.command("list")
def show() -> None:
    """List the projects."""
    for project in catalog.PROJECTS:
        typer.echo(f"{project.name:14} {project.kind:9} {project.does}")


@app.command("run")
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Projects or kinds; by default all.")] = None,
    *,
    seed: Seed = None,
    snapshots: Snapshots = running.SNAPSHOTS,
    logs: Logs = None,
    write: Annotated[bool, typer.Option("--write", help="Write the results file and the page.")] = False,
) -> None:
    """Run projects plain, captured, and continued in copies, and compare."""
    _run(catalog.chosen(names or []), seed, snapshots, logs, write=write)


@app.command("try")
def attempt(
    command: Annotated[list[str], typer.Argument(help="The command, after --; one word is read by bash.")],
    *,
    name: Annotated[str, typer.Option(help="What to call it.")] = "command",
    folder: Annotated[Path | None, typer.Option(help="A folder of this machine to begin with.")] = None,
    fetch: Annotated[str, typer.Option(help="Bash that fetches the project into the folder.")] = ":",
    build: Annotated[str, typer.Option(help="Bash that is run once before.")] = "",
    reads: Annotated[str, typer.Option(help="What the runner writes: junit, tap, go, cargo, …")] = "",
    result: Annotated[str, typer.Option(help="The file it writes that to, if not to its output.")] = "",
    file: Annotated[list[str] | None, typer.Option(help="Files to compare byte by byte.")] = None,
    stack: Annotated[str, typer.Option(help="Packages: node, go, rust, java, services, …")] = "",
    seed: Seed = None,
    snapshots: Snapshots = running.SNAPSHOTS,
    logs: Logs = None,
) -> None:
    """Do the same with any command."""
    import shlex

    typed = command[0] if len(command) == 1 else shlex.join(command)
    given = str(folder.resolve()) if folder else ""
    project = Project(
        name, "any", typed, typed, fetch, build, reads, result, tuple(file or ()), stack=stack, folder=given
    )
    _run([project], seed, snapshots, logs, write=False)


@app.command("page")
def write_page() -> None:
    """Write the page from the results file."""
    page.FILE.write_text(page.of(results.load()), encoding="utf-8")


def _run(
    chosen: Sequence[Project], seed: int | None, snapshots: int, logs: Path | None, *, write: bool
) -> None:
    wrong = [f"{project.name}: {fault}" for project in chosen for fault in project.faults()]
    if wrong:
        raise InvalidArgument(f"cannot run {'; '.join(wrong)}")
    drawn = secrets.randbelow(100_000) if seed is None else seed
    typer.echo(f"seed {drawn}", err=True)
    found = []
    if logs:
        logs.mkdir(parents=True, exist_ok=True)
    with Holdfast(progress=note) as controller:
        for outcome in running.run(controller, chosen, seed=drawn, snapshots=snapshots, say=note, logs=logs):
            found.append(outcome)
            _tell(outcome)
            if write:
                order = [project.name for project in catalog.PROJECTS]
                results.save(results.merged(results.load(), [outcome], order))
                write_page()
    if not all_good(found):
        raise typer.Exit(1)


def _tell(one: Outcome) -> None:
    typer.echo(
        f"{'same' if one.good else 'DIFFERS'}: {one.name} {one.version}: {one.cases} cases,"
        f" {one.files} files,"
        f" {one.taken} snapshots, {one.copies} copies; {len(one.differences)} differences,"
        f" {len(one.unsteady)} unsteady by itself, {one.failing} fail in plain runs as well"
    )
    refused = [f"refused: {capture.refused}" for capture in one.captures if capture.refused]
    more = len(one.differences) - page.MOST
    rest = [f"{more} more differences"] if more > 0 else []
    for line in [*([one.error] if one.error else []), *one.differences[: page.MOST], *rest, *refused]:
        typer.echo(f"    {line}")
    if one.unsteady:
        typer.echo(f"    unsteady: {', '.join(one.unsteady[: page.MOST])}")

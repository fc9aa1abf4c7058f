"""`python -m tests.compat projects`: run the projects or any command, list them, write the page."""

from __future__ import annotations

import secrets
import shlex
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from tests.compat.projects import catalog, page, results, running
from tests.compat.projects.outcome import Outcome, all_good
from tests.compat.projects.project import Project
from tests.compat.trials import note

from holdfast import Holdfast
from holdfast.errors import InvalidArgument


def describe(parser: ArgumentParser) -> None:
    """Add the verbs and their options."""
    verbs = parser.add_subparsers(required=True)
    verbs.add_parser("list", help="List the projects.").set_defaults(verb=show)
    verbs.add_parser("page", help="Write the page from the results file.").set_defaults(verb=write_page)
    compare = verbs.add_parser(
        "run", help="Run projects plain, captured, and continued in copies, and compare."
    )
    compare.set_defaults(verb=run)
    compare.add_argument("names", nargs="*", help="Projects or kinds; by default all.")
    compare.add_argument("--write", action="store_true", help="Write the results file and the page.")
    trying = verbs.add_parser("try", help="Do the same with any command.")
    trying.set_defaults(verb=attempt)
    trying.add_argument("command", nargs="+", help="The command, after --; one word is read by bash.")
    trying.add_argument("--name", default="command", help="What to call it.")
    trying.add_argument("--folder", type=Path, help="A folder of this machine to begin with.")
    trying.add_argument("--fetch", default=":", help="Bash that fetches the project into the folder.")
    trying.add_argument("--build", default="", help="Bash that is run once before.")
    trying.add_argument("--reads", default="", help="What the runner writes: junit, tap, go, cargo, …")
    trying.add_argument("--result", default="", help="The file it writes that to, if not to its output.")
    trying.add_argument("--file", action="append", default=[], help="Files to compare byte by byte.")
    trying.add_argument("--stack", default="", help="Packages: node, go, rust, java, services, …")
    for each in (compare, trying):
        each.add_argument("--seed", type=int, help="Of the moments; by default a new one, which is printed.")
        each.add_argument(
            "--snapshots",
            type=int,
            choices=range(1, 1000),
            metavar="N",
            default=running.SNAPSHOTS,
            help="How many are taken while the command runs.",
        )
        each.add_argument("--logs", type=Path, help="A folder for what each run prints.")


def show() -> int:
    """List the projects."""
    for project in catalog.PROJECTS:
        print(f"{project.name:14} {project.kind:9} {project.does}")
    return 0


def run(names: list[str], *, seed: int | None, snapshots: int, logs: Path | None, write: bool) -> int:
    """Run projects plain, captured, and continued in copies, and compare."""
    return _run(catalog.chosen(names), seed, snapshots, logs, write=write)


def attempt(
    command: list[str],
    *,
    name: str,
    folder: Path | None,
    fetch: str,
    build: str,
    reads: str,
    result: str,
    file: list[str],
    stack: str,
    seed: int | None,
    snapshots: int,
    logs: Path | None,
) -> int:
    """Do the same with any command."""
    typed = command[0] if len(command) == 1 else shlex.join(command)
    given = str(folder.resolve()) if folder else ""
    project = Project(
        name, "any", typed, typed, fetch, build, reads, result, tuple(file), stack=stack, folder=given
    )
    return _run([project], seed, snapshots, logs, write=False)


def write_page() -> int:
    """Write the page from the results file."""
    page.FILE.write_text(page.of(results.load()), encoding="utf-8")
    return 0


def _run(
    chosen: Sequence[Project], seed: int | None, snapshots: int, logs: Path | None, *, write: bool
) -> int:
    wrong = [f"{project.name}: {fault}" for project in chosen for fault in project.faults()]
    if wrong:
        raise InvalidArgument(f"cannot run {'; '.join(wrong)}")
    drawn = secrets.randbelow(100_000) if seed is None else seed
    note(f"seed {drawn}")
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
    return 0 if all_good(found) else 1


def _tell(one: Outcome) -> None:
    print(
        f"{'same' if one.good else 'DIFFERS'}: {one.name} {one.version}: {one.cases} cases,"
        f" {one.files} files,"
        f" {one.taken} snapshots, {one.copies} copies; {len(one.differences)} differences,"
        f" {len(one.unsteady)} unsteady by itself, {one.failing} fail in plain runs as well"
    )
    refused = [f"refused: {capture.refused}" for capture in one.captures if capture.refused]
    more = len(one.differences) - page.MOST
    rest = [f"{more} more differences"] if more > 0 else []
    for line in [*([one.error] if one.error else []), *one.differences[: page.MOST], *rest, *refused]:
        print(f"    {line}")
    if one.unsteady:
        print(f"    unsteady: {', '.join(one.unsteady[: page.MOST])}")

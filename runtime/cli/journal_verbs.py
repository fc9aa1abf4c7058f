"""Verb: journal."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from holdfast.errors import InvalidArgument, OnlyInProcess
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.cli.event_verbs import moment
from holdfast.runtime.cli.grammar import examples, option


@examples("journal work -n 20", "journal work --grep pytest", "journal work --ipynb work.ipynb")
def journal(
    session: str = SESSION_REF,
    kind: list[str] | None = option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable."),
    actor: str | None = option(
        "--actor", metavar="ACTOR", help="Only entries by this actor, such as person:NAME or agent."
    ),
    since: str | None = option(
        metavar="SEQ|TIME", help="After this number; or an age (10m, 2h) or a time (2026-01-31T12:00)."
    ),
    grep: str | None = option(metavar="TEXT", help="Only entries containing this text."),
    limit: int | None = option("--limit", "-n", help="Only the last N.", least=1),
    all_timelines: bool = option("--all", help="Include other timelines, marked with ~."),
    ipynb: Path | None = option(
        metavar="FILE", help="Write the kernel's cells as a notebook (`-`: standard output)."
    ),
    kernel: str = option(default="main", help="With --ipynb: the kernel."),
    json: bool = JSON,
) -> None:
    """Show what was run in a session, by whom, why, and with what result, even after the session is gone."""
    from holdfast.runtime.journal import entry_text

    holdfast = controller()
    if ipynb is not None and is_over_a_url():
        raise OnlyInProcess(
            "cannot write a notebook over a URL: the rules that keep secrets out of it are on the server",
            hint="run it there, without HOLDFAST_URL; `--json` has the entries as they are",
        )
    found = holdfast.session(session, removed=True)
    after, begin = moment(since, datetime.now(UTC))
    entries = found.journal(
        after or None,
        kinds=kind or None,
        actor=actor,
        since=begin,
        grep=grep,
        all_timelines=all_timelines,
        limit=limit,
    )
    if ipynb is not None:
        from holdfast.runtime.journal import notebook
        from holdfast.runtime.journal.scrubbed_journal import without_secrets
        from holdfast.runtime.scrubbing import rules_file

        clean = without_secrets(entries, rules_file.read(holdfast.home).matcher())
        _write(ipynb, notebook.write(notebook.notebook(clean, kernel, found.name)))
    elif wants_json(json):
        printing.emit([entry.as_dict() for entry in entries])
    else:
        for entry in entries:
            printing.say(entry_text.line(entry, asked=found.name))


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror or error}") from error

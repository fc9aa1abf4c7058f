"""Verb: doctor."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import context_of, controller, wants_json
from holdfast.runtime.cli.grammar import examples, option
from holdfast.runtime.cli.reporting import Exit

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.results import Check


_NAMES = 22
"""Columns for the name of a check; only a few names are longer."""


@examples("doctor", "doctor --security")
def doctor(
    ci: bool = option(
        "--ci", help="Check what a CI runner must allow. Exit code 3: only file snapshots work."
    ),
    security: bool = option(
        "--security", help="Show how sessions are isolated from this host, and how to improve that."
    ),
    json: bool = JSON,
) -> None:
    """Check everything Holdfast needs. Exit code 1 if something is missing."""
    if security:
        _security(as_json=wants_json(json))
        return
    if ci:
        from holdfast.runtime.ci import ci_host

        found = ci_host.checks(context_of(controller(), "doctor --ci"))
        _show(found, as_json=wants_json(json))
        raise Exit(ci_host.exit_code(found))
    from holdfast.runtime.doctor.doctor import each

    found = _shown(each(context_of(controller(), "doctor")), as_json=wants_json(json))
    if not all(check.ok for check in found):
        raise Exit(1)


def _security(*, as_json: bool) -> None:
    """Print the posture. Exit code 1 if something that Holdfast promises does not hold."""
    from holdfast.runtime.doctor.posture import posture_rules, read_facts

    found = posture_rules.judge(read_facts.read(context_of(controller(), "doctor --security")))
    if as_json:
        printing.emit([posture_rules.plain_row(line) for line in found])
    else:
        printing.table(
            ("", "WHAT", "STATE", "WHY IT MATTERS"), ((f.level, f.name, f.state, f.why) for f in found)
        )
        for line in found:
            if line.improve:
                printing.note(f"{line.name}: {line.improve}")
    if any(line.level == "weak" for line in found):
        raise Exit(1)


def _shown(checks: Iterator[Check], *, as_json: bool) -> list[Check]:
    """Run the checks; show each as it ends, and at the end what helps. JSON is one list."""
    if as_json:
        found = list(checks)
        _show(found, as_json=True)
        return found
    found = []
    for check in checks:
        found.append(check)
        printing.say(f"{'ok' if check.ok else 'NO'}  {check.name.ljust(_NAMES)}  {check.detail}")
        sys.stdout.flush()
    _say_hints(found)
    return found


def _say_hints(found: Sequence[Check]) -> None:
    for check in found:
        if not check.ok and check.hint:
            printing.note(f"{check.name}: {check.hint}")


def _show(found: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        printing.emit(
            [
                {"name": check.name, "ok": check.ok, "detail": check.detail, "hint": check.hint}
                for check in found
            ]
        )
    else:
        printing.table(("", "CHECK", "FOUND"), (("ok" if c.ok else "NO", c.name, c.detail) for c in found))
        _say_hints(found)

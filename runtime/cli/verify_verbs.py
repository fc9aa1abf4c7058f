"""Verb: verify."""

from __future__ import annotations

from holdfast.base.text import plain
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, snapshot_names
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples
from holdfast.runtime.cli.reporting import Exit


@examples("verify", "verify before")
def verify(
    snapshots: list[str] | None = argument(
        "[SNAPSHOT...]", default=None, help="Labels or ids.", names=snapshot_names
    ),
    json: bool = JSON,
) -> None:
    """Check every stored byte of snapshots and repair what can be. Exit code 1 if one is damaged."""
    with controller() as holdfast:
        found = holdfast.verify(*(snapshots or []))
    if wants_json(json):
        printing.emit(
            {
                "ok": found.ok,
                "snapshots": found.snapshots,
                "bytes": found.bytes,
                "damaged": found.damaged,
                "newer": found.newer,
                "findings": [
                    {"snapshot": one.snapshot, "name": one.name, "text": one.text, "repaired": one.repaired}
                    for one in found.findings
                ],
            }
        )
    else:
        for one in found.findings:
            printing.say(plain(str(one), 400))
        for name in found.newer:
            printing.say(f"snapshot {name}: not checked, a newer version of Holdfast wrote it")
        repaired = sum(one.repaired for one in found.findings)
        facts = [f"{found.snapshots} snapshots", f"{printing.size(found.bytes)} compared"]
        facts += [f"{len(found.damaged)} damaged"] if found.damaged else []
        facts += [f"{repaired} repaired"] if repaired else []
        facts += [f"{len(found.newer)} not checked"] if found.newer else []
        printing.say(", ".join(facts) + ("" if found.findings or found.newer else ": all whole"))
    if not found.ok:
        raise Exit(1)

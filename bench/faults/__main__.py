"""`python -m bench.faults`: rounds of kills at random points; writes `docs/faults.md`."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from rich.console import Console

from bench.faults.page import page, summary
from bench.faults.storm import OPERATIONS, Outcome, Storm
from bench.faults.victims import VICTIMS
from bench.world import about, opened

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

_console = Console(stderr=True, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--victim", choices=VICTIMS)
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    chosen = parser.parse_args()
    dice = random.Random(chosen.seed)
    found: list[Outcome] = []
    with opened(lambda line: _console.print(line, markup=False)) as world:
        facts = about(world, quick=False)
        storm = Storm(world.holdfast, chosen.seed)
        storm.prepare()
        for number in range(chosen.rounds):
            one = storm.round(dice.choice(OPERATIONS), chosen.victim or dice.choice(VICTIMS))
            found.append(one)
            what = one.lost and f"{one.lost} <- {one.told or 'NOT TOLD'}"
            _console.print(
                f"{number} {one.operation} {one.victim} {'hit' if one.struck else 'missed'} "
                f"{one.seconds:.1f} s {what} {one.left or ''}",
                markup=False,
            )
    print(summary(found))
    if not chosen.dry:
        day, cpus, kernel = str(facts["at"])[:10], facts["cpus"], facts["kernel"]
        on = f"Measured {day} on {cpus} processors, Linux {kernel}, load {facts['load']} at the start."
        PAGE.write_text(page(found, on))
    return int(any(one.silent or one.left for one in found))


if __name__ == "__main__":
    sys.exit(main())

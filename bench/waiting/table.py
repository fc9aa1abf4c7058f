"""The results of the runs, as figures and as a page.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.waiting.cases import WAITING

ORDER = ("line", "password", "key", "pager", "repl", "cpu", "io", "sleep", "stopped", "ended")


@dataclass(frozen=True, slots=True)
class Found:
    """The report on one case. `delay` is in seconds, from its last output to the report."""

    name: str
    truth: str
    reported: str
    delay: float | None = None
    prompt: str = ""

    @property
    def waits(self) -> bool:
        """True if it really waits."""
        return self.truth in WAITING

    @property
    def sorted_right(self) -> bool:
        """True if the report is right about waiting or not."""
        return self.waits == (self.reported in WAITING)

    @property
    def right(self) -> bool:
        """True if the kind is also the expected one."""
        return self.sorted_right and self.truth in ("running", self.reported)


def confusion(found: Sequence[Found]) -> list[str]:
    """Return lines of a table in Markdown: truth by rows, reports by columns."""
    counts = Counter((each.truth, each.reported) for each in found)
    columns = [name for name in ORDER if any(each.reported == name for each in found)]
    rows = [name for name in (*ORDER, "running") if any(each.truth == name for each in found)]
    lines = [f"| truth | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        label = {"running": "not waiting, in any way"}.get(row, row)
        cells = (str(counts[row, column] or "") for column in columns)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def delays(found: Sequence[Found]) -> list[float]:
    """Return all delays, in seconds, sorted."""
    return sorted(each.delay for each in found if each.delay is not None)


def summary(found: Sequence[Found]) -> str:
    """Return one paragraph: how many, how right, how soon."""
    waiting = [each for each in found if each.waits]
    missed = [each for each in waiting if not each.sorted_right]
    false = [each for each in found if not each.waits and not each.sorted_right]
    kinds = sum(each.right for each in waiting)
    all_delays = delays(found)
    text = (
        f"{len(found)} programs, {len(waiting)} of which wait for input."
        f" Waits missed: {len(missed)}. False reports of waiting: {len(false)}."
        f" Kind of waiting as expected: {kinds} of {len(waiting)}."
    )
    if all_delays:
        middle, most = all_delays[len(all_delays) // 2], all_delays[-1]
        high = all_delays[min(len(all_delays) - 1, round(0.95 * len(all_delays)))]
        text += (
            f" Delay: median {middle * 1000:.0f} ms, 95th percentile {high * 1000:.0f} ms,"
            f" greatest {most * 1000:.0f} ms."
        )
    return text


def page(found: Sequence[Found], about: str) -> str:
    """Return the whole page in Markdown."""
    lines = [*HEAD.strip().splitlines(), "", "## Figures", "", summary(found), "", about, ""]
    lines += [*confusion(found), "", "## Cases", "", "| case | truth | reported | delay | prompt |"]
    lines.append("|---|---|---|---:|---|")
    for each in found:
        delay = "" if each.delay is None else f"{each.delay * 1000:.0f} ms"
        prompt = f"`{each.prompt.strip().replace('|', chr(92) + '|').replace('`', '')[-48:]}`"
        mark = "" if each.right else " (!)"
        lines.append(
            f"| {each.name} | {each.truth} | {each.reported}{mark} | {delay} |"
            f" {prompt if each.prompt.strip() else ''} |"
        )
    return "\n".join(lines) + "\n"


HEAD = """
# Waiting

Why is a command not finished? For its shell, a session reports one of `running` (cpu, io, sleep), `waiting`
(for a line, a password, a key, at a pager, at the prompt of a repl), `stopped` and `exited`; with the
process, since when, and the text that asks. `exec` returns as soon as its command waits.
[architecture.md](architecture.md#why-a-command-does-not-finish) describes the detection.

`python -m bench.waiting` writes this page; it runs real programs in a session. *Delay* is the time from
the last output of the program, or from its start if it writes nothing, to the report as a client receives
it. It includes what the program does between its prompt and its wait for an answer. A case that does not
wait is watched for two seconds; one report of waiting is enough to count as wrong.
"""

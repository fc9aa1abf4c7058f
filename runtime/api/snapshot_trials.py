"""Many runs of one command from a snapshot, as its handle offers them.

`runtime.flaky`, imported on first use, runs them and distinguishes outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.base import shell_words

if TYPE_CHECKING:
    from holdfast.runtime.flaky.repeat import Keep, KeepAs, Series
    from holdfast.runtime.flaky.spread import Run, Spread
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


class SnapshotTrials:
    """The runs of commands from one snapshot."""

    def __init__(self, context: Context, row: SnapshotRow) -> None:
        self._context, self._row = context, row

    def retry(
        self,
        command: str | Sequence[str],
        n: int = 20,
        *,
        jobs: int = 4,
        timeout: float | None = None,
        keep: Keep = "diverging",
        keep_as: KeepAs = "sessions",
        until_differs: bool = False,
        compare_output: bool = False,
        name: str | None = None,
        patience: Patience | None = None,
    ) -> Spread:
        """Run a command n times from here, each in a copy of its own, and report how the outcomes are
        distributed.

        It runs in the captured shell, in its directory; if a command runs there, as a job outside it.

        Args:
            command: text for bash, or words.
            n: how many runs.
            jobs: how many run simultaneously, if there is memory for them.
            timeout: seconds for each; a run that has not ended by then, or waits for input, is an
                outcome.
            keep: `diverging` (one or two of each kind, if there are several), `all`, `none`.
            keep_as: `sessions` that continue, or `snapshots`.
            until_differs: start no more runs after two outcomes differ.
            compare_output: let the output of passing runs distinguish kinds.
            name: copies are called name-1, name-2, …
            patience: another thread ends all runs with it.

        Raises:
            InvalidArgument, SessionExists: nothing was started.
            LiveUnsupported, RestoreFailed, SnapshotDamaged: no copies can be made; nothing is left of any.
            RunsEnded: the patience was ended; nothing is left of any.
        """
        from holdfast.runtime.flaky.repeat import Series

        text = command if isinstance(command, str) else shell_words.join(command)
        series = Series(text, n, jobs, timeout, keep, keep_as, until_differs, compare_output, name)
        return self.tried(series, patience=patience)

    def tried(
        self,
        series: Series,
        report: Callable[[Run], None] = lambda _run: None,
        *,
        patience: Patience | None = None,
    ) -> Spread:
        """Run `retry` and return everything in one value; the callback receives each run when it
        has ended.
        """
        from holdfast.runtime.flaky import repeat

        return repeat.retry(self._context, self._row, series, report, patience)

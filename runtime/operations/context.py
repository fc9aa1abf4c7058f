"""The context of a call: home, engine, actor and reason.

Passed down instead of the controller. Knows no sessions, snapshots or handles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from holdfast.base.background import Background
from holdfast.base.home import Home
from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.store import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.operations.step import Step
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store

Progress = Callable[[str], None]
"""A function that takes one line for each step of something slow."""
Watcher = Callable[["Step | None"], None]
"""A function that takes each step as it begins, and None when nothing is under way any more."""


def no_progress(_line: str) -> None:
    """Report nothing."""


def _connected() -> Engine:
    from holdfast.engine.engine import Engine  # 15 ms that `exec` does not need to spend

    return Engine.connect()


@dataclass(frozen=True)
class Context:
    """A home with its store and its engine, and the actor on whose behalf they are used.

    Store and engine are opened on first use: a command in a running session needs neither.

    Attributes:
        home: the state directory, which exists.
        actor: the actor for the journal, as `actors.checked` returns it.
        reason: the reason for the journal.
        progress: receives one line for each step of something slow, to be kept.
        watcher: receives each step of an operation as it begins, to be shown while it lasts; None: that of
            the call, if it has one (`operations.step`).
        connect: connects to the engine. Raises EngineUnavailable.
        background: work that continues while the caller does something else.
        waker: wakes a session that sleeps and returns its row; None: sleeping sessions are left alone.
    """

    home: Home
    actor: str = "system"
    reason: str | None = None
    progress: Progress = no_progress
    watcher: Watcher | None = None
    connect: Callable[[], Engine] = _connected
    background: Background = field(default_factory=Background)
    waker: Callable[[Context, str], SessionRow] | None = None

    @cached_property
    def store(self) -> Store:
        """The store of the home.

        Raises:
            StoreError: it cannot be used, or an older version has sessions running in it.
        """
        from holdfast.runtime.operations import leaving_running
        from holdfast.runtime.store.store import Store  # `exec` does not need it

        store = Store.open(
            self.home.database,
            lambda names: leaving_running.check(self.home.root, names, self.running_containers),
        )
        store.user = self.user
        return store

    @property
    def user(self) -> str:
        """The actor without its run, whose use quotas limit."""
        return self.actor.partition("/")[0]

    @cached_property
    def engine(self) -> Engine:
        """The engine that sessions run in.

        Raises:
            EngineUnavailable: no engine answers.
        """
        return self.connect()

    def doing(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Report a step that begins, or its progress; `carry_out` reports the end of the last."""
        if (watcher := self._watching()) is not None:
            from holdfast.runtime.operations.step import Step

            watcher(Step(text, done, total))

    def doing_bytes(self, text: str) -> Callable[[int, int], None]:
        """Return a function that takes the bytes done and in total, and reports each MiB of a step once."""
        shown = -1

        def counted(done: int, total: int) -> None:
            nonlocal shown
            if done >> 20 != shown:
                shown = done >> 20
                self.doing(f"{text}, MiB", shown, total >> 20)

        return counted

    @property
    def is_watched(self) -> bool:
        """True if steps are reported to a watcher."""
        return self._watching() is not None

    def idle(self) -> None:
        """Report that no operation is under way any more."""
        if (watcher := self._watching()) is not None:
            watcher(None)

    def _watching(self) -> Watcher | None:
        if self.watcher is not None:
            return self.watcher
        from holdfast.runtime.operations import step  # `exec` has no steps

        return step.watcher_of_call()

    def session_row(self, ref: str) -> SessionRow:
        """Return the current row of the session with this name, id or unique prefix of an id.

        Raises:
            SessionNotFound, InvalidArgument: none or several match.
        """
        return peek.session(self.home.below("holdfast.db"), ref) or self.store.session(ref)

    def session_rows(self) -> list[SessionRow]:
        """Return the rows of all sessions, oldest first."""
        found = peek.sessions(self.home.below("holdfast.db"))
        return self.store.sessions() if found is None else found

    def running_containers(self) -> set[str]:
        """Return the ids of the home's containers that run.

        Raises:
            EngineUnavailable, EngineError: the engine does not answer.
        """
        found = None
        if "engine" not in self.__dict__ and self.connect is _connected:
            from holdfast.engine import quick_list  # the SDK would take 0.2 s to load

            found = quick_list.running(holdfast_home=self.home.digest)
        return self.engine.running(holdfast_home=self.home.digest) if found is None else found

    def close(self) -> None:
        """Wait for background work, and close the connection to the engine."""
        self.background.settle()
        engine = self.__dict__.pop("engine", None)
        if engine is not None:
            engine.close()

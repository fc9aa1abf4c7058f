"""Arguments and options that several verbs share, and their completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from holdfast.base.home import Home
from holdfast.runtime.store import peek

if TYPE_CHECKING:
    pass


def session_names(incomplete: str) -> list[str]:
    """Completion: names of sessions."""
    return [name for name in peek.names(Home.default().database, "sessions") if name.startswith(incomplete)]


def snapshot_names(incomplete: str) -> list[str]:
    """Completion: labels and ids of snapshots."""
    return [name for name in peek.names(Home.default().database, "snapshots") if name.startswith(incomplete)]


def session_and_snapshot_names(incomplete: str) -> list[str]:
    """Completion: names of sessions, and labels and ids of snapshots."""
    return session_names(incomplete) + snapshot_names(incomplete)


SessionRef = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", help="Name, or a unique prefix of the id.", autocompletion=session_names
    ),
]
SessionRefs = Annotated[
    list[str], typer.Argument(metavar="SESSION...", help="Names or ids.", autocompletion=session_names)
]
SnapshotRef = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOT", help="Label, or a unique prefix of the id.", autocompletion=snapshot_names
    ),
]
SnapshotRefs = Annotated[
    list[str], typer.Argument(metavar="SNAPSHOT...", help="Labels or ids.", autocompletion=snapshot_names)
]
EitherRef = Annotated[
    str,
    typer.Argument(
        metavar="SESSION|SNAPSHOT", help="What to fork.", autocompletion=session_and_snapshot_names
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object or list on standard output.")]
Shell = Annotated[
    str, typer.Option("--shell", metavar="NAME", help="A shell of `shells` instead of the main one.")
]
KernelName = Annotated[
    str | None,
    typer.Option("--kernel", metavar="NAME", help="A kernel of `kernels` instead of the main one."),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", help="Interrupt it after this many seconds.", metavar="S")
]
LeaseWait = Annotated[
    float | None,
    typer.Option("--lease-wait", help="Seconds to wait for the shell if someone holds it.", metavar="S"),
]
BusyWait = Annotated[
    float | None,
    typer.Option("--busy-wait", help="Seconds to wait if it is busy.", metavar="S"),
]
Patience = Annotated[
    float | None,
    typer.Option(
        "--patience",
        help="Stop waiting after this many seconds; it keeps running, and `wait` picks it up.",
        metavar="S",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="KEY", help="Run it at most once under this key; later calls get the same result."
    ),
]
Network = Annotated[str | None, typer.Option("--network", help="`internet`, `none` or `open`.")]
Domain = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="NAME[:PORT]",
        help="With --network domains: allow this name, or `*.NAME`. Repeatable.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="HOST:PORT",
        help="Allow this address, network or name as well. Repeatable.",
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the journal.")]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Pass the session's output to your terminal unfiltered."),
]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the new session.")]


class Separated(TyperCommand):
    """A command that knows whether its arguments were set apart by `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the `--` that the parser drops."""
        ctx.meta["separated"] = "--" in args
        return super().parse_args(ctx, args)

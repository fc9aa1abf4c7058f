"""Arguments and options that several verbs share, and their completion."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.runtime.cli.grammar import Together, argument, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.sessions.option_table import Verb as Starter

_ANNOTATIONS = {
    "text": "str | None",
    "count": "int | None",
    "number": "float | None",
    "switch": "bool",
    "texts": "list[str] | None",
}


def session_names(incomplete: str) -> list[str]:
    """Completion: names of sessions."""
    return _names("sessions", incomplete)


def snapshot_names(incomplete: str) -> list[str]:
    """Completion: labels and ids of snapshots."""
    return _names("snapshots", incomplete)


def session_and_snapshot_names(incomplete: str) -> list[str]:
    """Completion: names of sessions, and labels and ids of snapshots."""
    return session_names(incomplete) + snapshot_names(incomplete)


def _names(table: str, incomplete: str) -> list[str]:
    from holdfast.base.home import Home
    from holdfast.runtime.store import peek

    names = peek.names(Home.default().below("holdfast.db"), table)
    return [name for name in names if name.startswith(incomplete)]


def session_options(verb: Starter) -> Any:
    """Return the default of a parameter that gets the options of a session, as `Holdfast.new` takes them."""

    def described() -> Iterator[tuple[str, str, Any]]:
        from holdfast.runtime.sessions import option_table

        for row in option_table.offered_by(verb):
            flag = option(row.flag, metavar=row.metavar or "", help=row.help)
            yield row.name, _ANNOTATIONS[row.kind], flag

    return Together(described)


SERVING: Any = Together(
    lambda: (
        (
            "listen",
            "str | None",
            option("--listen", metavar="PORT|HOST:PORT", help="A port of loopback; 8420 by default."),
        ),
        (
            "anywhere",
            "bool",
            option("--anywhere", help="Let --listen name an address beyond loopback."),
        ),
        (
            "host_name",
            "list[str] | None",
            option("--host-name", metavar="NAME", help="A name that clients can use for this server."),
        ),
        (
            "origin",
            "list[str] | None",
            option("--origin", metavar="URL", help="Let web pages of this origin use the server."),
        ),
        (
            "rate",
            "float | None",
            option("--rate", least=0, help="Sustained requests per second; 500 by default, 0 for no limit."),
        ),
        (
            "preview_url",
            "str | None",
            option(
                "--preview-url",
                metavar="URL",
                help="URL of a domain whose subdomains lead to this server.",
            ),
        ),
        (
            "pool",
            "int | None",
            option("--pool", metavar="N", help="Keep N sessions ready while it serves."),
        ),
        (
            "audit",
            "bool",
            option("--audit", help="Write a row for each request: `holdfast audit` shows and checks them."),
        ),
    )
)


SESSION_REF = argument("SESSION", help="Name, or a unique prefix of the id.", names=session_names)
SESSION_REFS = argument("SESSION...", help="Names or ids.", names=session_names)
SNAPSHOT_REF = argument("SNAPSHOT", help="Label, or a unique prefix of the id.", names=snapshot_names)
SNAPSHOT_REFS = argument("SNAPSHOT...", help="Labels or ids.", names=snapshot_names)
EITHER_REF = argument(
    "SESSION|SNAPSHOT", help="The session or snapshot to fork.", names=session_and_snapshot_names
)
JSON = option("--json", help="One JSON object or list on standard output.")
SHELL = option("--shell", default="main", metavar="NAME", help="A shell of `shells` instead of the main one.")
KERNEL_NAME = option("--kernel", metavar="NAME", help="A kernel of `kernels` instead of the main one.")
TIMEOUT = option("--timeout", help="Interrupt it after this many seconds.", metavar="S")
LEASE_WAIT = option("--lease-wait", help="Seconds to wait for the shell if someone holds it.", metavar="S")
BUSY_WAIT = option("--busy-wait", help="Seconds to wait if it is busy.", metavar="S")
PATIENCE = option(
    "--patience",
    help="Stop waiting after this many seconds; it keeps running, and `wait` picks it up.",
    metavar="S",
)
KEY = option(
    "--key", metavar="KEY", help="Run it at most once under this key; later calls return the same result."
)
NETWORK = option("--network", help="`internet`, `none` or `open`.")
DOMAIN = option(
    "--domain",
    metavar="NAME[:PORT]",
    help="With --network domains: allow this name, or `*.NAME`. Repeatable.",
)
ALLOW = option(
    "--allow", metavar="HOST:PORT", help="Allow this address, network or name as well. Repeatable."
)
DENY = option(
    "--deny",
    metavar="ADDRESS|NETWORK",
    help="Deny this address or network, except for its allowed part. Repeatable.",
)
REASON = option("--reason", metavar="TEXT", help="Why, for the journal.")
RAW = option("--raw", help="Pass the session's output to your terminal unfiltered.")
LIFE = option(
    metavar="TIME", help="End it after this long, such as 2h; a running server or `autosnap` does that."
)
THEN = option(metavar="suspend|remove", help="The action at its end; `suspend` by default.")
IDLE = option(
    metavar="TIME", help="Put it to sleep after this long without use, such as 30m; the next use wakes it."
)
NAME_OPTION = option("--name", help="Name of the new session.")
AS = option(
    "--as",
    metavar="RUNG",
    help="Restore exactly this: `live`; `commands` (files and a script of the recorded commands); `files`.",
)
REQUIRE = option("--require", metavar="RUNG", help="Restore as much as possible, but at least this.")
RUN_COMMANDS = option("--run-commands", help="With --as commands: also run them, in order.")

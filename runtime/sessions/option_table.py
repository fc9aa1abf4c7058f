"""The options of a session, each described once: its flag and help, its verbs, and its use.

`SessionOptions` has their types, checks and defaults. The command line, moves, exports and imports take the
names from here and list none of their own: an option with a row here is offered and carried wherever it
belongs. Pure, and imports nothing: the command line starts with it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["text", "count", "number", "switch", "texts"]
    Verb = Literal["new", "ci run", "mcp"]

ALL = ("new", "ci run", "mcp")
"""The verbs that start sessions with options."""


class SessionOption:
    """One option.

    Attributes:
        name: of the field of `SessionOptions`.
        flag: of the command line; of texts it is repeated for each, so that it is in the singular.
        help, metavar: what the help of a verb says of it.
        kind: a text, an integer, a decimal number, a switch without a value, or several texts.
        verbs: those that offer it.
        moves: goes along when a session moves; other options keep it on its machine, but for the image.
        exported: is part of a snapshot that is exported or pushed.
        taken_over: is taken as it is from a snapshot of others: it can only restrict, or is needed inside.
    """

    __slots__ = ("exported", "flag", "help", "kind", "metavar", "moves", "name", "taken_over", "verbs")

    def __init__(
        self,
        name: str,
        said: str,
        *,
        kind: Kind = "text",
        flag: str = "",
        metavar: str | None = None,
        verbs: tuple[str, ...] = ALL,
        moves: bool = True,
        exported: bool = False,
        taken_over: bool = False,
    ) -> None:
        self.name, self.help, self.kind, self.metavar, self.verbs = name, said, kind, metavar, verbs
        self.flag = f"--{flag or name.replace('_', '-')}"
        self.moves, self.exported, self.taken_over = moves, exported, taken_over


OPTIONS = (
    SessionOption(
        "image", "Any Linux image; by default Holdfast's own.", verbs=("ci run", "mcp"), moves=False
    ),
    SessionOption("network", "`internet`, `none`, `open` or `domains`.", exported=True),
    SessionOption(
        "allow",
        "Allow this address, network or name as well. Repeatable.",
        kind="texts",
        metavar="HOST:PORT",
    ),
    SessionOption(
        "deny",
        "Deny this address or network, except for its allowed part. Repeatable.",
        kind="texts",
        metavar="ADDRESS|NETWORK",
        exported=True,
        taken_over=True,
    ),
    SessionOption(
        "domains",
        "With --network domains: allow this name, or `*.NAME`. Repeatable.",
        kind="texts",
        flag="domain",
        metavar="NAME[:PORT]",
    ),
    SessionOption(
        "secrets",
        "A secret that only HOST gets, never the session: env:VAR or @FILE. Repeatable.",
        kind="texts",
        flag="secret",
        metavar="NAME@HOST[,HOST...]=SOURCE",
        verbs=("new",),
        moves=False,
    ),
    SessionOption("memory", "Limit, such as 512m or 4g.", exported=True),
    SessionOption("disk", "Limit of the session's own files, where the engine supports it."),
    SessionOption("cpus", "Limit in cores, such as 1.5.", kind="number", exported=True),
    SessionOption("pids", "Limit of processes and threads.", kind="count", exported=True),
    SessionOption("user", "User that shell and kernel run as.", exported=True, taken_over=True),
    SessionOption(
        "env", "Set a variable. Repeatable.", kind="texts", metavar="KEY=VALUE", verbs=("new", "mcp")
    ),
    SessionOption(
        "mounts",
        "Mount a host folder. Repeatable.",
        kind="texts",
        flag="mount",
        metavar="SRC:DST[:ro]",
        moves=False,
    ),
    SessionOption("workdir", "Initial working directory.", exported=True, taken_over=True),
    SessionOption(
        "read_only",
        "Forbid writing to the image's files.",
        kind="switch",
        exported=True,
        taken_over=True,
    ),
    SessionOption(
        "writable",
        "With --read-only: a folder to write to. Repeatable.",
        kind="texts",
        metavar="FOLDER",
        exported=True,
        taken_over=True,
    ),
    SessionOption(
        "shell",
        "Shell of the image, or our own bash.",
        metavar="bash|zsh|fish|PATH|holdfast",
        exported=True,
        taken_over=True,
    ),
    SessionOption(
        "kernel",
        "Jupyter kernel of the image that cells run in.",
        metavar="NAME",
        exported=True,
        taken_over=True,
    ),
    SessionOption(
        "python",
        "Interpreter in the session that cells run in.",
        metavar="PATH",
        exported=True,
        taken_over=True,
    ),
)
"""In the order in which the help of a verb lists them."""


def offered_by(verb: Verb) -> tuple[SessionOption, ...]:
    """Return the options that a verb offers."""
    return tuple(option for option in OPTIONS if verb in option.verbs)


MOVING = tuple(option.name for option in OPTIONS if option.moves)
"""Those that go along when a session moves."""
REPEATED = ("image", *MOVING)
"""Those of a fresh session in which commands are repeated.

It has no secrets and no mounts: the commands would change files of the host again.
"""
EXPORTED = tuple(option.name for option in OPTIONS if option.exported)
TAKEN_OVER = tuple(option.name for option in OPTIONS if option.taken_over)

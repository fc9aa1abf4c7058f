"""The kind of answer that a program waiting at the terminal wants.

Pure: the terminal's modes, the text at the cursor and the program's name come in. It owns what is known about
programs; it does not know how the waiting was detected.
"""

from __future__ import annotations

import re

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.pulse.prompts import PAGER, PASSWORD, REPL, Prompt
from holdfast.runtime.guest.pulse.state import Detail

_PAGERS = frozenset({"less", "more", "most", "pg", "man", "lv", "bat", "batcat", "delta", "moar"})
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "fish", "ksh", "mksh", "tcsh", "csh", "ash", "busybox"})
_REPLS = frozenset(
    [
        "R",
        "Rscript",
        "bc",
        "bluetoothctl",
        "bpython",
        "bun",
        "cfdisk",
        "clojure",
        "dc",
        "debugfs",
        "deno",
        "ed",
        "erl",
        "fdisk",
        "ftp",
        "gdb",
        "gdb-multiarch",
        "gdisk",
        "ghci",
        "gp",
        "guile",
        "iex",
        "ipython",
        "ipython3",
        "irb",
        "jshell",
        "julia",
        "lftp",
        "lldb",
        "lua",
        "luajit",
        "mariadb",
        "maxima",
        "mongo",
        "mongosh",
        "mysql",
        "node",
        "nodejs",
        "nslookup",
        "ocaml",
        "octave",
        "octave-cli",
        "parted",
        "pgcli",
        "php",
        "pry",
        "psql",
        "ptpython",
        "python",
        "python3",
        "racket",
        "redis-cli",
        "sbcl",
        "scala",
        "sftp",
        "sqlite",
        "sqlite3",
        "swipl",
        "telnet",
        "utop",
        "virsh",
        "wpa_cli",
    ]
)
_PROMPT_OF_NODE = re.compile(r"^(?:> ?|\.\.\. ?)$")
_PROMPT_OF_SHELL = re.compile(r"[$#%>❯➜] ?$")


@dataclass(frozen=True, slots=True)
class InputModes:
    """The terminal settings that matter here, see termios(3)."""

    canonical: bool = True
    echo: bool = True
    signals: bool = True
    translates: bool = True
    """ICRNL: what Enter sends is read as a newline. Line editors switch it off."""

    @property
    def hidden(self) -> bool:
        """True if a line is typed without being shown: a password."""
        return self.canonical and not self.echo


def kind(modes: InputModes, prompt: Prompt, name: str) -> Detail:
    """Return what kind of answer a program of that name wants when it is blocked on the terminal."""
    text = prompt.text
    if modes.hidden:
        return "password"
    if name in _PAGERS or (not prompt.alternate and _more(prompt)):
        return "pager"
    if modes.canonical:
        return "repl" if _repl(name, prompt) else "line"
    if prompt.alternate and PAGER.match(text) and not name.startswith(("vi", "nvim", "nano", "emacs")):
        return "pager"
    if not modes.echo and PASSWORD.search(text) and not prompt.above:
        return "password"
    if prompt.alternate:
        return "key"
    if _repl(name, prompt) or (name in _SHELLS and not modes.echo):
        # A shell in its own line editor is at its prompt, however that looks; so is `read -e`.
        return "repl" if name not in _SHELLS or _PROMPT_OF_SHELL.search(text) else "line"
    if not modes.echo and not modes.translates and prompt.asks:
        return "line"
    return "key"


def _more(prompt: Prompt) -> bool:
    return bool(re.match(r"^(?:--More--|\(END\)|:$)", prompt.text)) and not prompt.above


def _repl(name: str, prompt: Prompt) -> bool:
    if prompt.above:
        return name in _REPLS and name in ("bc", "dc", "ed")
    if name in _SHELLS:
        return bool(_PROMPT_OF_SHELL.search(prompt.text))
    if name in ("node", "nodejs", "deno", "bun"):
        return bool(_PROMPT_OF_NODE.match(prompt.text) or REPL.match(prompt.text))
    if REPL.match(prompt.text):
        return True
    plain = name.rstrip("0123456789.")
    if name.startswith(("python", "Rscript")):
        return False  # scripts of all kinds run under that name
    return (name in _REPLS or plain in _REPLS) and (prompt.asks or not prompt.text)

"""The kind of answer that a program waiting at the terminal wants, and the text at the cursor that tells it.

Pure: bytes of a terminal, its modes and the program's name come in; lines and kinds come out. It does not
emulate a terminal: it follows one line, which is all a prompt needs, and starts a new one where a program
moves elsewhere on the screen. It owns what is known about programs; it does not know how the waiting was
detected.
"""

from __future__ import annotations

import re

from holdfast.base.value_classes import dataclass
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
TAIL = 16 << 10
"""Bytes of output that are examined: more than any line, and what a full-screen program draws at once."""
LONGEST = 500

_TOKEN = re.compile(
    rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, including our own marks
    rb"|\x1b[PX^_].*?(?:\x1b\\|$)"
    rb"|\x1b\[(?P<args>[0-?]*)[ -/]*(?P<final>[@-~])"
    rb"|\x1b(?P<short>[ -/]*[0-~])"
    rb"|(?P<control>[\x00-\x1f\x7f])"
    rb"|(?P<text>[^\x00-\x1f\x7f]+)",
    re.DOTALL,
)
_ALTERNATE = re.compile(rb"\x1b\[\?(?:47|1047|1049)([hl])")

PASSWORD = re.compile(
    r"(?:pass(?:word|phrase|code|wd)?|\bPIN\b|\btoken\b|secret|one-time|verification code)\b.*[:?]\s*$", re.I
)
REPL = re.compile(
    r"^(?:>>> ?|\.\.\. ?|In \[\d+\]: ?| *\.\.\.+: ?"  # python, ipython
    r"|\(Pdb\+*\) ?|ipdb> ?|\(Pydb\) ?|\(gdb\) ?|\(lldb\) ?|\(rdb:\d+\) ?"
    r"|[\w.-]*[=\-*(!^'\"][#>] ?"  # psql: name=# name-# name=>
    r"|sqlite> ?| +\.\.\.> ?|(?:mysql|MariaDB \[[^\]]*\])> ?| +[-'\"`]> ?"
    r"|irb[^>]*[>*] ?|\[\d+\] pry.*> ?|php > ?|ghci> ?|Prelude.*> ?|scala> ?|jshell> ?|iex\(\d+\)> ?"
    r"|julia> ?|octave:\d+> ?|sftp> ?|ftp> ?|lftp .*> ?|telnet> ?|redis.*> ?|[\d.]+:\d+(?:\[\d+\])?> ?"
    r"|\w+@[\w.-]+.*[$#%>] ?|(?:[\w./~-]*[A-Za-z~/] ?)?[$#%] ?)$"
)
"""Known prompts of programs that read one command after the other."""
PAGER = re.compile(
    r"^(?::|\(END\)|--More--.*|--MORE--.*|.*\(END\)|.* lines? \d+.*|lines? \d+.*|(?:Manual page|Help:) .*"
    r"|.*\(press h for help or q to quit\)|HELP -- .*|.*\d+%)\s*$"
)
QUESTION = re.compile(r"(?:[:?»›❯➜]|[A-Za-z][\])]|(?<![=>\-])>|(?<!#)#|\$|[A-Za-z~/] ?%) ?$")
"""Ends of prompts that are not ends of progress bars: "50 %", "[####]", "(1/3)", "===>"."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text at the cursor: its line up to the end, and whether a program uses the whole screen."""

    text: str = ""
    alternate: bool = False
    above: bool = False
    """True if the cursor's own line is empty, and the text is the line above it."""

    @property
    def asks(self) -> bool:
        """True if it looks like a question: the cursor follows text that ends the way prompts do."""
        return not self.above and bool(QUESTION.search(self.text))


def at_cursor(tail: bytes) -> Prompt:
    """Return the text at the cursor after the last bytes of a terminal's output."""
    line, before = _Line(), ""
    for token in _TOKEN.finditer(tail[-TAIL:]):
        if (text := token["text"]) is not None:
            line.put(text.decode("utf-8", "replace"))
        elif (control := token["control"]) is not None:
            if control == b"\n":
                before, line = line.text(), _Line()
            else:
                line.control(control)
        elif (final := token["final"]) is not None:
            if not line.sequence(final, token["args"]):
                before, line = line.text(), _Line()
        elif token["short"] in (b"8", b"M", b"D", b"E", b"c"):
            before, line = line.text(), _Line()
    shown = line.text()
    toggles = _ALTERNATE.findall(tail)
    alternate = bool(toggles) and toggles[-1] == b"h"
    if shown.strip():
        return Prompt(_bounded(shown), alternate)
    return Prompt(_bounded(before), alternate, above=bool(before.strip()))


class _Line:
    """The characters of one line and the cursor in it."""

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._column = 0

    def text(self) -> str:
        return "".join(self._cells)

    def put(self, text: str) -> None:
        column, cells = self._column, self._cells
        if column > len(cells):
            cells.extend(" " * (min(column, LONGEST) - len(cells)))
        cells[column : column + len(text)] = text
        self._column = column + len(text)

    def control(self, control: bytes) -> None:
        if control == b"\r":
            self._column = 0
        elif control == b"\b":
            self._column = max(0, self._column - 1)
        elif control == b"\t":
            self.put(" " * (8 - self._column % 8))

    def sequence(self, final: bytes, args: bytes) -> bool:
        """Apply an escape sequence; return False if the cursor moves to another line."""
        number = _number(args)
        if final in b"CDG`":
            self._move(final, number)
        elif final in b"KJ":
            self._erase(number)
        elif final in b"P@X":
            self._shift(final, max(1, number))
        return final not in b"ABEFHfdLMSTu"

    def _move(self, final: bytes, number: int) -> None:
        steps = {b"C": self._column + max(1, number), b"D": self._column - max(1, number)}
        self._column = min(max(0, steps.get(final, number - 1)), LONGEST)

    def _erase(self, number: int) -> None:
        if number == 0:
            del self._cells[self._column :]
        elif number == 1:
            self._cells[: self._column] = " " * min(self._column, len(self._cells))
        else:
            self._cells.clear()

    def _shift(self, final: bytes, count: int) -> None:
        at, cells = self._column, self._cells
        count = min(count, LONGEST)
        if final == b"P":
            del cells[at : at + count]
        elif final == b"@":
            cells[at:at] = " " * count
        else:
            cells[at : at + count] = " " * len(cells[at : at + count])


def _number(args: bytes) -> int:
    """Return the first argument of a sequence; 0 if it has none."""
    first = args.split(b";", 1)[0]
    return int(first[:6]) if first.isdigit() else 0


def _bounded(text: str) -> str:
    """Return the end of a line for display: text after a prompt belongs to it, text before it can be cut."""
    kept = "".join(c if c.isprintable() else " " for c in text[-LONGEST:])
    return kept.lstrip() if kept.strip() else ""


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
    """Return the kind of answer that a program of that name wants when it is blocked on the terminal."""
    text = prompt.text
    if modes.hidden:
        return "password"
    if name in _PAGERS or (not prompt.alternate and _more(prompt)):
        return "pager"
    if modes.canonical:
        return "repl" if _repl(name, prompt) else "line"
    if prompt.alternate and PAGER.match(text) and not name.startswith(("vi", "nvim", "nano", "emacs")):
        return "pager"
    if not modes.echo and (name.startswith("pinentry") or (PASSWORD.search(text) and not prompt.above)):
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

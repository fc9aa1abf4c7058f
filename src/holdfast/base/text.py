"""Untrusted text made safe to show.  Pure.

Names, messages and prompts come from people and from guests; a terminal would obey their control characters.
"""

from __future__ import annotations

# Cc: controls; Cf: invisible format characters (among them the ones that reverse the direction of writing);
# Cs: lone surrogates, which no terminal can print; Co, Cn: no agreed look.
_UNFIT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})

# Escape sequences as terminals know them (ECMA-48): with a string, with parameters, or short.
_SEQUENCE = r"(?s)\x1b(?:[]PX^_].*?(?:\x07|\x1b\\|$)|\[[0-?]*[ -/]*[@-~]?|[ -/]*[0-~]?)"
_COLOR = r"\x1b\[[0-9;:]*m"


def plain(text: str, limit: int = 500) -> str:
    """Return one line of text without control characters, at most `limit` characters long."""
    kept = text[: limit * 4]
    if not (kept.isascii() and kept.isprintable()):  # most texts are, and a snapshot has a thousand
        kept = "".join(" " if c in "\n\t\r" else c for c in kept if c in "\n\t\r" or fit(c))
    if "\n" in text:
        kept = " ".join(kept.split())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def size(count: int) -> str:
    """Return a number of bytes for people: three digits and a unit."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}" if unit != "B" else f"{count} B"
        amount /= 1000
    return f"{amount:.3g} TB"


def seconds(count: float) -> str:
    """Return a duration in its largest whole unit."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if count >= length:
            return f"{int(count // length)} {unit}"
    return f"{int(count)} s"


def fit(char: str) -> bool:
    """Check whether a terminal shows the character without any side effect."""
    if char.isascii():
        return char.isprintable()  # the others of ASCII are controls
    import unicodedata  # which most text does not need

    return unicodedata.category(char) not in _UNFIT


def lines(text: str) -> str:
    """Return text without control characters other than newline and tab."""
    return "".join(c for c in text if c in "\n\t" or fit(c))


def colored(text: str, *, keep: bool) -> str:
    """Return text without escape sequences, except for colours where these are kept."""
    import re

    pieces: list[str] = []
    end = 0
    for found in re.finditer(_SEQUENCE, text):
        pieces.append(_moved(text[end : found.start()]))
        if keep and re.fullmatch(_COLOR, found[0]):
            pieces.append(found[0])
        end = found.end()
    pieces.append(_moved(text[end:]))
    return "".join(pieces)


def _moved(text: str) -> str:
    # A carriage return is how a progress bar redraws its line.
    return "".join(c for c in text if c in "\n\t\r" or fit(c))

"""`go test -json`: one event per line; a compiler can print lines between them. Pure."""

from __future__ import annotations

import json

_WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def read(text: str) -> dict[str, str]:
    """Return outcomes by `package.Test`, and one for each package as a whole."""
    cases: dict[str, str] = {}
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict) or event.get("Action") not in _WORDS:
            continue
        name = ".".join(str(part) for part in (event.get("Package"), event.get("Test")) if part)
        cases[name] = _WORDS[event["Action"]]
    return cases

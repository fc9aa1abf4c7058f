"""`python -m tests.parsers.guided NAME FOLDER [OPTION…]`: inputs guided by coverage, with atheris.

The folder keeps inputs with new coverage; the options are libFuzzer's, such as -max_total_time.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["holdfast"]):
    from tests.parsers.test_parsers import PARSERS


def main(name: str, folder: str, *options: str) -> None:
    """Run until the options end it, or an input fails."""
    parser = PARSERS[name]
    for number, seed in enumerate(parser.seeds):
        Path(folder, f"seed-{number}").write_bytes(seed)
    words = Path(folder).with_suffix(".words")
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in parser.tokens)
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    arguments = [sys.argv[0], f"-dict={words}", "-max_len=4096", "-timeout=60", *options, folder]
    atheris.Setup(arguments, lambda data: parser.reads(data, random.Random(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])

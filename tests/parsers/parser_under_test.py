"""A parser whose input comes from outside, and the trial of its inputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.parsers.altered_inputs import pumped, texts_of

from holdfast.base.text import plain

USUAL = (b" ", b"\0", b'"', b"\\", b'\\"', b"[", b'{"":', b"a", b"\r\n", b"\xff")
"""Words that most formats have."""


def check_line(error: Exception) -> None:
    """Check that an error can be shown: it is one line, without a character that a terminal obeys."""
    assert plain(str(error), 1 << 20) == str(error), error


@dataclass(frozen=True)
class ParserUnderTest:
    """A parser, and inputs to begin with.

    Attributes:
        name: for people.
        seeds: valid inputs; each is read without an error.
        read: reads an input, and checks what has to hold of the result; the dice are for how it arrives.
        refuses: the errors by which it may refuse an input.
        tokens: words of its format.
        longest: bytes of an input that reach it.
    """

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes, random.Random], object]
    refuses: tuple[type[Exception], ...] = ()
    tokens: tuple[bytes, ...] = ()
    longest: int = 1 << 18

    @property
    def words(self) -> list[bytes]:
        """Words of which long inputs are made."""
        return list(dict.fromkeys((*self.tokens, *USUAL)))

    def try_altered(self, dice: random.Random, rounds: int) -> None:
        """Read the seeds, and inputs made of them."""
        for seed in self.seeds:
            self.read(seed, dice)
        read = sum(
            self.reads(texts_of(dice, dice.choice(self.seeds), self.tokens), dice) for _ in range(rounds)
        )
        assert read  # else it would be the alteration that is tested

    def try_long(self, dice: random.Random, words: Sequence[bytes]) -> None:
        """Read inputs of the greatest length: one word again and again, alone and within a valid input."""
        for word in words:
            begin = dice.choice((b"", *self.seeds))
            half = begin[: dice.randrange(len(begin) + 1)]
            self.reads(pumped(word, self.longest, half, begin[len(half) :]), dice)

    def reads(self, data: bytes, dice: random.Random) -> bool:
        """Return whether an input is read; it is refused in one line, or that is a failure."""
        try:
            self.read(data, dice)
        except self.refuses as error:
            if type(error).__module__.startswith("holdfast"):
                check_line(error)
            return False
        except Exception as error:
            error.add_note(f"{self.name} read {data[:2000]!r}, {len(data)} bytes")
            raise
        return True

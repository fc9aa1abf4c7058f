"""Cuts in the data make no difference: neither to the findings in it, nor to the removals."""

from __future__ import annotations

import random

import pytest
from tests.runtime.scrubbing.samples import IN_CONTEXT, MISSES, SECRETS, of, pem

from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import LONGEST, Matcher, checked
from holdfast.runtime.scrubbing.scrubber import MOST_HELD, ScrubbedStream, Scrubber
from holdfast.runtime.scrubbing.secret_search import MOST_MATCHES, Search

NARROW, WIDE = Matcher(RULES), Matcher(RULES, wide=True)


def _texts(seed: int) -> bytes:
    """Return secrets and lookalikes, in lines of ordinary text and bytes."""
    draw = random.Random(seed)
    parts: list[bytes] = []
    for _ in range(12):
        kind = draw.randrange(5)
        if kind == 0:
            parts.append(draw.choice(draw.choice(list(SECRETS.values()))).encode())
        elif kind == 1:
            parts.append(
                draw.choice(draw.choice(list(IN_CONTEXT.values()))).format(of("abcdefXYZ12", 40)).encode()
            )
        elif kind == 2:
            parts.append(draw.choice(MISSES).encode())
        else:
            parts.append(draw.randbytes(draw.randrange(40)))
        parts.append(draw.choice([b"\n", b" ", b"\0", b"\r\n", b": "]))
    return b"".join(parts)


def _pieces(data: bytes, seed: int) -> list[bytes]:
    draw = random.Random(seed)
    pieces = []
    while data:
        size = draw.choice([1, 2, 3, 7, 20, 100, 1000, 5000])
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def _found(pieces: list[bytes]) -> dict[tuple[str, str], int]:
    search = Search(WIDE, str)
    for piece in pieces:
        search.feed(piece)
    search.end()
    return dict(search.found)


@pytest.mark.parametrize("seed", range(60))
def test_a_search_finds_the_same_however_data_is_cut(seed: int) -> None:
    """The same secrets, at the same places."""
    filling = random.Random(seed).randbytes(3 * LONGEST)
    data = filling.join([_texts(seed), _texts(seed + 1000), _texts(seed + 2000)])

    assert _found(_pieces(data, seed)) == _found([data])
    assert _found([data]) == {(m.rule.name, str(m.start)): 1 for m in WIDE.find(data)}


@pytest.mark.parametrize("seed", range(60))
def test_a_stream_is_scrubbed_the_same_however_it_is_cut(seed: int) -> None:
    """As if it had come as one text."""
    data = b"".join(_texts(seed + n) for n in range(3))
    stream = ScrubbedStream(Scrubber(NARROW))

    shown = b"".join([*(stream.feed(piece) for piece in _pieces(data, seed)), stream.end()])

    assert shown == Scrubber(NARROW).data(data)


def test_a_match_over_the_border_of_two_blocks_is_found_once() -> None:
    """Wherever the border is."""
    token = SECRETS["github token"][0].encode()
    data = bytes(LONGEST) + b"x " + token + b" x" + bytes(2 * LONGEST)

    for cut in range(LONGEST, LONGEST + len(token) + 4):
        assert _found([data[:cut], data[cut:]]) == {("github token", str(LONGEST + 2)): 1}


def test_zeros_are_skipped_and_places_stay_right() -> None:
    """A sparse file whose holes are skipped has its secrets at the same places."""
    token = SECRETS["npm token"][0].encode()
    search = Search(WIDE, str)
    for data in (token[:10], token[10:], bytes(1 << 20), bytes(5), token):
        search.feed(data)
    search.skip(1 << 40)
    search.feed(b"\0" + token)
    search.end()

    second = len(token) + (1 << 20) + 5
    third = second + len(token) + (1 << 40) + 1
    assert sorted(place for _, place in search.found) == sorted(str(at) for at in (0, second, third))


def test_a_flood_of_secrets_ends_their_count_and_hides_no_others() -> None:
    """A limited number is counted, and the result reports that there can be more; other rules continue."""
    search = Search(WIDE)
    for _ in range(3):
        search.feed(f"{SECRETS['github token'][0]} ".encode() * MOST_MATCHES)
    search.feed(SECRETS["npm token"][0].encode())
    search.end()

    assert search.found == {("github token", ""): MOST_MATCHES, ("npm token", ""): 1}
    assert search.more == {"github token"}


def test_ordinary_output_passes_at_once() -> None:
    """Dots of a test run, a prompt, colors: nothing waits for the end of its line."""
    stream = ScrubbedStream(Scrubber(NARROW))

    for piece in (b"....", b"F.", b"\x1b[32mPassword: ", b"a/b/c", b"\rfull"):
        assert stream.feed(piece) == piece
    assert stream.end() == b""


def test_a_possible_secret_waits() -> None:
    """From its first letters to the end of its line; a key to its last one."""
    token, key = SECRETS["github token"][0], pem()
    stream = ScrubbedStream(Scrubber(NARROW))

    assert stream.feed(b"token: g") == b"token: "
    assert stream.feed(token[1:].encode()) == b""
    assert stream.feed(b"\n" + key[:100].encode()) == b"[scrubbed: github token]\n"
    assert stream.feed(key[100:].encode()) == b""
    assert stream.feed(b"\n.") == b"[scrubbed: private key]\n."


def test_rules_without_hints_hold_lines() -> None:
    """Their beginnings are not known."""
    stream = ScrubbedStream(Scrubber(Matcher([checked("own", "secret: [a-z]+")])))

    assert stream.feed(b"a\nmy secre") == b"a\n"
    assert stream.feed(b"t: abc") == b""
    assert stream.end() == b"my [scrubbed: own]"


def test_waiting_data_is_bounded() -> None:
    """A line without end that begins like a secret costs no memory; a secret in it is still removed."""
    token = SECRETS["npm token"][0].encode()
    stream = ScrubbedStream(Scrubber(NARROW))
    block = (b"npm_ " + b"x" * 995) * 10
    shown = bytearray()
    for n in range(40):
        shown += stream.feed(block + (token + b" " if n % 7 == 0 else b""))
        assert len(stream._held) <= MOST_HELD
    shown += stream.end()

    assert shown.count(b"[scrubbed: npm token]") == 6
    assert token not in shown

import pytest

from holdfast.runtime.guest.shells.marks import Mark, MarkFilter, MarkKind, MarkReader, OutputPiece

NONCE = "c0ffee"


def mark(kind: str, number: int, *, status: str = "", serial: str = "", nonce: str = NONCE) -> bytes:
    return f"\x1b]133;{kind}{status};hf={nonce};n={number}{serial}\a".encode()


ACCEPTED = mark("C", 3, serial=";x=7")
EXECUTED = mark("E", 4, status=";130", serial=";x=7")
STREAM = b"$ " + ACCEPTED + b"out\x1b[0mput\r\n" + EXECUTED + b"\x1b]0;title\a" + mark("A", 5)
EXECUTED_AT = STREAM.index(EXECUTED)


def test_marks_are_found_with_their_place_and_values() -> None:
    """A mark has its kind, status, serial number and exact place."""
    found = MarkReader(NONCE, offset=1000).feed(STREAM)
    assert found[:2] == [
        Mark(MarkKind.ACCEPTED, 1002, 1002 + len(ACCEPTED), 0, 7),
        Mark(
            MarkKind.EXECUTED,
            STREAM.index(EXECUTED) + 1000,
            STREAM.index(EXECUTED) + 1000 + len(EXECUTED),
            130,
            7,
        ),
    ]
    assert [each.kind for each in found] == [MarkKind.ACCEPTED, MarkKind.EXECUTED, MarkKind.PROMPT]


def test_a_mark_can_carry_its_time() -> None:
    """In Unix seconds; marks of older shells have no time."""
    new, old = mark("C", 3, serial=";x=7;t=1700000000250000"), mark("C", 4, serial=";x=8")

    assert [one.at for one in MarkReader(NONCE).feed(new + old)] == [1700000000.25, None]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17, 60])
def test_cutting_the_stream_changes_nothing(size: int) -> None:
    """Marks are found at the same places however the stream is cut."""
    reader = MarkReader(NONCE)
    found = [each for at in range(0, len(STREAM), size) for each in reader.feed(STREAM[at : at + size])]
    assert found == MarkReader(NONCE).feed(STREAM)


def test_imitations_are_output() -> None:
    """Another nonce, none, or the marks of other programs are not marks."""
    reader = MarkReader(NONCE)
    assert reader.feed(mark("D", 9, nonce="other") + b"\x1b]133;D;0\a" + b"\x1b]133;A\x1b\\") == []


def test_repeated_marks_are_output() -> None:
    """A recording that is shown again holds no marks: numbers only grow."""
    reader = MarkReader(NONCE)
    assert len(reader.feed(STREAM)) == 3
    assert reader.feed(STREAM) == []
    assert len(reader.feed(mark("D", 1 << 32))) == 1


def visible(data: bytes, *, start: int = 0, final: bool = True) -> tuple[list[OutputPiece], int]:
    return MarkFilter(NONCE).pieces(data, 0, start, final=final)


def test_readers_get_output_without_marks_at_true_offsets() -> None:
    """Pieces have their offset and the offset to continue from, past the marks."""
    pieces, at = visible(STREAM)
    assert b"".join(piece.data for piece in pieces) == b"$ out\x1b[0mput\r\n\x1b]0;title\a"
    assert [STREAM[piece.offset : piece.offset + len(piece.data)] for piece in pieces] == [
        piece.data for piece in pieces
    ]
    assert [piece.next for piece in pieces[:-1]] == [piece.offset for piece in pieces[1:]]
    assert at == pieces[-1].next == len(STREAM)


def test_every_start_gives_the_same_rest() -> None:
    """A reader can begin anywhere, even in the middle of a mark."""
    shown = [(piece.offset + i, byte) for piece in visible(STREAM)[0] for i, byte in enumerate(piece.data)]
    for start in range(len(STREAM)):
        pieces, _ = visible(STREAM, start=start)
        got = [(piece.offset + i, byte) for piece in pieces for i, byte in enumerate(piece.data)]
        assert got == [each for each in shown if each[0] >= start]


def test_a_cut_mark_is_left_for_later() -> None:
    """The beginning of a mark is not shown; at the end of everything it is output."""
    data = b"abc" + EXECUTED[:20]
    assert visible(data, final=False) == ([OutputPiece(0, b"abc", 3)], 3)
    assert visible(data)[0] == [OutputPiece(0, data, len(data))]
    assert visible(b"abc\x1b", final=False)[1] == 3
    assert visible(b"abc\x1b[", final=False)[1] == 5


def test_an_endless_mark_is_output() -> None:
    """An apparent mark without an end is shown once it is longer than any mark."""
    data = b"\x1b]133;D" + b"x" * 300
    assert visible(data, final=False)[1] == len(data)


def test_marks_in_capital_letters_are_marks() -> None:
    """A terminal can be set to write only capital letters (`stty olcuc`)."""
    capitals = (
        STREAM.replace(NONCE.encode(), NONCE.upper().encode()).replace(b"hf=", b"HF=").replace(b"x=", b"X=")
    )
    assert MarkReader(NONCE).feed(capitals) == MarkReader(NONCE).feed(STREAM)
    pieces, _ = MarkFilter(NONCE).pieces(capitals, 0, 0, final=True)
    assert b"133;" not in b"".join(piece.data for piece in pieces)

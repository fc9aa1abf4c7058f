from __future__ import annotations

import io
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from holdfast.errors import BundleRefused, InvalidArgument
from holdfast.snapshots.bundle import sealing
from holdfast.snapshots.bundle.sealing import PIECE, Opener, Sealing

SIZES = [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7]


@pytest.fixture(scope="module")
def private() -> X25519PrivateKey:
    return sealing.derived(os.urandom(32))


@pytest.fixture(scope="module")
def one(private: X25519PrivateKey) -> Sealing:
    return Sealing.new([sealing.recipient(private)])[0]


def _seal(one: Sealing, data: bytes) -> bytes:
    return b"".join(one.seal([data[:5], data[5:]]))


@pytest.mark.parametrize("size", SIZES)
def test_sealed_data_is_opened_to_the_byte(one: Sealing, size: int) -> None:
    """And its size is known before it is made."""
    data = os.urandom(size)
    sealed = _seal(one, data)

    assert b"".join(one.open(io.BytesIO(sealed))) == data
    assert len(sealed) == sealing.sealed_size(size)
    assert data[:50] not in sealed or size < 2


def test_a_changed_moved_or_missing_piece_is_noticed(one: Sealing) -> None:
    """Also an end that is cut off where a piece ends, one that is appended, and a stream of another key."""
    data = os.urandom(3 * PIECE)
    sealed = _seal(one, data)
    step = PIECE + 16
    first, second = sealed[16 : 16 + step], sealed[16 + step : 16 + 2 * step]
    other = Sealing(os.urandom(32))

    for wrong in (
        bytes([sealed[0] ^ 1]) + sealed[1:],
        sealed[:100] + bytes([sealed[100] ^ 1]) + sealed[101:],
        sealed[:16] + second + first + sealed[16 + 2 * step :],
        sealed[:16] + sealed[16 + step :],
        sealed[: 16 + step],
        sealed[: 16 + 2 * step],
        sealed[:-1],
        sealed[:16],
        b"",
        sealed + b"x",
        _seal(other, data),
    ):
        with pytest.raises(BundleRefused, match="changed or cut short"):
            list(one.open(io.BytesIO(wrong)))


def test_changed_data_is_never_given_out(one: Sealing) -> None:
    """A piece is compared before anybody sees it."""
    sealed = bytearray(_seal(one, os.urandom(3 * PIECE)))
    sealed[16 + PIECE + 16 + 5] ^= 1
    given: list[bytes] = []

    with pytest.raises(BundleRefused):
        given.extend(one.open(io.BytesIO(bytes(sealed))))
    assert len(given) == 1


def test_only_recipients_can_open_it(private: X25519PrivateKey) -> None:
    """By key, or by passphrase; the hint says which it takes."""
    second = X25519PrivateKey.generate()
    one, seal = Sealing.new([sealing.recipient(private), sealing.recipient(second)], "correct horse")
    sealed = _seal(one, b"hello")

    for opener in (Opener(private), Opener(second), Opener(passphrase="correct horse")):
        again = Sealing.opened(sealing.parse(seal.model_dump_json()), opener)
        assert b"".join(again.open(io.BytesIO(sealed))) == b"hello"
    for opener in (Opener(), Opener(X25519PrivateKey.generate()), Opener(passphrase="battery staple")):
        with pytest.raises(BundleRefused, match="not for a key") as told:
            Sealing.opened(seal, opener)
        assert "HOLDFAST_BUNDLE_PASSPHRASE" in told.value.hint


def test_the_same_bytes_are_sealed_differently_each_time(one: Sealing) -> None:
    """An observer of two bundles cannot tell their common content."""
    assert _seal(one, b"hello") != _seal(one, b"hello")


def test_a_bundle_is_sealed_for_a_recipient() -> None:
    """An empty list of recipients and invalid keys are refused."""
    for recipients in ([], ["x25519:short"], ["ed25519:" + "A" * 43], ["x25519:" + "A" * 43]):
        with pytest.raises(InvalidArgument, match="cannot encrypt"):
            Sealing.new(recipients)


def test_a_seal_of_an_unexpected_form_opens_nothing(private: X25519PrivateKey) -> None:
    """Lengths and alphabets that cannot be, in each field."""
    _, seal = Sealing.new([sealing.recipient(private)])
    wrap = seal.wraps[0]

    for changed in (
        {"who": "AA=="},
        {"who": "?"},
        {"salt": "?"},
        {"key": "AA=="},
        {"key": "?"},
        {"kind": "scrypt"},
    ):
        bad = seal.model_copy(update={"wraps": [wrap.model_copy(update=changed)]})
        with pytest.raises(BundleRefused):
            Sealing.opened(bad, Opener(private, "guess"))

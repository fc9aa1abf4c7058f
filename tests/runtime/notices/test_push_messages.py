"""Messages of Web Push, as a browser and a push service read them."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from tests.runtime.notices.push_browser import PushBrowser, plain, text

from holdfast.errors import InvalidArgument
from holdfast.runtime.notices import push_messages
from holdfast.runtime.notices.push_messages import PushKeys, PushSigner


def _keys(browser: PushBrowser) -> PushKeys:
    return PushKeys.read(browser.keys["p256dh"], browser.keys["auth"])


def test_the_example_of_rfc_8291_is_encrypted_to_its_very_bytes() -> None:
    """Appendix A of RFC 8291: all keys, the salt, and the body that results."""
    sender = int.from_bytes(plain("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"), "big")
    receiver = int.from_bytes(plain("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"), "big")
    browser = PushBrowser(receiver, plain("BTBZMqHH6r4Tts7J_aSIgg"))
    message = b"When I grow up, I want to be a watermelon"
    body = push_messages.encrypted(
        message,
        _keys(browser),
        salt=plain("DGv6ra1nlYgDCS1FRnbzlw"),
        key=ec.derive_private_key(sender, ec.SECP256R1()),
    )
    assert text(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"
        "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    assert browser.read(body) == message


def test_only_the_browser_reads_a_message_and_no_two_are_alike() -> None:
    """A different browser, or a changed bit, reveals nothing; the same text is encrypted in a new way."""
    browser, other = PushBrowser(), PushBrowser()
    body = push_messages.encrypted(b"it waits", _keys(browser))
    assert browser.read(body) == b"it waits"
    assert push_messages.encrypted(b"it waits", _keys(browser)) != body
    with pytest.raises(InvalidTag):
        other.read(body)
    with pytest.raises(InvalidTag):
        browser.read(body[:-1] + bytes([body[-1] ^ 1]))


def test_messages_have_room_for_a_push_service() -> None:
    """The longest takes no more than the 4096 bytes that push services must take; a longer one is refused."""
    keys = _keys(PushBrowser())
    assert len(push_messages.encrypted(b"x" * push_messages.MOST_BYTES, keys)) <= 4096
    with pytest.raises(InvalidArgument, match="the limit"):
        push_messages.encrypted(b"x" * (push_messages.MOST_BYTES + 1), keys)


@pytest.mark.parametrize(
    ("point", "auth"),
    [
        (b"\x04" + b"\x01" * 64, b"a" * 16),  # not on the curve
        (b"\x04" * 10, b"a" * 16),
        (PushBrowser().public, b"a" * 15),
        (b"\x00", b"a" * 16),  # the point at infinity
        (b"", b""),
    ],
    ids=["off the curve", "too short", "a short secret", "the point at infinity", "nothing"],
)
def test_foreign_push_keys_are_refused(point: bytes, auth: bytes) -> None:
    """A point off the curve would give away what the private key is."""
    with pytest.raises(InvalidArgument, match="cannot subscribe"):
        PushKeys.read(text(point), text(auth))


def test_a_push_service_can_check_the_sender() -> None:
    """The token names the service and an end within a day, and is signed by the key next to it (RFC 8292)."""
    jwt = pytest.importorskip("jwt")
    signer = PushSigner(push_messages.new_key())
    header = signer.authorization("https://push.example.net:8443/send/abc?d", "mailto:a@b.invalid", 1_000_000)
    scheme, _, rest = header.partition(" ")
    parts = dict(each.strip().split("=", 1) for each in rest.split(","))
    assert (scheme, parts["k"]) == ("vapid", signer.public)
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), plain(parts["k"]))
    claims = jwt.decode(
        parts["t"], key, ["ES256"], audience="https://push.example.net:8443", options={"verify_exp": False}
    )
    assert claims["sub"] == "mailto:a@b.invalid"
    assert 0 < claims["exp"] - 1_000_000 <= 86_400

"""The host's trust beyond its distribution goes into an image, and nothing else does."""

import base64
from pathlib import Path

import pytest

from holdfast.errors import ImageError
from holdfast.images import authorities

OURS = b"ours" * 40
DEBIANS = b"debians" * 40


def pem(der: bytes, width: int = 64) -> bytes:
    body = base64.b64encode(der)
    lines = b"\n".join(body[i : i + width] for i in range(0, len(body), width))
    return b"-----BEGIN CERTIFICATE-----\n" + lines + b"\n-----END CERTIFICATE-----\n"


def test_only_certificates_missing_from_the_distribution_are_added() -> None:
    """A certificate of the distribution is not carried over, however its lines are broken."""
    bundle = b"# comment\n" + pem(DEBIANS) + pem(OURS)

    added = authorities.additions(bundle, [pem(DEBIANS, width=76)])

    assert list(added.values()) == [pem(OURS)]


def test_names_end_in_crt_and_differ() -> None:
    """update-ca-certificates reads *.crt only, one certificate to a file."""
    names = list(authorities.additions(pem(OURS) + pem(DEBIANS), []))

    assert len(names) == 2
    assert all(name.startswith("holdfast-") and name.endswith(".crt") for name in names)


def test_order_and_repetition_of_a_bundle_do_not_matter() -> None:
    """The same trust gives the same files, so the same image."""
    one = authorities.additions(pem(OURS) + pem(DEBIANS), [])
    other = authorities.additions(pem(DEBIANS) + pem(OURS) + pem(DEBIANS), [])

    assert list(one.items()) == list(other.items())


def test_damaged_certificate_is_left_out() -> None:
    """A broken block spoils neither the build nor its neighbours."""
    broken = b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n"

    assert list(authorities.additions(broken + pem(OURS), []).values()) == [pem(OURS)]


def test_unfinished_certificate_does_not_take_the_next_one_along() -> None:
    """A block without an end, as of a file that was cut off."""
    cut = pem(DEBIANS).partition(b"-----END")[0]

    assert list(authorities.additions(cut + pem(OURS), []).values()) == [pem(OURS)]


def test_ssl_cert_file_goes_before_the_system_bundle(tmp_path: Path) -> None:
    """A person who set SSL_CERT_FILE meant it."""
    named = tmp_path / "bundle.pem"
    named.write_bytes(pem(OURS))

    assert authorities.host_bundle({"SSL_CERT_FILE": str(named)}) == pem(OURS)


def test_unreadable_ssl_cert_file_is_an_error(tmp_path: Path) -> None:
    """A bundle that was named and is missing is an error, not skipped."""
    with pytest.raises(ImageError, match="cannot read the certificate bundle"):
        authorities.host_bundle({"SSL_CERT_FILE": str(tmp_path / "none")})


def test_no_bundle_at_all_is_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without any bundle can build."""
    monkeypatch.setattr(authorities, "SYSTEM_BUNDLES", ())

    assert authorities.host_bundle({}) == b""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from holdfast.errors import BundleRefused, InvalidArgument
from holdfast.runtime.home import Home
from holdfast.snapshots.bundle import media, signing
from holdfast.snapshots.bundle.ends import Descriptor
from holdfast.snapshots.bundle.keys import Keys

IMAGE = Descriptor(media.MANIFEST, "sha256:" + "1" * 64, 1)
SNAPSHOT = Descriptor(media.MANIFEST, "sha256:" + "2" * 64, 2)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(Home(tmp_path / "home").create())


def test_no_key_is_made_by_itself(keys: Keys) -> None:
    """Without one, nothing is signed."""
    assert keys.signer() is None
    assert keys.known() == []


def test_a_key_signs_and_is_known_by_its_public_half(keys: Keys, tmp_path: Path) -> None:
    """The private half is readable by its owner only."""
    made = keys.new()
    signer = keys.signer()

    assert signer is not None
    assert signing.signed_by(signing.signed(signer, IMAGE, SNAPSHOT), IMAGE, SNAPSHOT) == made.public
    assert (tmp_path / "home" / "keys" / "default.pem").stat().st_mode & 0o777 == 0o600
    assert keys.trusted(made.public) == "default"


def test_a_signature_is_of_both_manifests_in_their_places(keys: Keys) -> None:
    """Exchanged, replaced or changed, it does not hold; neither does half of one."""
    keys.new()
    signer = keys.signer()
    assert signer is not None
    given = signing.signed(signer, IMAGE, SNAPSHOT)
    other = Descriptor(media.MANIFEST, "sha256:" + "3" * 64, 1)
    signature = base64.b64decode(given[media.SIGNATURE])
    flipped = base64.b64encode(bytes([signature[0] ^ 1]) + signature[1:]).decode()

    for image, snapshot in ((SNAPSHOT, IMAGE), (other, SNAPSHOT), (IMAGE, other)):
        with pytest.raises(BundleRefused, match="signature"):
            signing.signed_by(given, image, snapshot)
    for changed in (
        {media.SIGNATURE: given[media.SIGNATURE]},
        {media.KEY: given[media.KEY]},
        given | {media.SIGNATURE: flipped},
        given | {media.SIGNATURE: "?"},
        given | {media.KEY: "ed25519:" + "A" * 43},
        given | {media.KEY: "ed25519:short"},
    ):
        with pytest.raises(BundleRefused, match="signature"):
            signing.signed_by(changed, IMAGE, SNAPSHOT)
    assert signing.signed_by({}, IMAGE, SNAPSHOT) is None


def test_another_home_trusts_a_key_when_it_is_told_to(keys: Keys, tmp_path: Path) -> None:
    """And no longer when the key is removed there."""
    public = keys.new().public
    other = Keys(Home(tmp_path / "other").create())

    assert other.trusted(public) is None
    other.trust(public, "ci")
    other.trust(public)
    assert other.trusted(public) == "ci"
    assert [one.name for one in other.known()] == ["ci"]
    other.remove("ci")
    assert other.trusted(public) is None


def test_which_key_signs_is_never_guessed(keys: Keys) -> None:
    """The one named, the only one, or the one called default."""
    first = keys.new("first")
    assert keys.signer() is not None
    keys.new("second")
    with pytest.raises(InvalidArgument, match="several"):
        keys.signer()
    named = keys.signer("first")
    assert named is not None
    assert named.public == first.public
    default = keys.new("default")
    chosen = keys.signer()
    assert chosen is not None
    assert chosen.public == default.public


def test_a_key_with_a_passphrase_opens_with_it_only(keys: Keys) -> None:
    """What is wrong is said, and where to put it."""
    made = keys.new("locked", "correct horse")

    with pytest.raises(InvalidArgument, match="needs its passphrase") as told:
        keys.signer("locked")
    assert "HOLDFAST_KEY_PASSPHRASE" in told.value.hint
    with pytest.raises(InvalidArgument, match="another"):
        keys.signer("locked", "battery staple")
    opened = keys.signer("locked", "correct horse")
    assert opened is not None
    assert opened.public == made.public
    assert [one.locked for one in keys.known()] == [True]


def test_what_is_no_key_or_no_name_is_refused(keys: Keys) -> None:
    """Names become names of files."""
    for text in ("ed25519:", "ed25519:" + "é" * 43, "x25519:" + "A" * 43, "A" * 43):
        with pytest.raises(InvalidArgument, match="no key"):
            keys.trust(text)
    for name in ("../up", "", ".hidden", "a/b", "x" * 80):
        with pytest.raises(InvalidArgument):
            keys.new(name)
    keys.new("one")
    with pytest.raises(InvalidArgument, match="there is one"):
        keys.new("one")
    with pytest.raises(InvalidArgument, match="none of that name"):
        keys.remove("another")


def test_whom_we_trust_is_on_the_disk_when_that_is_said(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is trusted no more must not come back with a power loss: file and folder are synced."""
    synced: list[int] = []
    really = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    public = keys.new("mine").public
    monkeypatch.setattr(os, "fsync", fsync)
    keys.trust(public, "friend")

    (file,) = Path(keys._folder).glob("trusted.json")
    assert {file.stat().st_ino, file.parent.stat().st_ino} <= set(synced)

from __future__ import annotations

import base64
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import BundleRefused, InvalidArgument
from holdfast.snapshots.bundle import media, signing
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys

IMAGE = BlobDescriptor(media.MANIFEST, "sha256:" + "1" * 64, 1)
SNAPSHOT = BlobDescriptor(media.MANIFEST, "sha256:" + "2" * 64, 2)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(Home(tmp_path / "home").create())


def test_a_sender_without_a_key_gets_one(keys: Keys) -> None:
    """Once; it is trusted in its own home. To look whether there is one makes none."""
    assert keys.signer() is None
    assert keys.known() == []

    key, new = keys.sending()
    again, anew = keys.sending()

    assert (new, anew, again.public) == (True, False, key.public)
    assert [(one.name, one.public, one.own) for one in keys.known()] == [("default", key.public, True)]
    assert keys.trusted(key.public) == "default"


def test_a_key_that_was_named_is_not_made(keys: Keys) -> None:
    """A mistyped name must not lead to a key that no one trusts."""
    with pytest.raises(InvalidArgument, match="unknown key ci"):
        keys.sending("ci")
    assert keys.known() == []


def test_a_passphrase_locks_the_new_key(keys: Keys) -> None:
    """It is given once, for this and for all later times."""
    key, _ = keys.sending(None, "correct horse")
    assert [one.locked for one in keys.known()] == [True]
    with pytest.raises(InvalidArgument, match="needs its passphrase"):
        keys.sending()
    again, new = keys.sending(None, "correct horse")
    assert (again.public, new) == (key.public, False)


def test_of_many_that_send_at_once_one_makes_the_key(keys: Keys) -> None:
    """The others use it."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: keys.sending(), range(8)))
    assert [new for _, new in found].count(True) == 1
    assert len({key.public for key, _ in found}) == 1


def test_a_key_half_made_by_a_killed_process_does_not_count(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever write it happens, the next one gets a whole key."""
    really = private_files.replace
    dies_at: list[str] = []

    def killed(path: Path, data: bytes | str, *, durable: bool = True) -> None:
        if path.suffix in dies_at:
            raise KeyboardInterrupt
        really(path, data, durable=durable)

    monkeypatch.setattr(private_files, "replace", killed)
    for suffix in (".pub", ".pem"):
        dies_at[:] = [suffix]
        with pytest.raises(KeyboardInterrupt):
            keys.sending()
        assert keys.known() == []
    dies_at.clear()
    key, new = keys.sending()
    assert (new, keys.trusted(key.public)) == (True, "default")


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
    other = BlobDescriptor(media.MANIFEST, "sha256:" + "3" * 64, 1)
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


def test_another_home_can_trust_a_key(keys: Keys, tmp_path: Path) -> None:
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
    """The key is the named one, the only one, or the one called default."""
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
    """The error names the cause, and where to put the passphrase."""
    made = keys.new("locked", "correct horse")

    with pytest.raises(InvalidArgument, match="needs its passphrase") as told:
        keys.signer("locked")
    assert "HOLDFAST_KEY_PASSPHRASE" in told.value.hint
    with pytest.raises(InvalidArgument, match="passphrase is wrong"):
        keys.signer("locked", "battery staple")
    opened = keys.signer("locked", "correct horse")
    assert opened is not None
    assert opened.public == made.public
    assert [one.locked for one in keys.known()] == [True]


def test_invalid_keys_and_names_are_refused(keys: Keys) -> None:
    """Names become names of files."""
    for text in ("ed25519:", "ed25519:" + "é" * 43, "x25519:" + "A" * 43, "A" * 43):
        with pytest.raises(InvalidArgument, match="not a key"):
            keys.trust(text)
    for name in ("../up", "", ".hidden", "a/b", "x" * 80):
        with pytest.raises(InvalidArgument):
            keys.new(name)
    keys.new("one")
    with pytest.raises(InvalidArgument, match="a key of that name exists"):
        keys.new("one")
    with pytest.raises(InvalidArgument, match="no key has that name"):
        keys.remove("another")


def test_trusted_keys_are_on_the_disk_before_they_are_confirmed(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
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

"""Options of sending and receiving a snapshot, for either kind of end, and the trust that an import needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import BundleUntrusted
from holdfast.runtime.transfer.bundle_series import ImportSeries
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.sealing import Opener, Seal, Sealing

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.snapshots.bundle.signing import Signer

Progress = Callable[[int, int], None]
"""A function that takes the bytes done, and the total."""
_FILES = "--files-only imports its files alone, without trust"


def quiet(_done: int, _all: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Options of sending a snapshot.

    Attributes:
        sign: the key to sign with; without one, others can import its files only.
        encrypt: the key of the bundle, wrapped for those who may open it.
        compression: of the layers of its image: gzip, or zstd.
        secrets: what to do about secrets in its memory and files: warn, refuse or ignore; None for what
            the rules of the home say.
        progress: called with the bytes done, and the total; both uncompressed.
        new_key: `sign` was made for it.
    """

    sign: Signer | None = None
    encrypt: tuple[Sealing, Seal] | None = None
    compression: str = "gzip"
    secrets: str | None = None
    progress: Progress = quiet
    new_key: bool = False

    @classmethod
    def signed(
        cls,
        home: Home,
        key: tuple[str | None, str | None],
        sealed_for: tuple[Sequence[str], str | None],
        **options: Any,
    ) -> Self:
        """Return options that sign with a key of a home, by name and passphrase; one is made if there is
        none.

        `sealed_for` are the keys and the passphrase that can open it; anyone can if they are empty.

        Raises:
            InvalidArgument: there is no such key, or it cannot be used.
        """
        encrypt = Sealing.new(tuple(sealed_for[0]), sealed_for[1]) if any(sealed_for) else None
        sign, new_key = Keys(home).sending(*key)
        return cls(sign=sign, encrypt=encrypt, new_key=new_key, **options)


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """Options of receiving a snapshot.

    Attributes:
        label: a name for it; by default the one it had, if that is free.
        files_only: leave out its processes and memory, and accept any signer.
        opener: what may decrypt it; by default the keys of this home.
        options: of sessions to be made of it, as in `SessionOptions`; those of the bundle do not count.
        progress: called with the bytes done, and the total.
        settle: pack its memory soon, in the background; without it, that is left to the caller.
        series: the imports from the same source, of which the first is kept for those after it.
        vouched: the digest of a bundle that the caller vouches for, by whatever key it is signed; the
            options that its session takes along are taken over then.
    """

    label: str | None = None
    files_only: bool = False
    opener: Opener | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = quiet
    settle: bool = True
    series: ImportSeries | None = None
    vouched: str | None = None


def refuse_untrusted(name: str, signed_by: str | None, trusted_as: str | None, *, files_only: bool) -> None:
    """Refuse a bundle without a trusted signature, unless only its files are wanted.

    Memory and processes of a snapshot are code that runs immediately, as its author left it; files are no
    more than an image's.

    Raises:
        BundleUntrusted: with the command that would trust it.
    """
    if files_only or trusted_as is not None:
        return
    if signed_by is None:
        raise BundleUntrusted(
            f"cannot import {name}: it is not signed",
            hint=f"on the machine it comes from, export it again, which signs it; {_FILES}",
        )
    raise BundleUntrusted(
        f"cannot import {name}: it is signed by a key you do not trust ({signed_by})",
        hint=f"if you expect this signer: `holdfast key trust {signed_by}`; {_FILES}",
    )


def made_key(key: str) -> str:
    """Describe a key that was made because there was none to sign with."""
    return f"a signing key was created; to trust it elsewhere: `holdfast key trust {key}`"

"""How a snapshot is sent and taken in, whichever end it goes to or comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.sealing import Opener, Seal, Sealing

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.snapshots.bundle.signing import Signer

Progress = Callable[[int, int], None]
"""Bytes done, and of how many."""


def quiet(_done: int, _all: int) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How a snapshot is sent.

    Attributes:
        sign: the key to sign with; without, others can take its files only.
        encrypt: the key of the bundle, wrapped for who may open it.
        compression: of the layers of its image: gzip, or zstd.
        secrets: what is done about those in its memory and files: warn, refuse or ignore; None for what the
            rules of the home say.
        progress: is called with bytes done, and of how many; both of what is not yet compressed.
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
        """Return options to sign with a key of a home, by name and passphrase; one is made if there is none.

        `sealed_for` are keys and a passphrase that may open it; anybody, if they are empty.

        Raises:
            InvalidArgument: there is no such key, or it cannot be used.
        """
        encrypt = Sealing.new(tuple(sealed_for[0]), sealed_for[1]) if any(sealed_for) else None
        sign, new_key = Keys(home).sending(*key)
        return cls(sign=sign, encrypt=encrypt, new_key=new_key, **options)


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """How a snapshot is taken in.

    Attributes:
        label: a name for it; by default the one it had, if that is free.
        files_only: leave its processes and memory, and take it from anybody.
        opener: what may open it; by default the keys of this home.
        options: of sessions to be made of it, as in `SessionOptions`; those of the bundle do not count.
        progress: is told how far it is.
    """

    label: str | None = None
    files_only: bool = False
    opener: Opener | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = quiet

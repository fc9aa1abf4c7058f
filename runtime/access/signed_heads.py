"""Signed heads of the audit trail: hashes of its rows under the key of the home, one of each minute.

A program that can write the trail, and does not have the key, can neither change a row before a head nor
add one behind the last. The owner of the home has the key. Knows neither rows nor who wrote them.
"""

from __future__ import annotations

import base64
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.base.text import plain
from holdfast.runtime.store.shared_rows import WrittenRows
from holdfast.snapshots.bundle import form, signing
from holdfast.snapshots.bundle.signing import Signer

SCHEMA = """
CREATE TABLE IF NOT EXISTS heads (minute INTEGER PRIMARY KEY, seq INTEGER NOT NULL, hash TEXT NOT NULL,
key TEXT NOT NULL, signature TEXT NOT NULL)
"""
MINUTE = 60
Trusts = Callable[[str], bool]
"""Returns whether a key signs for this home."""


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The hash of a row, and its signature."""

    seq: int
    hash: str
    key: str
    signature: str

    def fault(self, hash_: str, trusts: Trusts) -> str:
        """Return why it does not confirm the row with this hash; empty if it does."""
        if self.hash != hash_:
            return f"row {self.seq} differs from its signed head"
        if not trusts(self.key):
            return f"the head of row {self.seq} is signed by {plain(self.key, 60)}, not by a key of this home"
        if not signing.is_signature(self.key, self.signature, _statement(self.seq, self.hash)):
            return f"the head of row {self.seq} has a wrong signature"
        return ""


def _statement(seq: int, hash_: str) -> bytes:
    """Return the bytes to sign. Its first field tells it from all else that such a key signs."""
    return form.dumps({"holdfast": "audit head 1", "seq": seq, "hash": hash_})


def sign(db: WrittenRows, signer: Signer, seq: int, hash_: str) -> None:
    """Sign the last row of a transaction, in place of an earlier one of the same minute."""
    signature = base64.b64encode(signer.sign(_statement(seq, hash_))).decode()
    values = (int(time.time() // MINUTE), seq, hash_, signer.public, signature)
    db.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", values)


def read(db: sqlite3.Connection) -> list[SignedHead]:
    """Return all, in the order of their rows; none of a trail that an earlier version wrote."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'heads'").fetchone():
        return []
    found = db.execute("SELECT seq, hash, key, signature FROM heads ORDER BY seq")
    return [SignedHead(*tuple(row)) for row in found]


class HeadsCheck:
    """The check of a trail, row by row, against its signed heads."""

    def __init__(self, heads: Iterable[SignedHead], trusts: Trusts) -> None:
        self._left = {each.seq: each for each in heads}
        self._trusts = trusts
        self._signed = 0
        """The last row that a head confirms."""
        self.matching = 0

    def see(self, seq: int, hash_: str) -> list[str]:
        """Return the fault of a row's head, if it has one."""
        head = self._left.pop(seq, None)
        if head is None:
            return []
        if why := head.fault(hash_, self._trusts):
            return [why]
        self.matching, self._signed = self.matching + 1, seq
        return []

    def end(self, last: int) -> list[str]:
        """Return the fault behind the last row."""
        faults = []
        if cut := [seq for seq in self._left if seq > last]:
            faults.append(f"rows {last + 1} to {max(cut)} are missing at the end, and were signed")
        if self._signed < last:
            faults.append(f"rows {self._signed + 1} to {last} lack a signed head")
        return faults

"""Downloads packed for those who ask for it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from isal import isal_zlib
from starlette.exceptions import HTTPException

from holdfast.runtime.serve.call_threads import CallThreads

_GZIP = 16 + isal_zlib.MAX_WBITS
_CODING = re.compile(r"([a-z0-9*_-]+)(?:;q=([01](?:\.\d{0,3})?))?", re.ASCII)


def is_packed(accepted: str) -> bool:
    """Return whether an answer with this `Accept-Encoding` is packed with gzip.

    That is so if the client takes nothing else. Most libraries name whatever they can unpack, and would be
    served slower. Others are sent what the file has.

    Raises:
        HTTPException: it takes neither (406).
    """
    codings = {}
    for part in accepted[:1000].lower().replace(" ", "").split(","):
        if (found := _CODING.fullmatch(part)) is not None:
            codings[found[1]] = float(found[2] or 1)
    plain = codings.get("identity", codings.get("*", 1.0)) > 0
    gzip = codings.get("gzip", codings.get("*", 0.0)) > 0
    if not plain and not gzip:
        raise HTTPException(406, "cannot answer: a file is sent as it is, or packed with gzip")
    return gzip and (not plain or set(codings) == {"gzip"})


async def packed(content: AsyncIterator[Any], threads: CallThreads) -> AsyncIterator[bytes]:
    """Yield content packed with gzip; threads do the work, since it is much."""
    packer = isal_zlib.compressobj(level=1, wbits=_GZIP)
    async for piece in content:
        data = bytes(piece)
        if done := await threads.run(lambda data=data: packer.compress(data)):  # type: ignore[misc]
            yield done
    yield packer.flush()

"""Sends notices, each a few times at most.

A webhook gets JSON, signed as Standard Webhooks describes; a push service gets a message that only the
browser can read. Deliveries do not wait for each other; of too many, the oldest are dropped. Redirects are
not followed, and bodies of answers are not read. Knows neither sessions nor the rights of subscribers.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpcore

from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import HoldfastError
from holdfast.runtime.notices import push_messages
from holdfast.runtime.notices.notice_rules import SentNotice
from holdfast.runtime.notices.public_addresses import JudgedBackend, PublicAddresses
from holdfast.runtime.notices.subscriptions import Subscription, Subscriptions

PAUSES = (2.0, 15.0, 60.0)
"""Seconds before each further attempt."""
LONGEST_PAUSE = 120.0
"""The most of a `Retry-After` that is heeded."""
TIMEOUT_SECONDS = 10.0
ATTEMPT_SECONDS = 20.0
"""For one attempt, whatever its host sends, and however slowly."""
MOST_AT_ONCE, MOST_OF_SUBSCRIPTION = 500, 20
PUSH_SECONDS = 4 * 3600
"""For which a push service keeps a notice for a browser that is away."""
_GONE = (404, 410)
_PASSING = (408, 425, 429)
CONTACT = "mailto:notices@holdfast.invalid"
"""Push services want an address to write to."""
logger = logging.getLogger("holdfast.serve")


class Undelivered(Exception):
    """A notice did not arrive.

    Attributes:
        again: seconds until another attempt; None if none helps.
        gone: whether the browser has unsubscribed.
    """

    def __init__(self, why: str, *, again: float | None = None, gone: bool = False) -> None:
        super().__init__(why)
        self.again, self.gone = again, gone


class NoticeSender:
    """Delivers notices; belongs to one loop.

    Args:
        subscriptions: note the result of each delivery.
        addresses: the reachable addresses.
        pauses: seconds before further attempts.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        addresses: PublicAddresses,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self._subscriptions, self._pauses = subscriptions, pauses
        context = ssl.create_default_context()
        self._pools = {
            "https": httpcore.AsyncConnectionPool(
                context, max_connections=MOST_AT_ONCE, network_backend=JudgedBackend(addresses)
            ),
            "http": httpcore.AsyncConnectionPool(
                max_connections=MOST_AT_ONCE, network_backend=JudgedBackend(addresses, in_the_clear=True)
            ),
        }
        self._under_way: dict[asyncio.Task[str], str] = {}

    def send(self, to: Subscription, notice: SentNotice, link: str) -> asyncio.Task[str]:
        """Begin to deliver a notice; `link` leads to its session. The task gives why it failed, else ""."""
        own = [task for task, id_ in self._under_way.items() if id_ == to.id]
        if len(own) >= MOST_OF_SUBSCRIPTION:
            self._give_up(own[0])
        elif len(self._under_way) >= MOST_AT_ONCE:
            self._give_up(next(iter(self._under_way)))
        task = asyncio.create_task(self._deliver(to, notice, link))
        self._under_way[task] = to.id
        task.add_done_callback(lambda done: self._under_way.pop(done, None))
        return task

    def _give_up(self, task: asyncio.Task[str]) -> None:
        del self._under_way[task]
        task.cancel()

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2.0)
        for pool in self._pools.values():
            await pool.aclose()

    async def _deliver(self, to: Subscription, notice: SentNotice, link: str) -> str:
        """Try until it has arrived, or no attempt is left; the subscription notes what became of it."""
        id_, why = f"msg_{secrets.token_hex(12)}", ""
        for pause in (*self._pauses, None):
            try:
                await self._attempt(to, notice, link, id_)
                await _noted(lambda: self._subscriptions.told(to.id))
                return ""
            except Undelivered as error:
                why, again, gone = str(error), error.again, error.gone
            if gone:
                await _noted(lambda: self._subscriptions.remove(to.id))
                return why
            if again is None or pause is None:
                break
            await asyncio.sleep(max(pause, min(again, LONGEST_PAUSE)))
        logger.info("a notice of subscription %s did not arrive: %s", to.id, plain(why, 200))
        await _noted(lambda: self._subscriptions.told(to.id, why))
        return why

    async def _attempt(self, to: Subscription, notice: SentNotice, link: str, id_: str) -> None:
        try:
            headers, body = message(to, notice, link, id_, time.time(), self._subscriptions)
        except (HoldfastError, ValueError) as error:
            raise Undelivered(str(error)) from error
        pool = self._pools[to.url.partition(":")[0]]
        limits = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_SECONDS)
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                pool.stream(
                    "POST", to.url, headers=headers, content=body, extensions={"timeout": limits}
                ) as answer,
            ):
                status, told = answer.status, dict(answer.headers)
        except TimeoutError as error:
            raise Undelivered("it does not answer", again=0.0) from error
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise Undelivered(str(error) or "it does not answer", again=0.0) from error
        except (ValueError, UnicodeError) as error:
            raise Undelivered("its URL cannot be used") from error
        if 200 <= status < 300:
            return
        raise Undelivered(
            f"it answered {status}",
            again=_pause(told) if status >= 500 or status in _PASSING else None,
            gone=to.way == "push" and status in _GONE,
        )


def message(
    to: Subscription, notice: SentNotice, link: str, id_: str, now: float, keys: Subscriptions
) -> tuple[list[tuple[str, str]], bytes]:
    """Return the headers and the body of a request that tells a notice.

    Raises:
        HoldfastError: it cannot be made.
    """
    told = {**notice.as_dict(), "url": link}
    body = json.dumps(told, separators=(",", ":")).encode()
    headers = [("User-Agent", f"holdfast/{VERSION}")]
    if to.way == "webhook":
        headers += [("Content-Type", "application/json"), *signed(to.signing_key(), id_, now, body).items()]
    else:
        body = push_messages.encrypted(body, to.push_keys())
        authorization = keys.signer().authorization(to.url, CONTACT, now)
        headers += [
            ("Content-Type", "application/octet-stream"),
            ("Content-Encoding", "aes128gcm"),
            ("Authorization", authorization),
            ("TTL", str(PUSH_SECONDS)),
            ("Urgency", "high" if notice.kind in ("waiting", "died") else "normal"),
        ]
    return [*headers, ("Content-Length", str(len(body)))], body


def signed(key: bytes, id_: str, now: float, body: bytes) -> Mapping[str, str]:
    """Return the headers by which a webhook knows the sender, as Standard Webhooks names them."""
    at = int(now)
    mark = hmac.new(key, f"{id_}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(mark).decode()}",
    }


async def _noted(work: Callable[[], Any]) -> None:
    with suppress(HoldfastError):
        await asyncio.to_thread(work)


def _pause(headers: Mapping[bytes, bytes]) -> float:
    found = {name.lower(): value for name, value in headers.items()}.get(b"retry-after", b"")
    return float(found) if found.isdigit() and len(found) < 6 else 0.0

"""Delivery to hosts of this machine: signed, encrypted, tried again within bounds."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.notices.push_browser import PushBrowser

from holdfast.base.home import Home
from holdfast.runtime.notices import notice_sender, subscriptions
from holdfast.runtime.notices.notice_rules import SentNotice
from holdfast.runtime.notices.notice_sender import NoticeSender
from holdfast.runtime.notices.public_addresses import PublicAddresses
from holdfast.runtime.notices.subscriptions import MOST_FAILURES, Subscription, Subscriptions

LOOPBACK = PublicAddresses(["127.0.0.0/8"])
NOTICE = SentNotice("waiting", "0123456789ab", "work", "work: ssh waits for a password", "Password:", 1.0)
LINK = "http://127.0.0.1:8420/#/s/work"


class Host:
    """A host that answers with the given texts, one for each request, the last for all others."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.heads, self.bodies = list(answers), list[dict[str, str]](), list[bytes]()
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:  # it was given up
            writer.close()
            return
        lines = (line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        fields = {name.lower(): value for name, value in lines}
        self.heads.append(fields)
        self.bodies.append(await reader.readexactly(int(fields.get("content-length", "0"))))
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if told == "silent":
            await reader.read()  # until the sender leaves
        writer.write(f"HTTP/1.1 {told}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        with suppress(OSError):
            await writer.drain()
        writer.close()


def _run(host: Host, work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with await asyncio.start_server(host.answer, "127.0.0.1", 0) as server:
            host.port = server.sockets[0].getsockname()[1]
            await work()

    asyncio.run(whole())


def _kept(
    tmp_path: Path, host: Host, browser: PushBrowser | None = None
) -> tuple[Subscriptions, Subscription]:
    found = Subscriptions(Home(tmp_path))
    url = f"http://127.0.0.1:{host.port}/told"
    secret = json.dumps(browser.keys) if browser else subscriptions.new_secret()
    return found, found.add("person:ann", "token", "push" if browser else "webhook", url, secret)


async def _sent(kept: Subscriptions, to: Subscription, pauses: tuple[float, ...] = (0.0, 0.0)) -> str:
    sender = NoticeSender(kept, LOOPBACK, pauses=pauses)
    try:
        return await sender.send(to, NOTICE, LINK)
    finally:
        await sender.close()


def test_a_webhook_is_signed_as_standard_webhooks_has_it(tmp_path: Path) -> None:
    """The receiver computes the same mark from id, time and body, which name event, session and time."""
    host = Host("204 No Content")

    async def work() -> None:
        kept, to = _kept(tmp_path, host)
        assert await _sent(kept, to) == ""
        (head,), (body,) = host.heads, host.bodies
        signed = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode() + body
        mark = hmac.new(base64.b64decode(to.secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
        assert head["webhook-signature"] == f"v1,{base64.b64encode(mark).decode()}"
        told = json.loads(body)
        assert (told["kind"], told["session"], told["url"]) == ("waiting", "work", LINK)
        assert kept.list()[0].told_at > 0

    _run(host, work)


def test_a_push_is_read_by_the_browser_alone(tmp_path: Path) -> None:
    """The service sees a time to live, an urgency and a token, and nothing of the session."""
    host, browser = Host("201 Created"), PushBrowser()

    async def work() -> None:
        kept, to = _kept(tmp_path, host, browser)
        assert await _sent(kept, to) == ""
        (head,), (body,) = host.heads, host.bodies
        assert head["content-encoding"] == "aes128gcm"
        assert head["urgency"] == "high"
        assert int(head["ttl"]) > 0
        assert head["authorization"].startswith("vapid t=")
        assert b"work" not in body
        assert b"ssh" not in body
        assert json.loads(browser.read(body))["title"] == NOTICE.title

    _run(host, work)


@pytest.mark.parametrize("first", ["500 Oops", "503 Busy\r\nRetry-After: 0", "429 Slow"])
def test_a_host_that_is_busy_is_asked_again(tmp_path: Path, first: str) -> None:
    """With the same id, by which it can tell that it had it."""
    host = Host(first, "200 OK")

    async def work() -> None:
        kept, to = _kept(tmp_path, host)
        assert await _sent(kept, to) == ""
        assert len({head["webhook-id"] for head in host.heads}) == 1
        assert len(host.heads) == 2
        assert kept.list()[0].failures == 0

    _run(host, work)


@pytest.mark.parametrize(
    ("answer", "count"),
    [("500 Oops", 3), ("400 No", 1), ("403 No", 1), ("302 Found\r\nLocation: http://127.0.0.1:1/", 1)],
)
def test_attempts_end_and_redirects_are_not_followed(tmp_path: Path, answer: str, count: int) -> None:
    """The subscription says why; after many in a row it is off."""
    host = Host(answer)

    async def work() -> None:
        kept, to = _kept(tmp_path, host)
        assert await _sent(kept, to) == f"it answered {answer[:3]}"
        assert len(host.heads) == count
        (found,) = kept.list()
        assert (found.failures, found.trouble, found.is_off) == (1, f"it answered {answer[:3]}", False)
        for _ in range(MOST_FAILURES):
            kept.told(to.id, "it answered 500")
        assert kept.list()[0].is_off

    _run(host, work)


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
def test_a_browser_that_has_unsubscribed_is_forgotten(tmp_path: Path, status: str) -> None:
    """A push service says so once, and a webhook that is missing is only a failure."""
    host = Host(status)

    async def work() -> None:
        kept, to = _kept(tmp_path, host, PushBrowser())
        await _sent(kept, to)
        assert kept.list() == []
        kept, to = _kept(tmp_path, host)
        await _sent(kept, to)
        assert len(kept.list()) == 1

    _run(host, work)


def test_a_silent_host_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attempts end, those for other hosts pass it by, and no number of notices for it takes memory."""
    monkeypatch.setattr(notice_sender, "ATTEMPT_SECONDS", 3.0)
    silent, quick = Host("silent"), Host("200 OK")

    async def work() -> None:
        async with await asyncio.start_server(quick.answer, "127.0.0.1", 0) as server:
            kept, to = _kept(tmp_path, silent)
            other = replace(
                to, id="ffffffffffff", url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            )
            sender = NoticeSender(kept, LOOPBACK, pauses=())
            tasks = [sender.send(to, NOTICE, LINK) for _ in range(100)]
            assert await sender.send(other, NOTICE, LINK) == ""
            await asyncio.wait(tasks)
            ended = [each for each in tasks if not each.cancelled()]
            assert len(ended) == notice_sender.MOST_OF_SUBSCRIPTION
            assert {each.result() for each in ended} == {"it does not answer"}
            await sender.close()

    _run(silent, work)


def test_a_subscription_of_before_is_judged_again_at_each_notice(tmp_path: Path) -> None:
    """An address that the owner once allowed and no longer does is not reached."""
    host = Host("200 OK")

    async def work() -> None:
        kept, to = _kept(tmp_path, host)
        sender = NoticeSender(kept, PublicAddresses(), pauses=())
        assert "not a public address" in await sender.send(to, NOTICE, LINK)
        await sender.close()
        assert host.heads == []

    _run(host, work)

"""Clients of a server under load, of several kinds: each acts every few seconds, and notes what it hears.

A call that may be repeated (it has a key, or changes nothing) is repeated until a server answers; any other
is made once, and a lost connection leaves it unknown.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import httpx

from bench.server_load.told_acts import Act, Outcome, difference, missed
from holdfast import AsyncHoldfast, AsyncSession
from holdfast.errors import HoldfastError, OutcomeUnknown, ServerUnavailable, SessionBusy

FOLDER = "/tmp/load"
LINES = 12
"""Of a command whose output is followed."""
PAUSE = 0.25
"""Seconds between two of them."""
MUCH = 200_000
"""Lines of a command whose output is read slowly: 1.3 MB, more than may be under way."""
SLOW_PIECE, SLOW_PAUSE = 128 << 10, 0.4
FILE_BYTES = (32 << 10, 256 << 10)
AGAIN_SECONDS = 180.0
"""For how long a call is repeated."""
BUSY_SECONDS = 120.0
Answer = TypeVar("Answer")


class Turns:
    """When clients act: while `acting` is set, each after a pause of about `pace` seconds."""

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.acting = asyncio.Event()
        self.over = False
        self.busy: set[str] = set()
        """The acts under way, by their names."""

    async def next(self, dice: random.Random) -> bool:
        """Wait for the next turn of a client; return false if there is none."""
        await asyncio.sleep(self.pace * dice.uniform(0.5, 1.5))
        await self.acting.wait()
        return not self.over

    def end(self) -> None:
        """Let all clients end after the act that they are at."""
        self.over = True
        self.acting.set()

    async def rest(self, seconds: float) -> bool:
        """Let nobody begin another act; return whether all acts ended within some seconds."""
        self.acting.clear()
        until = time.monotonic() + seconds
        while self.busy and time.monotonic() < until:
            await asyncio.sleep(0.1)
        return not self.busy


class LoadClient(ABC):
    """One client, in one session."""

    kind = ""

    def __init__(
        self, number: int, url: str, token: str, session: str, turns: Turns, acts: list[Act]
    ) -> None:
        self.name = f"{self.kind}-{number}"
        self._url, self._token = url, token
        self._ref = session
        self._turns, self._acts = turns, acts
        self._dice = random.Random(number)
        self._count = 0
        self.session: AsyncSession

    async def live(self, ready: Callable[[], None]) -> None:
        """Connect, call `ready`, and act until the turns are over."""
        actor = f"agent:load-{self._ref}"
        async with AsyncHoldfast(self._url, token=self._token, actor=actor) as controller:
            self.session = await controller.session(self._ref)
            await self.prepare()
            ready()
            while await self._turns.next(self._dice):
                name = f"{self.name}.{self._count + 1}"
                self._turns.busy.add(name)
                try:
                    await self._turn()
                finally:
                    self._turns.busy.discard(name)
            await self.finish()

    async def prepare(self) -> None:
        """Make the folder of its file, and what else is needed before the first act."""
        await self.repeated(lambda: self.session.files.make_folder(FOLDER, parents=True))

    async def finish(self) -> None:  # noqa: B027  (most have nothing to do)
        """Do what is needed after the last one."""

    @abstractmethod
    async def act(self, name: str, *, keyed: bool) -> str:
        """Do one act under a name; return what was wrong with its output, if anything.

        Raises:
            HoldfastError: it failed.
        """

    keys = True
    """Whether three acts of four have a key; the others are made at most once."""
    appends = True

    @property
    def file(self) -> str:
        """The file of its acts in the session."""
        return f"{FOLDER}/{self.name}"

    async def held(self) -> list[str]:
        """Return the lines of that file."""
        if not await self.session.files.exists(self.file):
            return []
        return (await self.session.files.read(self.file)).decode().split()

    async def repeated(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make a call until a server answers that is not too busy; raises what it raises then."""
        until = time.monotonic() + AGAIN_SECONDS
        while True:
            try:
                return await call()
            except (ServerUnavailable, SessionBusy):
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(1)

    async def _turn(self) -> None:
        self._count += 1
        name, keyed = f"{self.name}.{self._count}", self.keys and self._count % 4 != 0
        began, wrong, code = time.monotonic(), "", ""
        outcome: Outcome = "done"
        try:
            wrong = await self.act(name, keyed=keyed)
        except OutcomeUnknown:
            outcome = "unknown"
        except HoldfastError as error:
            # Without a key, a lost connection says nothing of what was sent over it.
            lost = isinstance(error, ServerUnavailable) and not keyed and self.keys
            outcome, code = ("unknown" if lost else "failed"), f"{error.code}: {error}"
        self._acts.append(
            Act(
                *(self.name, self.kind, name, began, time.monotonic(), outcome),
                keyed=keyed,
                appends=self.appends,
                code=code,
                wrong=wrong,
            )
        )


class _InShell(LoadClient):
    """One with a shell of its own."""

    async def prepare(self) -> None:
        """Open it."""
        await super().prepare()
        await self.repeated(lambda: self.session.shells.open(self.name))

    async def finish(self) -> None:
        """Close it."""
        await self.repeated(lambda: self.session.shells.close(self.name, force=True))

    def command(self, name: str, pause: str) -> str:
        """Return a command that appends its name to the file, and prints it with numbers and pauses."""
        return f"echo {name} >> {self.file}; for i in $(seq {LINES}); do echo {name} $i; {pause}done"

    def whole(self, name: str) -> str:
        """Return what that prints."""
        return "".join(f"{name} {number}\n" for number in range(1, LINES + 1))


class Poster(_InShell):
    """Runs commands by POST, and has their output at their end."""

    kind = "post"

    async def prepare(self) -> None:
        """Open a connection of its own."""
        await super().prepare()
        headers = {"Authorization": f"Bearer {self._token}"}
        timeout = httpx.Timeout(AGAIN_SECONDS, connect=10)
        self._http = httpx.AsyncClient(base_url=self._url, headers=headers, timeout=timeout, trust_env=False)

    async def finish(self) -> None:
        """Close that, and the shell."""
        await self._http.aclose()
        await super().finish()

    async def act(self, name: str, *, keyed: bool) -> str:
        """Run one."""
        body = {"command": self.command(name, ""), "shell": self.name, "busy_wait": BUSY_SECONDS}

        async def post() -> dict[str, Any]:
            return await self.post(body, {"Idempotency-Key": name} if keyed else {})

        told = await (self.repeated(post) if keyed else post())
        if told["exit_code"] != 0:
            return f"exit {told['exit_code']}"
        return difference(str(told["output"]), self.whole(name))

    async def post(self, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Send a request; return its answer.

        Raises:
            ServerUnavailable: none came.
            HoldfastError: the answer is an error.
        """
        until, got = time.monotonic() + AGAIN_SECONDS, None
        while got is None:
            try:
                got = await self._http.post(f"/v1/sessions/{self._ref}/exec", json=body, headers=headers)
            except httpx.TransportError as error:
                nothing_sent = isinstance(error, httpx.ConnectError)
                if not nothing_sent or time.monotonic() > until:
                    raise ServerUnavailable(f"cannot reach the server: {type(error).__name__}") from error
                await asyncio.sleep(1)
        told = dict(got.json())
        if got.status_code != 200:
            raise HoldfastError(f"{got.status_code} {told['error']['code']}: {told['error']['message']}")
        return told


class Streamer(_InShell):
    """Follows the output of commands over the WebSocket; the library continues at its offset."""

    kind = "stream"

    async def act(self, name: str, *, keyed: bool) -> str:
        """Run and follow one."""
        shown: list[bytes] = []

        async def follow() -> Any:
            shown.clear()
            return await self.session.exec(
                self.command(name, f"sleep {PAUSE}; "),
                shell=self.name,
                busy_wait=BUSY_SECONDS,
                key=name if keyed else None,
                on_bytes=shown.append,
            )

        result = await (self.repeated(follow) if keyed else follow())
        if result.exit_code != 0:
            return f"exit {result.exit_code}"
        return difference(b"".join(shown).decode(), self.whole(name))


class SlowReader(Poster):
    """Reads much output slowly, in pieces of an answer that does not end; continues where it had come to."""

    kind = "slow"
    keys = False

    async def act(self, name: str, *, keyed: bool) -> str:
        """Start a command, and read what it printed."""
        body = {
            "command": f"echo {name} >> {self.file}; seq {MUCH}",
            "shell": self.name,
            "busy_wait": BUSY_SECONDS,
            "patience": 0,
        }
        told = await self.repeated(lambda: self.post(body, {"Idempotency-Key": name}))
        path = f"/v1/sessions/{self._ref}/commands/{told['command_id']}"
        seen, place, ended = hashlib.sha256(), None, False
        size, until = 0, time.monotonic() + AGAIN_SECONDS
        while not ended:
            params: dict[str, Any] = {"shell": self.name} | ({} if place is None else {"start": place})
            try:
                async for event in self._events(path, params):
                    if event["event"] == "output":
                        data = str(event["output"]).encode()
                        seen.update(data)
                        size, place = size + len(data), int(event["next"])
                    elif event["event"] == "error":
                        raise HoldfastError(str(event["error"]))
                    ended = ended or (event["event"] == "result" and not event["running"])
            except httpx.TransportError as error:
                if time.monotonic() > until:
                    raise ServerUnavailable(f"cannot reach the server: {error}") from error
                await asyncio.sleep(1)
        whole = "".join(f"{number}\n" for number in range(1, MUCH + 1)).encode()
        return "" if seen.digest() == hashlib.sha256(whole).digest() else f"{size} of {len(whole)} bytes"

    async def _events(self, path: str, params: dict[str, Any]) -> Any:
        """Yield the events of an answer, read at most so fast."""
        rest, taken = b"", 0
        accept = {"Accept": "application/x-ndjson"}
        async with self._http.stream("GET", path, params=params, headers=accept) as answer:
            if answer.status_code != 200:
                raise HoldfastError(f"{answer.status_code} {(await answer.aread())[:300]!r}")
            async for part in answer.aiter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield json.loads(line)
                taken += len(part)
                if taken >= SLOW_PIECE:
                    taken = 0
                    await asyncio.sleep(SLOW_PAUSE)


class Celler(LoadClient):
    """Runs cells in the session's kernel."""

    kind = "cell"

    async def prepare(self) -> None:
        """Start the kernel."""
        await super().prepare()
        await self.session.cell("1", busy_wait=BUSY_SECONDS)

    async def act(self, name: str, *, keyed: bool) -> str:
        """Run one."""
        code = f"with open({self.file!r}, 'a') as file: _ = file.write({name + chr(10)!r})\nprint({name!r})"

        async def run() -> Any:
            return await self.session.cell(code, key=name if keyed else None, busy_wait=BUSY_SECONDS)

        result = await (self.repeated(run) if keyed else run())
        return result.status if result.status != "ok" else difference(result.stdout, f"{name}\n")


class JobStarter(LoadClient):
    """Starts jobs, which make events, and waits for their end."""

    kind = "job"
    keys = False

    async def act(self, name: str, *, keyed: bool) -> str:
        """Start one; if the connection is lost before it has an id, nobody can know whether it began."""
        try:
            job = await self.session.detach(f"echo {name} >> {self.file}; echo {name}")
        except ServerUnavailable as error:
            raise OutcomeUnknown("cannot say whether the job began") from error
        result = await self.repeated(lambda: job.wait())
        return difference(result.text.replace("\r\n", "\n").rstrip("\n"), name)


class Mover(LoadClient):
    """Writes files and reads them again."""

    kind = "file"
    keys = appends = False

    async def act(self, name: str, *, keyed: bool) -> str:
        """Write one, and read it."""
        data = self._dice.randbytes(self._dice.randint(*FILE_BYTES))
        path = f"{FOLDER}/{self.name}.data"
        await self.repeated(lambda: self.session.files.write(path, data))
        read = await self.repeated(lambda: self.session.files.read(path))
        return "" if read == data else f"{len(read)} bytes read of {len(data)} written"


class Follower(LoadClient):
    """Follows the events of its session all the time; each act also reads the earlier ones."""

    kind = "events"
    keys = appends = False

    async def prepare(self) -> None:
        """Begin to follow."""
        self.seen: list[int] = []
        self._following = asyncio.create_task(self._follow())

    async def act(self, name: str, *, keyed: bool) -> str:
        """Compare what was seen with what there is."""
        if self._following.done():
            await self._following  # with the error that it ended in
        every = await self.repeated(self._every)
        until = time.monotonic() + AGAIN_SECONDS
        while missed(self.seen, every) and time.monotonic() < until:
            if self._following.done():
                break
            await asyncio.sleep(0.2)
        return missed(self.seen, every)

    async def finish(self) -> None:
        """Follow no further."""
        self._following.cancel()
        with suppress(asyncio.CancelledError, HoldfastError):
            await self._following

    async def _every(self) -> list[int]:
        return [event.seq async for event in self.session.events()]

    async def _follow(self) -> None:
        async def follow() -> None:
            after = self.seen[-1] if self.seen else 0
            async for event in self.session.events(after, follow=True):
                self.seen.append(event.seq)

        await self.repeated(follow)


MIX: tuple[tuple[type[LoadClient], int], ...] = (
    (Poster, 5),
    (Follower, 4),
    (Streamer, 5),
    (Celler, 2),
    (Mover, 2),
    (SlowReader, 1),
    (JobStarter, 1),
)
"""How many of twenty clients are of each kind."""


def kinds(count: int) -> list[type[LoadClient]]:
    """Return the kinds of so many clients, mixed as evenly as can be; there is each kind among seven."""
    found: list[type[LoadClient]] = []
    made = dict.fromkeys((kind for kind, _ in MIX), 0)
    for _ in range(count):
        kind = min(MIX, key=lambda each: (made[each[0]] + 1) / each[1] if made[each[0]] else 0)[0]
        made[kind] += 1
        found.append(kind)
    return found

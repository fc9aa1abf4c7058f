"""API for programs in a session: its identity, callbacks for captures and restores, captures on request.

    import holdfast_session

    @holdfast_session.on_restore
    def again(event):
        connect_to_the_database()

    if holdfast_session.capture(reason="before the migration").kind == "restored":
        ...  # in every copy; in the session itself it is "resumed"

It needs only Python 3.8 or newer; the session image puts it on Python's path. Callbacks run in a thread
of their own, one at a time, in the order in which they were registered. Before they run in a copy, random
number generators are reseeded, except those whose seed the user chose; see `reseed`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import select
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "CaptureFailed",
    "CaptureUnavailable",
    "Captured",
    "Event",
    "capture",
    "identity",
    "on_restore",
    "on_resume",
    "reseed",
]

_DEFAULT = "/var/lib/holdfast/identity/identity.json"
_LONGEST = 65536
_LONGEST_TEXT = 500
_LONGEST_REQUEST = 60_000
_HINT = "captures can only be requested inside a holdfast session"


class Event(NamedTuple):
    """A capture or restore, as a callback receives it.

    `kind` is `resumed` (a snapshot of this program was taken) or `restored` (this is a copy, or it was
    suspended). `generation` grows with every restore.
    """

    kind: str
    snapshot: str
    session: str
    name: str
    generation: int
    old_session: str
    old_name: str
    old_generation: int


class Captured(NamedTuple):
    """How the program came out of a capture.

    `kind` is `resumed` in the program that requested it and `restored` in every copy. `snapshot` is its id.
    `reference` is where the host keeps it, and is set only in the program that requested it. `own` is False
    in copies of a snapshot taken for another reason while this program waited for its own.
    """

    kind: str
    snapshot: str
    reference: str = ""
    own: bool = True


class CaptureFailed(RuntimeError):
    """No snapshot was taken; the message says why, `hint` what to do. The program continues."""

    def __init__(self, message: str, code: str = "capture_failed", hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.code = code
        self.hint = hint


class CaptureUnavailable(CaptureFailed):
    """No process on the host serves captures of this session, or this is not a session."""


Function = TypeVar("Function", bound="Callable[[Event], object]")

_functions: dict[str, list[Callable[[Event], object]]] = {"restored": [], "resumed": []}
_lock = threading.RLock()
_fifo: Path | None = None
_fd = -1
_in_kernel = False
_watched: list[str] = []
"""Functions of `random` that report seeds to us."""
_seeded = False
"""True if the user chose the seed of `random`."""


def identity() -> dict[str, Any]:
    """Return the identity: session, name, generation, hostname, addresses, container, event, parent."""
    answer = json.loads(_file().read_bytes())
    return dict(answer)


def on_restore(function: Function) -> Function:
    """Call a function with an `Event` in every copy of this program, and after a suspension.

    The restore waits a few seconds for it. An exception is reported to the restoring process and has no
    further effect.
    """
    return _register("restored", function)


def on_resume(function: Function) -> Function:
    """Call a function with an `Event` after each live snapshot, in the captured program itself."""
    return _register("resumed", function)


def reseed(*, everything: bool = False) -> None:
    """Reseed whatever would produce the same values in every copy: `random`, numpy's global generator,
    OpenSSL, uuid1, names of temporary files.

    Args:
        everything: include `random` and numpy even if the user chose their seeds.
    """
    if everything or not _seeded:
        random.Random.seed(_instance())
    for step in (_numpy, _openssl, _names):
        # What this version of a library lacks is left alone.
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            step(everything)


def capture(
    label: str | None = None,
    reason: str | None = None,
    failure: Mapping[str, Any] | None = None,
    timeout: float | None = 900.0,
) -> Captured:
    """Capture the session, with this program inside this very call. Like fork(2), it returns more than once:
    here, and in every copy that is restored.

    Args:
        label: a name for the snapshot; must be free on the host.
        reason: why, for people.
        failure: the failure that prompted the capture, if any: `reason` (failed, timeout, hang, exception,
                    asked), `where`, `message`, `command`, `tail`, `debugger` (`program`, `job`, `command`).
        timeout: seconds to wait for the host, which serves requests in order; None: no limit.

    Raises:
        CaptureUnavailable: no process on the host serves captures; raised at once.
        CaptureFailed: the host could not take the snapshot, or not in time.
    """
    description = {
        "label": label,
        "reason": reason,
        "failure": dict(failure) if failure is not None else None,
        "pid": os.getpid(),
        "command": " ".join(sys.argv)[:_LONGEST_TEXT],
        "generation": int(_generation() or 0),
    }
    data = json.dumps(description).encode()
    if len(data) > _LONGEST_REQUEST:
        raise CaptureFailed("cannot capture the session: the request's description is too long", "invalid")
    folder = _file().parent
    name = f"{os.getpid()}-{os.urandom(4).hex()}"
    fifo, request = folder / "asking" / name, folder / "asking" / f"{name}.json"
    fd = -1
    try:
        try:
            os.mkfifo(fifo, 0o600)
            fd = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
            request.write_bytes(data)
            _send(folder / "captures", name)
        except OSError as error:
            why = f"cannot capture the session: requests are not accepted here ({error.strerror})"
            raise CaptureUnavailable(why, "unavailable", _HINT) from None
        return _outcome(_await_answer(fd, timeout))
    finally:
        if fd >= 0:
            os.close(fd)
        for path in (request, fifo):
            with contextlib.suppress(OSError):
                path.unlink()


def load_ipython_extension(_shell: object) -> None:
    """Listen for restores in this kernel; the session image's IPython configuration loads the extension."""
    global _in_kernel
    _in_kernel = True
    _listen()
    begun, now = os.environ.get("HOLDFAST_GENERATION"), _generation()
    if _fifo is not None and begun is not None and begun != now:
        reseed()  # restored after this program began, before it could be notified


def _register(kind: str, function: Function) -> Function:
    """Register a callback, replacing one of the same name: notebook cells run repeatedly."""
    with _lock:
        name = _name_of(function)
        found = [one for one in _functions[kind] if name == "<lambda>" or _name_of(one) != name]
        _functions[kind] = [*found, function]
    _listen()
    return function


def _name_of(function: object) -> str:
    name = str(getattr(function, "__qualname__", function))
    return "<lambda>" if name.endswith("<lambda>") else f"{getattr(function, '__module__', '')}.{name}"


# Notifications.


def _file() -> Path:
    return Path(os.environ.get("HOLDFAST_IDENTITY") or _DEFAULT)


def _listen() -> None:
    """Create a FIFO where the supervisor looks for listeners, and read its messages in a thread."""
    global _fifo, _fd
    with _lock:
        if _fifo is not None:
            return
        path = _file().parent / "listeners" / f"{os.getpid()}-{os.urandom(4).hex()}"
        try:
            os.mkfifo(path, 0o600)
            _fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # not in a session: no message will ever come
        _fifo = path
        threading.Thread(target=_receive, args=(_fd, path.parents[1]), name="holdfast", daemon=True).start()
        if not _watched:
            _watch_seeds()
            atexit.register(_remove_fifo)
            os.register_at_fork(after_in_child=_after_fork)


def _generation() -> str:
    try:
        return (_file().parent / "generation").read_text().strip()
    except OSError:
        return ""


def _after_fork() -> None:
    """Forget the FIFO in a forked child, which does not have a listening thread."""
    global _fifo, _fd
    if _fifo is not None:
        os.close(_fd)
    _fifo, _fd = None, -1


def _remove_fifo() -> None:
    if _fifo is not None:
        with contextlib.suppress(OSError):
            _fifo.unlink()


def _receive(fd: int, folder: Path) -> None:
    rest = b""
    while True:
        *lines, rest = (rest + os.read(fd, _LONGEST)).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                message = json.loads(line)
                number = message.pop("number")
                _answer(folder, number, _run_callbacks(Event(**message)))


def _run_callbacks(event: Event) -> tuple[int, str]:
    """Reseed and run the callbacks for an event; return their number, and the first error."""
    if event.kind in ("restored", "begun"):  # the latter: until now it waited in a pool
        if _in_kernel:
            os.environ.update(
                HOLDFAST_SESSION=event.session,
                HOLDFAST_NAME=event.name,
                HOLDFAST_GENERATION=str(event.generation),
                HOSTNAME=os.uname().nodename,
            )
        reseed()
    called, wrong = 0, ""
    for function in list(_functions.get(event.kind, ())):
        called += 1
        try:
            function(event)
        except BaseException as error:  # noqa: BLE001 - of a user's function; the others still run
            traceback.print_exc()
            wrong = wrong or f"{getattr(function, '__name__', 'a function')}: {type(error).__name__}: {error}"
    return called, wrong[:_LONGEST_TEXT]


def _send(fifo: Path, word: str) -> None:
    fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.write(fd, word.encode() + b"\n")
    finally:
        os.close(fd)


def _await_answer(fd: int, timeout: float | None) -> dict[str, Any]:
    """Wait for the answer. The clock can jump in a copy, so time is counted in short waits."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not poll.poll(None if timeout is None else 1000 * min(1.0, timeout)):
        if timeout is not None:
            timeout -= 1.0
            if timeout <= 0:
                raise CaptureFailed("cannot capture the session: the host did not answer in time", "timeout")
    return dict(json.loads(os.read(fd, _LONGEST)))


def _outcome(answer: dict[str, Any]) -> Captured:
    kind = answer.pop("kind")
    if kind == "failed":
        error = CaptureUnavailable if answer["code"] == "unavailable" else CaptureFailed
        raise error(answer["message"], answer["code"], answer["hint"])
    return Captured(kind, **answer)


def _answer(folder: Path, number: str, outcome: tuple[int, str]) -> None:
    called, wrong = outcome
    line = json.dumps({"number": number, "called": called, "wrong": wrong}).encode() + b"\n"
    with contextlib.suppress(OSError):  # the supervisor no longer waits
        fd = os.open(folder / "answers", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)


# State that would repeat.


def _instance() -> random.Random:
    """Return the generator behind the functions of the module `random`."""
    return random.random.__self__  # type: ignore[attr-defined,no-any-return]


def _watch_seeds() -> None:
    """Track whether `random` is seeded by hand: such a program wants that sequence, in copies as well."""

    def watched(name: str) -> Callable[..., Any]:
        original = getattr(random, name)

        def wrapper(*args: Any, **options: Any) -> Any:
            global _seeded
            result = original(*args, **options)
            _seeded = name == "setstate" or (args[0] if args else options.get("a")) is not None
            return result

        wrapper.__name__ = wrapper.__qualname__ = name
        wrapper.__doc__, wrapper.__module__ = original.__doc__, "random"
        wrapper.__wrapped__ = original  # type: ignore[attr-defined]
        return wrapper

    for name in ("seed", "setstate"):
        setattr(random, name, watched(name))
        _watched.append(name)


def _numpy(everything: bool) -> None:
    numpy = sys.modules.get("numpy.random.mtrand")
    if numpy is None:
        return
    state = numpy._rand
    # It remembers its first seed, and forgets it when it is seeded by hand.
    if everything or state._bit_generator.seed_seq is not None:
        state.set_state(type(state)().get_state(legacy=False))


def _openssl(_everything: bool) -> None:
    if "_ssl" in sys.modules:
        import ssl

        ssl.RAND_add(os.urandom(48), 48.0)


def _names(_everything: bool) -> None:
    if tempfile := sys.modules.get("tempfile"):
        vars(tempfile)["_name_sequence"] = None
    if uuid := sys.modules.get("uuid"):
        # A made-up node has this bit set (RFC 9562). The C library's way has state that cannot be reset.
        multicast = 1 << 40
        vars(uuid).update(
            _node=int.from_bytes(os.urandom(6), "big") | multicast,
            _last_timestamp=None,
            _generate_time_safe=None,
        )

"""Connections to a cluster's PostgreSQL: kept, given back, cut when they stay silent; its errors in ours.

Knows no table. A transaction that PostgreSQL ended for a deadlock is repeated. When PostgreSQL neither
answers nor refuses (stopped, behind a cut line), a thread on this side closes connections that are past
their time, because the driver waits for ever.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.rows import DictRow, dict_row

from holdfast.errors import ClusterError, ClusterUnavailable

T = TypeVar("T")
Connection = psycopg.Connection[DictRow]
Cursor = psycopg.Cursor[DictRow]

_REPEATS = 8
_AGAIN = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)


class ClusterDatabase:
    """One PostgreSQL, for any thread. At most `most` connections are open; more callers wait for one."""

    def __init__(self, dsn: str, *, patience_s: float, most: int) -> None:
        self._dsn, self._patience, self._most = dsn, patience_s, most
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(most)
        self._idle: list[Connection] = []
        self._used: dict[Connection, float] = {}
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None

    def transaction(self, work: Callable[[Cursor], T]) -> T:
        """Return the result of `work`, committed; it is called again after a deadlock.

        Raises:
            ClusterUnavailable: PostgreSQL does not answer; it is not known whether this was committed.
            ClusterError: PostgreSQL refused.
        """
        for left in reversed(range(_REPEATS)):
            try:
                with self._translated(), self._connection() as connection, connection.transaction():
                    return work(connection.cursor())
            except _AGAIN as error:
                if not left:
                    raise ClusterError(f"cannot finish a transaction: {_line(error)}") from error
                time.sleep(random.uniform(0, 0.05 * (_REPEATS - left)))  # noqa: S311 - apart from the other
        raise AssertionError

    @contextmanager
    def begun(self) -> Iterator[Cursor]:
        """Yield a cursor in a transaction, which is not repeated after a deadlock.

        Raises:
            ClusterUnavailable: PostgreSQL does not answer; it is not known whether this was committed.
            ClusterError: PostgreSQL refused.
        """
        with self._translated(), self._connection() as connection, connection.transaction():
            yield connection.cursor()

    @contextmanager
    def listening(self, channel: str) -> Iterator[Callable[[float], list[str]]]:
        """Yield a function that waits for notifications, at most for some seconds, and returns their texts.

        Raises:
            ClusterUnavailable: PostgreSQL does not answer.
        """
        with self._translated(), self._opened() as connection:
            connection.autocommit = True
            connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))

            def wait(seconds: float) -> list[str]:
                with self._translated():
                    return [note.payload for note in connection.notifies(timeout=seconds, stop_after=1)]

            yield wait

    def close(self) -> None:
        """Close all connections that are not in use."""
        self._closed.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _AGAIN:
            raise
        except _AWAY as error:
            raise ClusterUnavailable(
                f"cannot reach the cluster's database: {_line(error)}",
                hint="check that PostgreSQL runs, and the host, user and password in the cluster's address",
            ) from error
        except psycopg.errors.UndefinedTable as error:
            raise ClusterError(
                "cannot use the cluster's database: its tables are not there",
                hint="make them with `holdfast cluster init`",
            ) from error
        except psycopg.Error as error:
            raise ClusterError(f"cannot use the cluster's database: {_line(error)}") from error

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if not self._room.acquire(timeout=self._patience):
            raise ClusterUnavailable("cannot reach the cluster's database: all connections are in use")
        try:
            connection = self._taken()
            try:
                yield connection
            except _AWAY:
                connection.close()  # also one to a server that has become a standby
                raise
            finally:
                self._give_back(connection)
        finally:
            self._room.release()

    def _taken(self) -> Connection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._open()
            elif _has_ended(connection):
                connection.close()
                continue
            self._guard(connection)
            return connection

    def _guard(self, connection: Connection) -> None:
        with self._lock:
            self._used[connection] = time.monotonic() + self._patience
            if self._watch is None and not self._closed.is_set():
                self._watch = threading.Thread(target=self._cut_silent, name="cluster-silence", daemon=True)
                self._watch.start()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._used.pop(connection, None)
            keeps = (
                not self._closed.is_set()
                and len(self._idle) < self._most
                and not connection.closed
                and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            )
            if keeps:
                self._idle.append(connection)
        if not keeps:
            connection.close()

    def _open(self) -> Connection:
        seconds = max(2, round(self._patience))
        return psycopg.connect(
            self._dsn,
            autocommit=True,  # transactions are opened by name
            row_factory=dict_row,
            connect_timeout=seconds,
            application_name="holdfast",
            target_session_attrs="read-write",
            keepalives_idle=seconds,
            keepalives_interval=2,
            keepalives_count=2,
            tcp_user_timeout=seconds * 1000,
        )

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        connection = self._open()
        try:
            yield connection
        finally:
            connection.close()

    def _cut_silent(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                late = [connection for connection, until in self._used.items() if now > until]
                for connection in late:
                    self._used.pop(connection)
                    _cut(connection)
                if not self._used and self._closed.is_set():
                    self._watch = None
                    return
            time.sleep(min(0.25, self._patience / 4))


def _has_ended(connection: Connection) -> bool:
    """Return whether the other end has closed it: an idle connection is silent otherwise."""
    if connection.closed:
        return True
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        try:
            return bool(end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) is not None)
        except BlockingIOError:
            return False
    return True


def _cut(connection: Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _line(error: Any) -> str:
    text = " ".join(str(error).split())
    return text[:300] or type(error).__name__

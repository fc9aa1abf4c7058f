"""SQLite in the middle of a transaction, write-ahead log, with a reader that sees the state before it."""

import os
import sqlite3
import time
from pathlib import Path

database = sqlite3.connect("wal.db", isolation_level=None)
database.execute("pragma journal_mode=wal")
database.execute("pragma synchronous=full")
database.execute("create table if not exists account (id integer primary key, amount integer)")
database.execute("delete from account")
database.executemany("insert into account values (?, 100)", [(n,) for n in range(100)])
reader = sqlite3.connect("wal.db", isolation_level=None)

database.execute("begin immediate")
database.execute("update account set amount = amount - 7 where id = 1")
reader.execute("begin")
reader.execute("select sum(amount) from account").fetchone()
Path("half").touch()
while not Path("go").exists():
    time.sleep(0.02)

# The half that was captured is finished; the reader still has its earlier view.
database.execute("update account set amount = amount + 7 where id = 2")
old = reader.execute("select amount from account where id in (1, 2) order by id").fetchall()
database.execute("commit")
reader.execute("commit")
new = reader.execute("select amount from account where id in (1, 2) order by id").fetchall()
faults = old != [(100,), (100,)], new != [(93,), (107,)]
rounds = 0
while rounds < 20:
    with database:
        database.execute("begin immediate")
        database.execute("update account set amount = amount - 1 where id = ?", (rounds,))
        database.execute("update account set amount = amount + 1 where id = ?", (99 - rounds,))
    rounds += 1
database.execute("pragma wal_checkpoint(truncate)")
total = sqlite3.connect("wal.db").execute("select sum(amount) from account").fetchone()[0]
whole = database.execute("pragma integrity_check").fetchone()[0]
good = not any(faults) and total == 10000 and whole == "ok"
said = f"committed, {rounds} more transactions, sum {total}, integrity {whole}, views {old}, {new}"
Path("new").write_text(f"{'ok' if good else 'not ok'}: {said}\n")
os.replace("new", "verdict")  # noqa: PTH105

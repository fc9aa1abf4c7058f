"""SQLite with a rollback journal, in a transaction that is committed later; then another begins."""

import os
import sqlite3
import time
import traceback
from pathlib import Path

database = sqlite3.connect("journal.db", isolation_level=None)
database.execute("create table if not exists account (id integer primary key, amount integer)")
database.executemany("insert or replace into account values (?, 100)", [(n,) for n in range(100)])
database.execute("begin immediate")
database.execute("update account set amount = amount - 7 where id = 1")
Path("half").touch()
while not Path("go").exists():
    time.sleep(0.02)
try:
    database.execute("update account set amount = amount + 7 where id = 2")
    database.execute("commit")
    database.execute("begin immediate")
    database.execute("update account set amount = amount + 0 where id = 3")
    database.execute("commit")
    total = database.execute("select sum(amount) from account").fetchone()[0]
    said = f"{'ok' if total == 10000 else 'not ok'}: committed, and a transaction after it; sum {total}"
except sqlite3.Error:
    said = f"not ok: {traceback.format_exc().splitlines()[-1]}"
Path("new").write_text(f"{said}\n")
os.replace("new", "verdict")  # noqa: PTH105

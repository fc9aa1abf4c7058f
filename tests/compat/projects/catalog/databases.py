"""Databases: the suites of SQLite, Redis and PostgreSQL."""

from __future__ import annotations

from tests.compat.projects.project import Project

_SQLITE = "select1 select2 insert update trans wal fkey2 index join where vacuum alter backup pager1 savepoint walcrash thread001 incrvacuum autovacuum capi3 e_fkey"

PROJECTS = (
    Project(
        name="sqlite",
        kind="database",
        does=f"of its suite: {_SQLITE.replace(' ', ', ')}; and a database that its speed test writes",
        fetch="debian_orig sqlite3; packages tcl-dev",
        build="""
            ./configure --with-tcl=/usr/lib/tcl8.6 >/dev/null 2>&1
            make -s -j2 testfixture speedtest1 CFLAGS='-O1 -g0' >/dev/null 2>&1""",
        version="cat VERSION",
        run=f"""
            for test in {_SQLITE}; do ./testfixture test/$test.test || status=1; done
            ./speedtest1 --size 20 --testset main kept.db >/dev/null && exit $status""",
        reads="testfixture",
        files=("kept.db",),
        patience=1200,
    ),
    Project(
        name="redis",
        kind="database",
        does="of its suite: lists, hashes, sets, sorted sets, streams, expiry, transactions, snapshots on disk",
        fetch="""
            packages tcl; debian_orig redis
            for program in server cli benchmark; do ln -s /usr/bin/redis-$program src/redis-$program; done
            ln -s /usr/bin/redis-server src/redis-sentinel""",
        version="redis-server -v | sed 's/.* v=\\([^ ]*\\).*/\\1/'",
        run="""
            ./runtest --clients 2 --skipunit integration/replication --single unit/type/list --single unit/type/hash \\
                --single unit/type/set --single unit/type/zset --single unit/expire --single unit/multi \\
                --single integration/rdb --single unit/pubsub""",
        known="this case may take 1.00 to 1.15 s by the time of day; a freeze in the middle of it counts, and in a copy "
        "the time for which the snapshot waited",
        measured=r"Expected '(\d+)' to be between",
        reads="redis",
        stack="services",
    ),
    Project(
        name="postgresql",
        kind="database",
        does="of its regression suite, on a server of its own: types, expressions, concurrency, copying, inserting",
        fetch="packages postgresql-server-dev-17; debian_orig postgresql-17; mv src/test/regress .; rm -rf src doc contrib",
        build="""
            cd regress; gcc -O1 -shared -fPIC -I$(pg_config --includedir-server) regress.c -o regress.so
            chown -R postgres ..""",
        version="pg_config --version | cut -d' ' -f2",
        run="""
            cd regress; chown postgres . ..; sed '/insert_conflict/q' parallel_schedule > schedule
            setpriv --reuid postgres --regid postgres --init-groups env HOME=/tmp PATH=$(pg_config --bindir):$PATH \\
                $(dirname $(pg_config --pgxs))/../test/regress/pg_regress --bindir= --dlpath=$PWD --inputdir=. \\
                --temp-instance=instance --no-locale --encoding=UTF8 --max-connections=5 --schedule=schedule""",
        reads="tap",
        stack="services",
    ),
)

"""Servers with open connections."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run

PROGRAMS = (
    Program(
        name="postgresql",
        family="databases",
        does="a server of its own user, and a psql within a transaction, with a row locked",
        prepare="""
            version=$(ls /usr/lib/postgresql); chmod 755 . ; mkdir -p data run; chown postgres data run
            runuser -u postgres -- /usr/lib/postgresql/$version/bin/initdb -D $PWD/data -A trust >/dev/null
            ln -sfn /usr/lib/postgresql/$version/bin bin""",
        start="""
            runuser -u postgres -- bin/postgres -D $PWD/data -k $PWD/run -p 5499 >log 2>&1 &
            patiently runuser -u postgres -- psql -h $PWD/run -p 5499 -c 'select 1'
            psql() { runuser -u postgres -- psql -q -h $PWD/run -p 5499 "$@"; }
            psql -c 'create table account (id int primary key, amount int);
                     insert into account select n, 100 from generate_series(1, 100) n'
            mkfifo orders 2>/dev/null; exec 7<>orders
            psql -t -A <&7 >answers 2>&1 &
            echo 'begin; update account set amount = amount - 7 where id = 1; select txid_current();' >&7
            wait""",
        ready="[ -s answers ]",
        check=(
            Run(
                'exec 7<>orders; ask() { echo "$1" >&7; }\n'
                'sql() { runuser -u postgres -- psql -q -t -A -h $PWD/run -p 5499 -c "$1"; }\n'
                "[ \"$(sql 'select amount from account where id = 1')\" = 100 ] || bad 'the open transaction is seen'\n"
                "ask 'update account set amount = amount + 7 where id = 2;'\n"
                "ask \"select 'same', txid_current() = $(head -n 1 answers);\"\n"
                "ask 'commit;'; ask \"select 'done';\"\n"
                "patiently grep -q '^done' answers || bad \"psql does not answer: $(tail -n 3 answers)\"\n"
                "grep -q '^same|t' answers || bad \"another transaction: $(tail -n 3 answers)\"\n"
                "sql 'update account set amount = amount + 0; checkpoint' || bad 'no new connection'\n"
                "found=$(sql 'select sum(amount), min(amount), max(amount) from account')\n"
                '[ "$found" = \'10000|93|107\' ] && ok "committed after the capture; sum, least, most: $found" '
                '|| bad "the table holds $found"'
            ),
        ),
        stack="services",
    ),
    Program(
        name="redis",
        family="databases",
        does="a server with its append-only file; a client within MULTI, and one that is subscribed",
        start="""
            redis-server --port 6399 --bind 127.0.0.1 --appendonly yes --dir $PWD --save '' >log 2>&1 &
            patiently redis-cli -p 6399 set before kept
            mkfifo orders 2>/dev/null; exec 7<>orders
            redis-cli -p 6399 <&7 >answers 2>&1 &
            redis-cli -p 6399 subscribe news >heard 2>&1 &
            printf 'multi\\nincr count\\nincr count\\n' >&7
            wait""",
        ready='[ "$(grep -c QUEUED answers)" = 2 ] && grep -q subscribe heard',
        check=(
            Run(
                "exec 7<>orders; printf 'incr count\\nexec\\n' >&7\n"
                'three() { [ "$(redis-cli -p 6399 get count)" = 3 ]; }\n'
                'patiently three || bad "the transaction is not done: $(tail -n 3 answers)"\n'
                "redis-cli -p 6399 publish news arrived >/dev/null\n"
                "patiently grep -q arrived heard || bad 'the subscriber hears nothing'\n"
                '[ "$(redis-cli -p 6399 get before)" = kept ] && patiently grep -q count appendonlydir/*.aof '
                "&& ok 'transaction done, message heard, file written' || bad 'values are lost'"
            ),
        ),
        stack="services",
    ),
    Program(
        name="nginx",
        family="servers",
        does="master and workers of another user, a download in the middle, a connection kept alive",
        start="""
            mkdir -p web tmp; head -c 3000000 /dev/urandom > web/blob; md5sum <web/blob >sum; chmod -R 755 . ; chmod 777 tmp
            echo "daemon off; worker_processes 2; pid $PWD/pid; error_log $PWD/error.log; events {}
                http { access_log $PWD/access.log; client_body_temp_path tmp;
                server { listen 127.0.0.1:8099; root $PWD/web; limit_rate 100k;
                location /fast { limit_rate 0; return 200 fast; } } }" > nginx.conf
            nginx -p $PWD -c $PWD/nginx.conf &
            patiently curl -sf http://127.0.0.1:8099/fast
            curl -s http://127.0.0.1:8099/blob > blob; md5sum <blob >got; sleep 100018""",
        ready="[ $(stat -c %s blob) -gt 100000 ]",
        check=(
            Run(
                "[ \"$(curl -s --max-time 30 http://127.0.0.1:8099/fast)\" = fast ] || bad 'it does not answer'\n"
                "nginx -p $PWD -c $PWD/nginx.conf -s reload || bad 'it cannot be reloaded'\n"
                "patiently test -s got || bad 'the download does not end'\n"
                "cmp -s got sum && ok 'answers, reloads, and the download is whole' || bad 'the download is not whole'"
            ),
        ),
        stack="services",
    ),
    Program(
        name="fio",
        family="databases",
        does="fio writes blocks with checksums at random and reads them back, on three paths to the file",
        start="""
            for how in psync mmap pvsync2; do
                (fio --name=$how --filename=$PWD/$how.data --ioengine=$how --rw=randrw --bs=4k --size=16m --verify=crc32c \\
                    --verify_fatal=1 --verify_backlog=64 --rate_iops=2000 --time_based --runtime=25 >$how.log 2>&1
                echo $? > $how.status) &
            done; wait; sleep 100026""",
        ready="[ -s psync.data ]",
        check=(
            Run(
                'for how in psync mmap pvsync2; do patiently test -s $how.status || bad "$how does not end"\n'
                '[ "$(cat $how.status)" = 0 ] || bad "$how: $(grep -m1 -i verify $how.log)"; done\n'
                "ok 'each block is what was written'"
            ),
        ),
        stack="tools",
    ),
    Program(
        name="http-server",
        family="servers",
        does="python's http.server with a download in the middle",
        start="""
            head -c 3000000 /dev/urandom > blob; md5sum <blob >sum
            python3 -m http.server --bind 127.0.0.1 8098 >/dev/null 2>&1 &
            patiently curl -sf -o /dev/null http://127.0.0.1:8098/sum
            curl -s --limit-rate 200k http://127.0.0.1:8098/blob > copy; md5sum <copy >got; sleep 100019""",
        ready="[ $(stat -c %s copy) -gt 100000 ]",
        check=(
            Run(
                "curl -s --max-time 30 http://127.0.0.1:8098/sum | cmp -s - sum || bad 'it does not answer'\n"
                "patiently test -s got || bad 'the download does not end'\n"
                "cmp -s got sum && ok 'answers, and the download is whole' || bad 'the download is not whole'"
            ),
        ),
    ),
)

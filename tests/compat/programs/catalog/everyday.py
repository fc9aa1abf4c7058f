"""Further tools of a working day: package managers, schedulers, application servers, and work side by side."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run, Shows, Type

_VIM = "vim -N -u NONE -i NONE"
_MARIADB = "mariadb --no-defaults -N -S $PWD/socket store"

PROGRAMS = (
    Program(
        name="tmux-work",
        family="terminal",
        does="a detached tmux with vim and unsaved text, a build that is half done, and `tail -F` of its log",
        prepare="""
            for i in $(seq 40); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done
            printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n%%.o: %%.c\\n\\tsleep 0.2; cc -c -o $@ $<\\n' > Makefile""",
        start=f"""
            rm -f *.o log status text .text.swp; : > log
            hf() {{ tmux -L hfwork -f /dev/null "$@"; }}
            hf new-session -d -s work -x 100 -y 40 '{_VIM} text'
            hf split-window -t work 'make -j2 >log 2>&1; echo $? > status; exec sleep 100031'
            hf split-window -t work 'exec tail -F log'
            hf send-keys -t work.0 'ifrom the editor'
            until [ -e status ]; do sleep 0.1; done; sleep 100032""",
        ready="[ -e .text.swp ] && [ $(ls *.o 2>/dev/null | wc -l) -gt 3 ] && [ ! -e status ]",
        check=(
            Run(
                'hf() { tmux -L hfwork -f /dev/null "$@"; }\n'
                "patiently test -s status || bad 'the build does not end'\n"
                '[ "$(cat status) $(ls *.o | wc -l)" = "0 40" ] || bad "$(tail -n 2 log)"\n'
                "hf send-keys -t work.0 Escape; hf send-keys -t work.0 ':w! saved' Enter\n"
                "patiently grep -q 'from the editor' saved || bad 'the editor does not write'\n"
                "echo 'the last line' >> log; shows() { hf capture-pane -p -t work.2 | grep -q 'the last line'; }\n"
                "patiently shows && ok 'editor, build and log continue' || bad 'tail does not follow'"
            ),
        ),
        stack="tools",
    ),
    Program(
        name="git-editor",
        family="building",
        does="`git rebase -i` of 12 commits that waits for its editor, vim",
        prepare="""
            rm -rf repo; git init -q repo; cd repo; git config user.email a@example.org; git config user.name A
            echo base > base; git add base; git commit -qm base; git branch base
            for i in $(seq 12); do echo $i > file$i; git add .; git commit -qm "change $i"; done""",
        start=f"""
            cd repo; rm -f ../log; GIT_SEQUENCE_EDITOR='{_VIM}' git rebase -i base
            echo $? > ../status; sleep 100033""",
        ready="sleep 0.5; running 'git-rebase-todo' && [ -e repo/.git/rebase-merge/.git-rebase-todo.swp ]",
        check=(
            Type("ggdd:wq\r"),
            Run(
                "patiently test -s status || bad 'it does not end'\n"
                'cd repo; [ "$(cat ../status) $(git rev-list --count base..HEAD)" = "0 11" ] && [ ! -e file1 ] '
                "&& ok 'the commit that was taken off the list is gone' || bad \"$(git status | head -n 3)\""
            ),
        ),
        stack="tools",
    ),
    Program(
        name="watch",
        family="terminal",
        does="`watch` of a file that changes afterwards",
        start="echo first > file; exec watch -n 0.3 cat file",
        ready="running 'watch -n'",
        check=(Run("echo second > file; ok written"), Shows("second")),
    ),
    Program(
        name="cron",
        family="servers",
        does="Debian's cron, without systemd: the next minute has its run",
        start="""
            echo "* * * * * root date +\\%s >> $PWD/ticks" > /etc/cron.d/holdfast; chmod 644 /etc/cron.d/holdfast
            exec cron -f""",
        ready="[ -s ticks ] && wc -l < ticks > had",
        check=(
            Run(
                "more() { [ $(wc -l < ticks) -gt $(cat had) ]; }\n"
                "patiently more || patiently more && ok 'runs what is due' || bad 'it runs nothing'"
            ),
        ),
        stack="everyday",
    ),
    Program(
        name="inotifywait",
        family="watching",
        does="`inotifywait -m -r` of a tree: a change deep in it, and in a folder that is new",
        prepare="for n in $(seq 50); do mkdir -p tree/$n/deep; done",
        start="exec inotifywait -m -r -q -e close_write --format '%w%f' tree > acts",
        ready="sleep 0.5; echo x > tree/50/deep/before; sleep 0.1; grep -q deep/before acts",
        check=(
            Run(
                "before=$(wc -l < acts); echo x > tree/7/deep/after; mkdir -p tree/7/deep/new\n"
                'patiently grep -qx tree/7/deep/after acts || bad "the change was not seen: $(tail -n 2 acts)"\n'
                "seen() { echo x > tree/7/deep/new/file; grep -qx tree/7/deep/new/file acts; }\n"
                "patiently seen || bad 'the new folder is not watched'\n"
                '[ "$(sed -n $((before + 1))p acts)" = tree/7/deep/after ] && ok "sees what changes" '
                '|| bad "it was woken: $(sed -n $((before + 1))p acts)"'
            ),
        ),
        stack="everyday",
    ),
    Program(
        name="mariadb",
        family="databases",
        does="a server, and a client within a transaction with a row locked",
        prepare="""
            rm -rf data; mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal \\
                --datadir=$PWD/data >/dev/null""",
        start="""
            mariadbd --no-defaults --user=root --datadir=$PWD/data --socket=$PWD/socket --skip-networking >log 2>&1 &
            patiently mariadb --no-defaults -S $PWD/socket -e 'create database if not exists store'
            echo 'create table account (id int primary key, amount int) engine=innodb;
                insert into account select seq, 100 from seq_1_to_100;' | """
        + _MARIADB
        + """
            mkfifo orders 2>/dev/null; exec 7<>orders
            """
        + _MARIADB
        + """ -n <&7 >answers 2>&1 &
            echo 'begin; update account set amount = amount - 7 where id = 1; select connection_id();' >&7
            wait""",
        ready="[ -s answers ]",
        check=(
            Run(
                'exec 7<>orders; ask() { echo "$1" >&7; }\n'
                f'sql() {{ {_MARIADB} -e "$1"; }}\n'
                "[ \"$(sql 'select amount from account where id = 1')\" = 100 ] || bad 'the open transaction is seen'\n"
                "ask 'update account set amount = amount + 7 where id = 2;'\n"
                "ask \"select 'same', connection_id() = $(head -n 1 answers); commit; select 'done';\"\n"
                "patiently grep -q '^done' answers || bad \"the client does not answer: $(tail -n 3 answers)\"\n"
                "grep -qP '^same\\t1' answers || bad \"another connection: $(tail -n 3 answers)\"\n"
                "found=$(sql 'select sum(amount), min(amount), max(amount) from account' | tr '\\t' ' ')\n"
                '[ "$found" = \'10000 93 107\' ] && ok "committed after the capture; sum, least, most: $found" '
                '|| bad "the table holds $found"'
            ),
        ),
        stack="everyday",
    ),
    Program(
        name="gunicorn",
        family="servers",
        does="gunicorn with three workers; one is killed afterwards, and replaced",
        start="""
            printf 'import os\\ndef app(environ, start):\\n    start("200 OK", [])\\n    return [str(os.getpid()).encode()]\\n' \\
                > served.py
            exec gunicorn -w 3 -b 127.0.0.1:8097 --pid pid served:app >log 2>&1""",
        ready="curl -sf http://127.0.0.1:8097/ > worker && [ $(pgrep -c -P $(cat pid)) = 3 ]",
        check=(
            Run(
                "get() { curl -sf --max-time 30 http://127.0.0.1:8097/; }\n"
                "was=$(get) || bad 'it does not answer'; kill -9 $was\n"
                "again() { [ $(pgrep -c -P $(cat pid)) = 3 ] && ! pgrep -P $(cat pid) | grep -qx $was && get; }\n"
                "patiently again && ok 'answers, and replaces a worker' || bad \"$(tail -n 2 log)\""
            ),
        ),
        stack="everyday",
    ),
    Program(
        name="uvicorn-reload",
        family="watching",
        does="`uvicorn --reload` with watchfiles: a change of the application is served",
        start="""
            mkdir -p app; cd app; cat > served.py <<'END'
WORD = b"before"
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": WORD})
END
            exec uvicorn served:app --port 8096 --reload --lifespan off >../log 2>&1""",
        ready="curl -sf http://127.0.0.1:8096/ | grep -q before",
        check=(
            Run(
                "get() { curl -sf --max-time 30 http://127.0.0.1:8096/; }\n"
                "get | grep -q before || bad 'it does not answer'; sed -i s/before/after/ app/served.py\n"
                "changed() { get | grep -q after; }\n"
                "patiently changed && ok 'serves the change' || bad \"$(tail -n 2 log)\""
            ),
        ),
        stack="everyday",
    ),
    Program(
        name="loky",
        family="python",
        does="scikit-learn in the worker processes of joblib: forests are fitted again and again, with equal scores",
        start="exec python $INSIDE/forests.py",
        ready="begun state",
        check=(Run("steady state 2"),),
        stack="everyday",
    ),
    Program(
        name="erlang-ring",
        family="erlang",
        does="a virtual machine: 100 processes that hand a number around, a TCP server, a client on one open connection",
        prepare="erlc $INSIDE/ring.erl",
        start="exec erl -noshell -noinput -s ring main",
        ready="begun state",
        check=(
            Run(
                "exec 5<>/dev/tcp/127.0.0.1/$(cat port) || bad 'no new connection'; echo hello >&5\n"
                'read -t 60 -r said <&5; [ "$said" = hello ] || bad "it answers: $said"; steady state'
            ),
        ),
        stack="everyday",
    ),
    Program(
        name="pnpm",
        family="building",
        does="pnpm in the middle of an installation, in a script of a package",
        prepare="""
            for n in $(seq 20); do mkdir -p parts/p$n; echo "module.exports = $n;" > parts/p$n/index.js
                echo "{\\"name\\": \\"p$n\\", \\"version\\": \\"1.0.0\\"}" > parts/p$n/package.json; done
            mkdir -p package; { echo '{"name": "probe", "version": "1.0.0", "scripts": {"postinstall":'
                echo '"touch $W/half; until [ -e $W/go ]; do sleep 0.05; done"}, "dependencies": {'
                for n in $(seq 20); do [ $n = 1 ] || echo ,; echo "\\"p$n\\": \\"file:../parts/p$n\\""; done
                echo '}}'; } > package/package.json""",
        start="""
            export W=$PWD; cd package; node /opt/npm/node_modules/pnpm/bin/pnpm.cjs install --offline >$W/log 2>&1
            echo $? > $W/status; sleep 100034""",
        ready="[ -e half ]",
        check=(
            Run(
                "touch go; patiently test -s status || bad 'it does not end'; cd package\n"
                "sum=$(node -e 'let s = 0; for (let n = 1; n <= 20; n++) s += require(\"p\" + n); console.log(s)')\n"
                '[ "$(cat ../status) $sum" = "0 210" ] && ok installed || bad "$(tail -n 3 ../log)"'
            ),
        ),
        stack="node",
    ),
    Program(
        name="bun",
        family="node",
        does="Bun: an HTTP server that counts in SQLite, and a client of it in a worker thread",
        start="exec /opt/npm/node_modules/.bin/bun $INSIDE/bun.js",
        ready="begun state",
        check=(Run("steady state"),),
        stack="node",
    ),
    Program(
        name="playwright",
        family="browser",
        does="Playwright and its driver with Chromium, headless: clicks on a page, which counts them",
        start="exec python $INSIDE/browser.py",
        ready="begun state",
        check=(Run("steady state"),),
        stack="chromium",
        alone=True,
    ),
)

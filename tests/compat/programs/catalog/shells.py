"""Shells, their jobs, and processes as such."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run, Shows, Type

_FAMILY = "shell"

PROGRAMS = (
    Program(
        name="bash-jobs",
        family=_FAMILY,
        does="background jobs of the main shell: one counts, one sleeps, one is stopped; variables and a trap",
        where="shell",
        start="""
            hf_kept=kept; trap 'hf_trapped=yes' USR1
            (i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.02; done) &
            hf_counting=$!
            sleep 100011 &
            sleep 100012 & hf_stopped=$!
            until [ "$(cat /proc/$hf_stopped/comm)" = sleep ]; do :; done
            kill -STOP %3""",
        ready='begun count && pgrep -fx "sleep 100012" && [ -n "$(ps -o stat= -C sleep | grep T)" ]',
        check=(
            Run(
                'if ! grows count 5; then bad "the counting job stands still"\n'
                'elif [ "$(jobs -r | grep -c "sleep 100011")" != 1 ]; then bad "jobs: $(jobs)"\n'
                'elif [ "$(jobs -s | grep -c "sleep 100012")" != 1 ]; then bad "stopped: $(jobs)"\n'
                "else kill -USR1 $$; : ; bg %3 >/dev/null; "
                'if [ "$hf_trapped $hf_kept $(jobs -r | grep -c "sleep 100012")" = "yes kept 1" ]; '
                'then ok "jobs go on, the stopped one when it is told to"; '
                'else bad "trap $hf_trapped, variable $hf_kept, $(jobs)"; fi; fi'
            ),
        ),
    ),
    Program(
        name="bash-pipeline",
        family=_FAMILY,
        does="four processes in a pipeline; the last checks the sums of what the first counts",
        start="""
            i=0
            while :; do i=$((i+1)); echo $i; sleep 0.01; done | tee raw | sed -u 's/$/ 1/' | {
                n=0 sum=0 bad=0
                while read -r number _; do
                    n=$((n+1)) sum=$((sum+number))
                    [ $sum = $((n*(n+1)/2)) ] && [ $number = $n ] || bad=$((bad+1))
                    echo $n $bad > new; mv new state
                done; }""",
        ready="begun state",
        check=(Run("steady state"),),
    ),
    Program(
        name="bash-read",
        family=_FAMILY,
        does="a bash that waits in `read` for a line from its terminal",
        start='echo $$ > pid; read -r -p "who? " who; echo "hello $who"; sleep 100013',
        ready="[ -s pid ] && [ \"$(cut -d ' ' -f 1 /proc/$(cat pid)/syscall)\" = 0 ]",
        check=(Type("the same\n"), Shows("hello the same")),
    ),
    Program(
        name="stopped-job",
        family=_FAMILY,
        does="a process group stopped by SIGSTOP in the middle of counting",
        start="""
            set -m
            (i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.01; done) & echo $! > pid
            patiently beyond count 5; kill -STOP -- -$!; echo stopped > stopped; wait; sleep 100014""",
        ready="[ -s stopped ] && ps -o stat= -p $(cat pid) | grep -q T",
        check=(
            Run(
                "before=$(first count); sleep 0.2\n"
                '[ "$(first count)" = "$before" ] || bad "it runs though it was stopped"\n'
                "kill -CONT -- -$(cat pid)\n"
                'grows count 5 && ok "stopped until it was continued" || bad "it does not go on"'
            ),
        ),
    ),
    Program(
        name="zombies",
        family="processes",
        does="five dead children that nobody has collected yet",
        start="exec python3 $INSIDE/graveyard.py",
        ready="[ -s dead ]",
        check=(
            Run(
                "[ \"$(ps -o stat= -p $(tr ' ' , <dead) | grep -c Z)\" = 5 ] || bad 'they are not dead any more'\n"
                "kill -USR1 $(cat pid); patiently test -s verdict; cat verdict"
            ),
        ),
    ),
    Program(
        name="processes-200",
        family="processes",
        does="200 processes; a number goes around through all of them by pipes",
        start="exec python3 $INSIDE/crowd.py",
        ready="begun state",
        check=(Run("steady state 3"),),
    ),
    Program(
        name="other-user",
        family="processes",
        does="a process of another uid and gid without capabilities, in a folder of its own",
        start="""
            chmod 777 . ; exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
                bash -c 'i=0; while :; do i=$((i+1)); echo $i $(($(id -u) != 65534)) > new; mv new count; sleep 0.02; done'""",
        ready="begun count",
        check=(
            Run(
                '[ "$(stat -c %u count)" = 65534 ] || bad "the file belongs to another"\n'
                "pid=$(pgrep -u 65534 -f 'id -u' | head -n 1)\n"
                '[ "$(grep CapEff /proc/$pid/status | tr -d "[:alpha:]:\\t0")" = "" ] || bad "it has capabilities"\n'
                "steady count"
            ),
        ),
    ),
    Program(
        name="heap-2g",
        family="processes",
        does="a heap of 2 GiB, different in every page; random blocks are checked and written",
        start="exec python3 $INSIDE/heap.py",
        ready="begun state",
        check=(Run("steady state 20"),),
        alone=True,
    ),
)

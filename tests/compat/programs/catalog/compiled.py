"""Programs in C, Rust, Go and Java, compiled in the session."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run


def _c(name: str, does: str, libraries: str = "-pthread") -> Program:
    return Program(
        name=f"c-{name}",
        family="c",
        does=does,
        prepare=f"gcc -O1 -Wall -Wextra -I$INSIDE -o {name} $INSIDE/c_{name}.c {libraries}",
        start=f"exec ./{name}",
        ready="begun state",
        check=(Run("steady state"),),
    )


PROGRAMS = (
    _c(
        "threads",
        "8 threads: condition variables, a barrier, thread-local storage, a robust lock shared by processes",
    ),
    _c(
        "timers", "POSIX timers, itimers, timerfd, a queued signal held back, an alternate stack, four clocks"
    ),
    _c("events", "eventfd, signalfd, epoll in epoll (level, edge, one-shot), each with something pending"),
    _c(
        "memory",
        "memfd with seals, shared mappings of all kinds, System V memory and semaphores, locked pages",
    ),
    _c(
        "files",
        "locks of three kinds, files without a name or by one they have no more, holes, shared offsets",
    ),
    _c(
        "channels",
        "a FIFO, a pipe, AF_UNIX pairs and a named socket with data in them, a descriptor on its way",
    ),
    _c("watch", "inotify on a file and on a folder"),
    Program(
        name="rust",
        family="rust",
        does="threads with channels, locks and a condition variable, a timer, a connection on a unix socket",
        prepare="rustc -O -o worker $INSIDE/worker.rs",
        start="exec ./worker",
        ready="begun state",
        check=(Run("steady state"),),
        stack="rust",
    ),
    Program(
        name="go-server",
        family="go",
        does="100 goroutines that hand a number around, an HTTP server, a client on one open connection",
        prepare="cp $INSIDE/server.go . && go build -o server server.go",
        start="./server & patiently test -s port; exec python3 $INSIDE/client.py $(cat port)",
        ready="begun state",
        check=(
            Run(
                "get() { curl -sf --max-time 30 http://127.0.0.1:$(cat port)/sums >sums; }\n"
                "get || bad 'it does not answer'; before=$(first sums); more() { get && beyond sums $before; }\n"
                "patiently more || bad 'goroutines stand still'\n"
                "grep -q ' 0 goroutines' sums || bad \"$(cat sums)\"; steady state"
            ),
        ),
        stack="go",
    ),
    Program(
        name="go-run",
        family="go",
        does="the same by `go run`, which stays as the parent of what it has compiled",
        prepare="cp $INSIDE/server.go .",
        start="go run server.go & patiently test -s port; exec python3 $INSIDE/client.py $(cat port)",
        ready="begun state",
        check=(Run("steady state"),),
        stack="go",
    ),
    Program(
        name="java",
        family="java",
        does="a JVM: thread pools, a scheduled executor, garbage collection, a server with an open connection",
        prepare="javac -d . $INSIDE/Server.java",
        start="exec java -Xmx256m -cp . Server",
        ready="begun state && [ -s port ]",
        check=(
            Run(
                "python3 $INSIDE/ask.py $(cat port) hello | grep -q '^[0-9]' || bad 'it does not answer'\nsteady state"
            ),
        ),
        stack="java",
    ),
)

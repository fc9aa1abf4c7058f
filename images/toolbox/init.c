/*
 * PID 1 of a session.  It waits until the network of its container is confined, starts the supervisor
 * (or waits for one that is restored from outside), and reaps.  Between the two is the keeper
 * (images/session/keeper.c), which starts a killed supervisor again with what ran.  If the keeper ends, or an image
 * has none, this process starts the supervisor again without anything that ran before.
 *
 *   init start      run the supervisor
 *   init await PID  idle until the process PID, put here by a restore, has come, or SIGUSR1 says that none will
 *
 * Signals count only if they come from outside: `kill 1` and `kill -1` in the session end nothing here.
 * SIGHUP says that the supervisor is about to be ended for good, and this process with it; SIGUSR1 that it is not.
 *
 * Nothing runs in the container before SIGUSR1 says that its network is confined.  The rules are set from
 * outside, and nothing in here has the capability to change them.  A container that is started by hand is
 * not confined: it waits until it is stopped.
 *
 * It knows nothing of sessions, protocols or files.  Static, because nothing the user does to the
 * container's libraries may keep it from reaping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_SETUP = 70,        /* the container cannot be made safe: nothing was started */
    EXIT_USAGE = 64,
    GRACE_SECONDS = 5,      /* between SIGTERM to the supervisor and SIGKILL to all */
    FAILING_SECONDS = 10,   /* a supervisor that gives up within these cannot start; another could not either */
    AGAIN_AT_MOST = 5,      /* times that it is started again within AGAIN_SECONDS */
    AGAIN_SECONDS = 60,
    SILENT_SECONDS = 10,    /* to wait silently for the network; it takes a fraction of one */
    /* When PIDs wrap, Linux begins again at 300 (RESERVED_PIDS).  A supervisor above it leaves the
     * lower ones free for the tools that restore this tree, PIDs included, into another container. */
    FIRST_PID = 300,
    /* Engines give a million and more; programs that close or poll every possible file then take seconds.
     * Elasticsearch, the most demanding of the usual servers, asks for 65535. */
    OPEN_FILES = 65536,
};

/* An image that was not made for sessions has a portable guest, with a Python of its own. */
#define OWN_PYTHON "/opt/holdfast/bin/python"
#define KEEPER "/opt/holdfast/bin/keeper"
static char *SUPERVISOR[] = {"keeper", "/usr/bin/python3", "-I", "/opt/holdfast/guest", NULL};
/* Tells the supervisor how the one before it ended: a status of wait(2). */
#define ENDED "HOLDFAST_SUPERVISOR_ENDED"
/* By this, a supervisor that is started again knows what ran before.  One of an older image would run once more what
 * a caller asks for again; its session ends with it. */
#define KNOWS_PAST "/opt/holdfast/guest/holdfast/runtime/guest/records/past_runs.py"
/* The name of this process while it ends the session.  A supervisor ends on SIGTERM only if it reads it in
 * /proc/1/comm, which no other process can write. */
#define ENDING "ending"

static void fail(const char *what)
{
    fprintf(stderr, "init: cannot %s: %s\n", what, strerror(errno));
    exit(EXIT_SETUP);
}

/* ---- limits ------------------------------------------------------------------------------- */

/* Lowering needs no capability, which is why it is done here and not asked of the engine. */
static void limit_open_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail("read the limit of open files");
    if (limit.rlim_max > OPEN_FILES)
        limit.rlim_max = OPEN_FILES;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail("limit open files");
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* The signal, or 0 for one that a process of the session sent.  Only a sender outside has no pid here, and the
 * fields are the kernel's own for SI_USER (rt_sigqueueinfo(2)). */
static int from_outside(int signal, const siginfo_t *info)
{
    return signal == SIGCHLD || (info->si_code == SI_USER && info->si_pid == 0) ? signal : 0;
}

/* Returns once the network is confined.  Exits if the container is to end before that. */
static void await_confinement(const sigset_t *signals)
{
    struct timespec soon = {.tv_sec = SILENT_SECONDS};
    const struct timespec *limit = &soon;

    for (;;) {
        siginfo_t info;
        int signal = sigtimedwait(signals, &info, limit);

        switch (signal < 0 ? 0 : from_outside(signal, &info)) {
        case SIGUSR1:
            return;
        case SIGTERM: case SIGINT:
            exit(0);
        }
        if (signal < 0 && errno == EAGAIN) {
            fputs("init: waiting: nothing is started until the network of this container is confined; holdfast "
                  "does that when it starts a session, nobody does after a start by hand\n", stderr);
            limit = NULL;   /* for ever */
        }
    }
}

/* ---- starting ----------------------------------------------------------------------------- */

/* Uses up the low PIDs with children that end at once. */
static void burn_pids(void)
{
    for (;;) {
        pid_t pid = vfork();

        if (pid == 0)
            _exit(0);
        if (pid < 0)
            fail("move the PIDs up");
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (pid >= FIRST_PID)
            return;
    }
}

/* No signal is ignored or blocked.  Raw calls: a program that was started by posix_spawn(3), the engine
 * for one, has the signals that glibc keeps to itself (32 and 33) ignored, and glibc does not let them go. */
static void reset_signals(void)
{
    unsigned long by_default[4] = {0}; /* handler, flags, restorer, mask */
    sigset_t none;

    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(by_default[0]));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static pid_t start_supervisor(void)
{
    pid_t pid = fork();

    if (pid < 0)
        fail("fork");
    if (pid > 0)
        return pid;

    int errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR);

    setsid();
    if (null < 0)
        fail("open /dev/null");
    /* The container's own streams belong to the engine; a process that holds them cannot be dumped. */
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    reset_signals();
    if (access(OWN_PYTHON, X_OK) == 0)
        SUPERVISOR[1] = OWN_PYTHON;
    execv(KEEPER, SUPERVISOR);
    execv(SUPERVISOR[1], SUPERVISOR + 1);   /* in images of older versions */
    if (errors >= 0)
        dprintf(errors, "init: cannot run %s: %s\n", SUPERVISOR[1], strerror(errno));
    _exit(127);
}

/* ---- reaping ------------------------------------------------------------------------------ */

static bool is_child(pid_t pid)
{
    siginfo_t info;

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Reaps whatever has ended.  Returns true, with its status, if the main process was among it. */
static bool reap(pid_t main_pid, int *main_status)
{
    bool found = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == main_pid) {
            *main_status = status;
            found = true;
        }
    return found;
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* ---- starting again ------------------------------------------------------------------------- */

/* A supervisor that was killed can be started again, and one that failed late; one that gave up at once said
 * why.  One that is killed over and over is left dead, and so is one that ended in order, or would not know what
 * ran. */
static bool worth_another(int status, time_t began)
{
    static time_t times[AGAIN_AT_MOST];
    static unsigned count;
    time_t now = seconds(), *oldest = &times[count % AGAIN_AT_MOST];

    if (status == 0 || (!WIFSIGNALED(status) && now - began < FAILING_SECONDS) || access(KNOWS_PAST, F_OK) != 0)
        return false;
    if (count >= AGAIN_AT_MOST && now - *oldest < AGAIN_SECONDS)
        return false;
    *oldest = now;
    count++;
    return true;
}

/* Ends everything else in the session.  What the supervisor had started would be in no snapshot any more: a
 * capture takes the tree below it. */
static void end_everything(void)
{
    struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};

    for (;;) {
        pid_t pid;

        kill(-1, SIGKILL);
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 && errno == ECHILD)
            return;
        nanosleep(&moment, NULL);
    }
}

static pid_t start_again(int status)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", status);
    setenv(ENDED, text, 1);
    return start_supervisor();
}

/* ---- serving ------------------------------------------------------------------------------ */

/* Lets a main process continue that was stopped: `kill -STOP -1` is for programs. */
static void keep_going(pid_t main_pid)
{
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)main_pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == main_pid)
        kill(main_pid, SIGCONT);
}

static _Noreturn void serve(pid_t main_pid, const sigset_t *signals)
{
    time_t deadline = 0;    /* 0: not asked to end */
    time_t began = seconds();
    bool killed = false;
    bool last = false;      /* no supervisor follows this one */

    for (;;) {
        struct timespec second = {.tv_sec = 1};
        siginfo_t info;
        int status = 0, signal = deadline ? sigtimedwait(signals, &info, &second) : sigwaitinfo(signals, &info);

        signal = signal < 0 ? 0 : from_outside(signal, &info);
        if (signal == SIGHUP || signal == SIGUSR1)
            last = signal == SIGHUP;
        /* After any signal, not only SIGCHLD: a restored process becomes our child without one. */
        if (reap(main_pid, &status)) {
            if (deadline || last || !worth_another(status, began))
                exit(exit_code(status));
            end_everything();
            main_pid = start_again(status);
            began = seconds();
        }
        keep_going(main_pid);
        if (signal == SIGUSR1 && !deadline && !is_child(main_pid)) {
            burn_pids();
            main_pid = start_supervisor();  /* awaited, but this container keeps only its files */
            began = seconds();
        }
        if ((signal == SIGTERM || signal == SIGINT) && !deadline) {
            if (!is_child(main_pid))
                exit(0);    /* awaited, never came */
            prctl(PR_SET_NAME, ENDING, 0, 0, 0);
            kill(main_pid, SIGTERM);
            kill(main_pid, SIGCONT);
            deadline = seconds() + GRACE_SECONDS;
        }
        if (deadline && !killed && seconds() >= deadline) {
            kill(-1, SIGKILL);
            killed = true;
        }
    }
}

int main(int argc, char **argv)
{
    sigset_t signals, blocked;
    pid_t main_pid = 0;

    if (argc == 3 && strcmp(argv[1], "await") == 0) {
        char *end;
        long number = strtol(argv[2], &end, 10);

        if (*end == '\0' && number > 1 && number <= 4194304)    /* the kernel's PID_MAX_LIMIT */
            main_pid = (pid_t)number;
    }
    if (main_pid == 0 && !(argc == 2 && strcmp(argv[1], "start") == 0)) {
        fputs("usage: init start | init await PID\n", stderr);
        return EXIT_USAGE;
    }

    /* No process in the session may trace this process or write to its memory: root there lacks CAP_SYS_PTRACE. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        fail("close itself to tracers");

    /* Blocked, not handled: PID 1 loses signals that it neither handles nor blocks. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR1);
    /* SIGUSR2 shows outside that this waits to be confined: that the others are blocked does not, because a
     * call that waits for signals unblocks these while it sleeps (do_sigtimedwait in the kernel). */
    blocked = signals;
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_SETMASK, &blocked, NULL);

    await_confinement(&signals);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    limit_open_files();
    if (main_pid == 0) {
        burn_pids();
        main_pid = start_supervisor();
    }
    serve(main_pid, &signals);
}

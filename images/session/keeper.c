/*
 * The keeper: parent of the supervisor, and root of the tree that a capture takes.  It holds what a supervisor
 * would take along when it is killed, and starts the next one, which adopts it.
 *
 *   keeper PROGRAM [ARGUMENT…]    run the supervisor, again whenever it is killed
 *
 * It adopts every orphan of the session (PR_SET_CHILD_SUBREAPER, prctl(2)).  After the death of a supervisor these
 * are its shells, kernels and jobs.  Their terminals stay open, since it has a duplicate of each descriptor, and
 * it collects how they end.
 *
 * The supervisor has one end of a pair of sockets (SOCK_SEQPACKET), as the descriptor that HOLDFAST_KEEPER names.
 * A message is a letter, a pid of 4 bytes, the length of a key in one, the key, and a record, which means nothing
 * to the keeper; `runtime/guest/jobs/keeper.py` is the other end.
 *
 *   H  hold a record under the key, for the process pid; a descriptor that comes along is held with it
 *   D  drop it
 *   L  list: an E for each that is held, with its descriptor, and Z
 *   S  answer S, after all that came before
 *   X  to the supervisor: the process pid ended or was stopped; the record is its status (wait(2)), 4 bytes
 *
 * Static and small: it is copied into every snapshot, and what the user does to libraries does not concern it.
 * Signals of the session end it only if they are SIGKILL; SIGTERM of the first process is passed on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_SETUP = 70,
    EXIT_USAGE = 64,
    MOST = 192,             /* records, for 16 shells, 16 kernels, 32 running jobs and 64 programs at most */
    LONGEST_KEY = 63,
    LONGEST = 16 << 10,     /* bytes of a message */
    HEAD = 6,               /* letter, pid, length of the key */
    CHANNEL = 3,            /* the descriptor of the supervisor's end */
    FAILING_SECONDS = 10,   /* as in init.c: one that gives up within these cannot start */
    AGAIN_AT_MOST = 5,
    AGAIN_SECONDS = 60,
    SEND_SECONDS = 2,       /* for a supervisor that asks for the list and does not read it */
    RETRY_MILLISECONDS = 100,
    RETRIES = 600,          /* to start one where no process is free, as beside a fork bomb */
};

#define ENDED "HOLDFAST_SUPERVISOR_ENDED"
#define CHANNEL_NAME "HOLDFAST_KEEPER"
#define NAME "keeper"
/* As in init.c: a supervisor without it would run once more what a caller asks for again. */
#ifndef KNOWS_PAST
#define KNOWS_PAST "/opt/holdfast/guest/holdfast/runtime/guest/records/past_runs.py"
#endif

struct held {
    char key[LONGEST_KEY + 1];
    char *record;
    uint32_t length;
    int descriptor;         /* -1: none */
    pid_t pid;              /* 0: the record is not of a process */
    bool used, ended, told;
    int status;
};

static struct held table[MOST];
static char message[LONGEST];
static char **program;
static pid_t supervisor;
static int channel = -1;
static volatile sig_atomic_t asked_to_end;

/* ---- signals ------------------------------------------------------------------------------ */

static void on_child(int number)
{
    (void)number;           /* only to wake ppoll(2) */
}

/* The first process passes on what comes from outside; no other process can have its number. */
static void on_end(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (info->si_code == SI_USER && info->si_pid == 1)
        asked_to_end = 1;
}

static void set_signals(sigset_t *while_waiting)
{
    unsigned long ignored[4] = {1}; /* SIG_IGN, as in reset_signals */
    struct sigaction child = {.sa_handler = on_child};
    struct sigaction end = {.sa_sigaction = on_end, .sa_flags = SA_SIGINFO};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t blocked;

    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, ignored, NULL, sizeof(ignored[0]));
    for (size_t at = 0; at < sizeof(faults) / sizeof(*faults); at++)
        signal(faults[at], SIG_DFL);
    signal(SIGCONT, SIG_DFL);
    sigaction(SIGCHLD, &child, NULL);
    sigaction(SIGTERM, &end, NULL);
    /* They come only while it waits, so that none is missed in between. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigemptyset(while_waiting);
}

/* As in init.c: raw calls, for glibc keeps two signals to itself. */
static void reset_signals(void)
{
    unsigned long by_default[4] = {0};
    sigset_t none;

    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(by_default[0]));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* ---- what is held --------------------------------------------------------------------------- */

static void let_go(struct held *one)
{
    if (one->descriptor >= 0)
        close(one->descriptor);
    free(one->record);
    memset(one, 0, sizeof(*one));
}

static struct held *find(const char *key)
{
    for (int at = 0; at < MOST; at++)
        if (table[at].used && strcmp(table[at].key, key) == 0)
            return &table[at];
    return NULL;
}

static struct held *find_pid(pid_t pid)
{
    for (int at = 0; at < MOST; at++)
        if (table[at].used && !table[at].ended && table[at].pid == pid)
            return &table[at];
    return NULL;
}

static void hold(const char *key, pid_t pid, const char *record, size_t length, int descriptor)
{
    struct held *one = find(key);
    char *copy = malloc(length ? length : 1);

    for (int at = 0; one == NULL && at < MOST; at++)
        if (!table[at].used) {
            one = &table[at];
            one->descriptor = -1;
        }
    if (one == NULL || copy == NULL) {
        free(copy);
        if (descriptor >= 0)
            close(descriptor);
        return;
    }
    memcpy(copy, record, length);
    if (!one->used || one->pid != pid)
        one->ended = one->told = false;
    if (descriptor >= 0) {
        if (one->descriptor >= 0)
            close(one->descriptor);
        one->descriptor = descriptor;
    }
    free(one->record);
    one->used = true;
    one->record = copy;
    one->length = (uint32_t)length;
    one->pid = pid;
    snprintf(one->key, sizeof(one->key), "%s", key);
}

/* ---- the channel --------------------------------------------------------------------------- */

static bool send_message(char letter, pid_t pid, const char *key, const void *record, size_t length, int descriptor,
                         int flags)
{
    static char data[LONGEST + 64];
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    size_t key_length = strlen(key);
    struct iovec part = {.iov_base = data, .iov_len = HEAD + key_length + length};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (channel < 0 || part.iov_len > sizeof(data))
        return false;
    data[0] = letter;
    memcpy(data + 1, &(int32_t){pid}, 4);
    data[5] = (char)key_length;
    memcpy(data + HEAD, key, key_length);
    memcpy(data + HEAD + key_length, record, length);
    if (descriptor >= 0) {
        head.msg_control = control.space;
        head.msg_controllen = sizeof(control.space);
        struct cmsghdr *item = CMSG_FIRSTHDR(&head);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(item), &descriptor, sizeof(int));
    }
    do
        sent = sendmsg(channel, &head, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

static void tell(pid_t pid, int status)
{
    struct held *one = WIFSTOPPED(status) ? NULL : find_pid(pid);
    int32_t number = status;

    if (one != NULL) {
        one->ended = true;
        one->status = status;
    }
    bool told = send_message('X', pid, "", &number, sizeof(number), -1, MSG_DONTWAIT);
    if (one != NULL)
        one->told = told;
}

static void list(void)
{
    bool heard = true;

    for (int at = 0; heard && at < MOST; at++) {
        struct held *one = &table[at];

        if (one->used)
            heard = send_message('E', one->pid, one->key, one->record, one->length, one->descriptor, 0);
        if (heard && one->used && one->ended) {
            int32_t number = one->status;

            one->told = heard = send_message('X', one->pid, "", &number, sizeof(number), -1, 0);
        }
    }
    if (heard)
        send_message('Z', 0, "", "", 0, -1, 0);
}

/* Returns the one descriptor that came along, or -1; others are closed. */
static int taken(struct msghdr *head)
{
    int found = -1;

    for (struct cmsghdr *item = CMSG_FIRSTHDR(head); item != NULL; item = CMSG_NXTHDR(head, item)) {
        if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= item->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int descriptor;

            memcpy(&descriptor, CMSG_DATA(item) + at, sizeof(int));
            if (found < 0)
                found = descriptor;
            else
                close(descriptor);
        }
    }
    return found;
}

static void close_channel(void)
{
    if (channel >= 0)
        close(channel);
    channel = -1;
}

/* Takes one message.  Returns false if there is none. */
static bool receive(void)
{
    union {
        char space[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = message, .iov_len = sizeof(message)};
    struct msghdr head = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
    ssize_t length = recvmsg(channel, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    char key[LONGEST_KEY + 1] = "";
    int32_t pid;

    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (length < 0 && errno == ECONNRESET)
        return true;        /* reported once, before the messages of a supervisor that ended with some unread */
    if (length <= 0) {
        close_channel();
        return false;
    }
    int descriptor = taken(&head);
    size_t key_length = length >= HEAD ? (unsigned char)message[5] : LONGEST_KEY + 1;
    bool whole = !(head.msg_flags & MSG_TRUNC) && key_length <= LONGEST_KEY && (size_t)length >= HEAD + key_length;

    if (whole) {
        memcpy(&pid, message + 1, 4);
        memcpy(key, message + HEAD, key_length);
    }
    if (whole && message[0] == 'H') {
        hold(key, pid, message + HEAD + key_length, (size_t)length - HEAD - key_length, descriptor);
        return true;
    }
    if (descriptor >= 0)
        close(descriptor);
    struct held *one = whole && message[0] == 'D' ? find(key) : NULL;
    if (one != NULL)
        let_go(one);
    if (whole && message[0] == 'L')
        list();
    if (whole && message[0] == 'S')
        send_message('S', 0, "", "", 0, -1, 0);
    return true;
}

/* ---- the supervisor -------------------------------------------------------------------------- */

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Starts one and returns true, or false if there is no room for it.  `status` is how the one before ended, -1 for the
 * first one here; the environment may then have the status of one that the first process had started. */
static bool start(int status)
{
    struct timeval limit = {.tv_sec = SEND_SECONDS};
    int pair[2];
    char text[16];

    close_channel();
    supervisor = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    pid_t pid = fork();
    if (pid != 0)
        close(pair[1]);
    if (pid < 0)
        close(pair[0]);
    if (pid > 0) {
        supervisor = pid;
        channel = pair[0];
        setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    }
    if (pid != 0)
        return pid > 0;
    setsid();
    if (pair[1] == CHANNEL)
        fcntl(CHANNEL, F_SETFD, 0);
    else
        dup2(pair[1], CHANNEL);
    snprintf(text, sizeof(text), "%d", CHANNEL);
    setenv(CHANNEL_NAME, text, 1);
    snprintf(text, sizeof(text), "%d", status);
    if (status >= 0)
        setenv(ENDED, text, 1);
    reset_signals();
    execv(program[0], program);
    _exit(127);
}

/* As in init.c, which starts all of it again if this one gives up. */
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

/* Collects what has ended.  Returns true, with its status, if the supervisor was among it. */
static bool reap(int *how)
{
    bool found = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
        if (pid != supervisor) {
            tell(pid, status);
        } else if (WIFSTOPPED(status)) {
            kill(supervisor, SIGCONT);      /* `kill -STOP -1` is for programs */
        } else {
            *how = status;
            found = true;
        }
    return found;
}

static _Noreturn void serve(const sigset_t *while_waiting)
{
    const struct timespec moment = {.tv_nsec = RETRY_MILLISECONDS * 1000000L};
    time_t began = 0;
    int status = -1, tries = 0;
    bool passed_on = false;

    for (;;) {
        struct pollfd one = {.fd = -1, .events = POLLIN};

        if (supervisor == 0) {
            if (asked_to_end || tries++ > RETRIES)
                exit(EXIT_SETUP);
            if (start(status)) {
                began = seconds();
                tries = 0;
            }
        }
        one.fd = channel;
        /* Without a time limit, by which a capture knows that nothing will happen by itself (quiescence.py). */
        ppoll(&one, 1, supervisor == 0 ? &moment : NULL, while_waiting);
        while (channel >= 0 && receive())
            ;
        if (reap(&status)) {
            while (channel >= 0 && receive())
                ;
            if (asked_to_end || !worth_another(status, began))
                exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
            supervisor = 0;
        }
        if (asked_to_end && !passed_on && supervisor != 0) {
            passed_on = true;   /* once: a supervisor that ends heeds no signal any more */
            kill(supervisor, SIGTERM);
            kill(supervisor, SIGCONT);
        }
    }
}

/* Replaces the name and the command line, by which `pkill` and `pkill -f` choose. */
static void take_name(int argc, char **argv)
{
    char *end = argv[argc - 1] + strlen(argv[argc - 1]);

    program = calloc((size_t)argc, sizeof(*program));
    if (program == NULL)
        exit(EXIT_SETUP);
    for (int at = 1; at < argc; at++)
        program[at - 1] = strdup(argv[at]);
    memset(argv[0], 0, (size_t)(end - argv[0]));
    strcpy(argv[0], NAME);
    prctl(PR_SET_NAME, NAME, 0, 0, 0);
}

int main(int argc, char **argv)
{
    sigset_t while_waiting;

    if (argc < 2 || strlen(argv[0]) < strlen(NAME)) {
        fputs("usage: keeper PROGRAM [ARGUMENT...]\n", stderr);
        return EXIT_USAGE;
    }
    take_name(argc, argv);
    /* Root in the session, which has no CAP_SYS_PTRACE, does not trace it. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return EXIT_SETUP;
    set_signals(&while_waiting);
    serve(&while_waiting);
}

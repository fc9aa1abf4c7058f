/*
 * PID 1 of a session.  It closes the way to the cloud metadata service, gives up the capability that
 * this took, starts the supervisor (or waits for one that is restored from outside), and reaps.
 *
 *   init start      run the supervisor
 *   init await PID  idle until the process PID, put here by a restore, has come and gone
 *
 * It knows nothing of sessions, protocols or files.  Static, because nothing the user does to the
 * container's libraries may keep it from reaping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_SETUP = 70,        /* the container cannot be made safe: nothing was started */
    EXIT_USAGE = 64,
    GRACE_SECONDS = 5,      /* between SIGTERM to the supervisor and SIGKILL to all */
    /* When PIDs wrap, Linux begins again at 300 (RESERVED_PIDS).  A supervisor above it leaves the
     * lower ones free for the tools that restore this tree, PIDs included, into another container. */
    FIRST_PID = 300,
    /* Engines give a million and more; programs that close or poll every possible file then take seconds.
     * Elasticsearch, the most demanding of the usual servers, asks for 65535. */
    OPEN_FILES = 65536,
};

static char *const SUPERVISOR[] = {"/usr/bin/python3", "-I", "/opt/holdfast/guest", NULL};

static void fail(const char *what)
{
    fprintf(stderr, "init: cannot %s: %s\n", what, strerror(errno));
    exit(EXIT_SETUP);
}

/* ---- the metadata route ------------------------------------------------------------------- */

struct route_request {
    struct nlmsghdr header;
    struct rtmsg route;
    struct rtattr destination;
    unsigned char address[16];
};

/* Adds an unreachable route.  Returns 0 or an errno value. */
static int add_unreachable(int family, const unsigned char *address, unsigned char bytes, unsigned char prefix)
{
    struct route_request request = {
        .header = {
            .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) + RTA_LENGTH(bytes),
            .nlmsg_type = RTM_NEWROUTE,
            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
            .nlmsg_seq = 1,
        },
        .route = {
            .rtm_family = (unsigned char)family,
            .rtm_dst_len = prefix,
            .rtm_table = RT_TABLE_MAIN,
            .rtm_protocol = RTPROT_BOOT,
            .rtm_scope = RT_SCOPE_UNIVERSE,
            .rtm_type = RTN_UNREACHABLE,
        },
        .destination = {.rta_len = RTA_LENGTH(bytes), .rta_type = RTA_DST},
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    ssize_t size;
    int netlink;

    memcpy(request.address, address, bytes);
    netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0)
        return errno;
    if (send(netlink, &request, request.header.nlmsg_len, 0) < 0
        || (size = recv(netlink, &answer, sizeof answer, 0)) < 0) {
        int error = errno;
        close(netlink);
        return error;
    }
    close(netlink);
    if (size < (ssize_t)(sizeof answer.header + sizeof answer.error) || answer.header.nlmsg_type != NLMSG_ERROR)
        return EPROTO;
    return -answer.error.error;
}

static void close_metadata_services(void)
{
    static const unsigned char link_local[4] = {169, 254, 0, 0};
    static const unsigned char unique_local[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};
    int error = add_unreachable(AF_INET, link_local, 4, 16);

    /* EEXIST: a second start in the same namespace. */
    if (error != 0 && error != EEXIST) {
        errno = error;
        fail("make the metadata address unreachable");
    }
    error = add_unreachable(AF_INET6, unique_local, 16, 128);
    switch (error) {
    case 0: case EEXIST:
    case EAFNOSUPPORT: case EOPNOTSUPP: case EACCES: case ENODEV:  /* no IPv6 here, so no way there */
        return;
    default:
        errno = error;
        fail("make the IPv6 metadata address unreachable");
    }
}

/* ---- capabilities ------------------------------------------------------------------------- */

/* Removes CAP_NET_ADMIN for good: a bounding set without it is inherited by everything started here. */
static void drop_net_admin(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    const unsigned int word = CAP_TO_INDEX(CAP_NET_ADMIN);
    const unsigned int bit = CAP_TO_MASK(CAP_NET_ADMIN);

    if (prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN, 0, 0, 0) < 0)
        fail("drop CAP_NET_ADMIN from the bounding set");
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_NET_ADMIN, 0, 0);  /* absent from kernels before 4.3 */
    if (syscall(SYS_capget, &header, data) < 0)
        fail("read its capabilities");
    data[word].effective &= ~bit;
    data[word].permitted &= ~bit;
    data[word].inheritable &= ~bit;
    if (syscall(SYS_capset, &header, data) < 0)
        fail("drop CAP_NET_ADMIN");
    if (prctl(PR_CAPBSET_READ, CAP_NET_ADMIN, 0, 0, 0) != 0 || syscall(SYS_capget, &header, data) < 0
        || (data[word].permitted & bit)) {
        errno = EPERM;
        fail("drop CAP_NET_ADMIN");
    }
}

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
    /* The container's own streams belong to the engine; a process that held them could not be dumped. */
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    reset_signals();
    execv(SUPERVISOR[0], SUPERVISOR);
    if (errors >= 0)
        dprintf(errors, "init: cannot run %s: %s\n", SUPERVISOR[0], strerror(errno));
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

/* Reaps whatever has ended.  Exits, and with it ends the container, when that was the main process. */
static void reap(pid_t main_pid)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == main_pid)
            exit(exit_code(status));
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static _Noreturn void serve(pid_t main_pid, const sigset_t *signals)
{
    time_t deadline = 0;    /* 0: not asked to end */
    bool killed = false;

    for (;;) {
        struct timespec second = {.tv_sec = 1};
        int signal = deadline ? sigtimedwait(signals, NULL, &second) : sigwaitinfo(signals, NULL);

        /* After any signal, not only SIGCHLD: a restored process becomes our child without one. */
        reap(main_pid);
        if ((signal == SIGTERM || signal == SIGINT) && !deadline) {
            if (!is_child(main_pid))
                exit(0);    /* awaited, never came */
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
    sigset_t signals;
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

    /* Nobody in the session may trace this process or write to its memory: root there lacks CAP_SYS_PTRACE. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        fail("close itself to tracers");

    /* Blocked, not handled: PID 1 loses signals that it neither handles nor blocks. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    close_metadata_services();
    drop_net_admin();
    limit_open_files();
    if (main_pid == 0) {
        burn_pids();
        main_pid = start_supervisor();
    }
    serve(main_pid, &signals);
}

/* Timers and signals: POSIX timers, itimers, timerfd, alarm, clocks, masks, queued values, an alternate stack. */
#include "probe.h"
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

static volatile sig_atomic_t posix_ticks, itimer_ticks, usr2_value, on_other_stack;
static int timer_fd;
static int64_t last_monotonic, last_boot, last_real;
static char other_stack[65536];
static sigset_t held;
static int queued;
static timer_t far_timer;

static void on_posix(int s, siginfo_t *info, void *c) { (void)s; (void)c; posix_ticks += info->si_value.sival_int; }
static void on_itimer(int s) { (void)s; itimer_ticks++; }
static void on_usr2(int s, siginfo_t *info, void *c) {
    char here;
    (void)s; (void)c;
    usr2_value = info->si_value.sival_int;
    on_other_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
}

static void setup(void) {
    struct sigaction action = {.sa_sigaction = on_posix, .sa_flags = SA_SIGINFO | SA_RESTART};
    MUST(!sigaction(SIGRTMIN, &action, NULL));
    action.sa_sigaction = on_usr2;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    MUST(!sigaction(SIGUSR2, &action, NULL));
    MUST(!sigaction(SIGRTMIN + 1, &action, NULL));
    struct sigaction simple = {.sa_handler = on_itimer, .sa_flags = SA_RESTART};
    MUST(!sigaction(SIGALRM, &simple, NULL));
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    MUST(!sigaltstack(&stack, NULL));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 1};
    timer_t timer;
    struct itimerspec every = {{0, 5000000}, {0, 5000000}}, far = {{0, 0}, {86400, 0}};
    MUST(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(!timer_settime(timer, 0, &every, NULL));
    MUST(!timer_create(CLOCK_REALTIME, &event, &far_timer));
    MUST(!timer_settime(far_timer, 0, &far, NULL));
    struct itimerval itimer = {{0, 7000}, {0, 7000}};
    MUST(!setitimer(ITIMER_REAL, &itimer, NULL));
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    MUST(timer_fd >= 0);
    MUST(!timerfd_settime(timer_fd, 0, &every, NULL));
    /* Queued and blocked all the time: it must be neither lost nor doubled. */
    sigemptyset(&held);
    sigaddset(&held, SIGRTMIN + 1);
    MUST(!sigprocmask(SIG_BLOCK, &held, NULL));
    last_monotonic = now_ns(CLOCK_MONOTONIC);
    last_boot = now_ns(CLOCK_BOOTTIME);
    last_real = now_ns(CLOCK_REALTIME);
}

static void step(void) {
    long tries = 0;
    int posix = posix_ticks, itimer = itimer_ticks, fd = 0;
    uint64_t expired;
    union sigval value = {.sival_int = (int)(rounds % 1000) + 1};
    if (queued) {
        siginfo_t info;
        struct timespec none = {0, 0};
        EXPECT(sigtimedwait(&held, &info, &none) == SIGRTMIN + 1);
        EXPECT(info.si_value.sival_int == queued);
        EXPECT(sigtimedwait(&held, &info, &none) == -1);
    }
    queued = value.sival_int;
    EXPECT(!sigqueue(getpid(), SIGRTMIN + 1, value));
    while ((posix_ticks == posix || itimer_ticks == itimer || !fd) && tries++ < 10000) {
        if (read(timer_fd, &expired, sizeof expired) == sizeof expired) fd = 1;
        rest_ms(1);
    }
    EXPECT(posix_ticks > posix);
    EXPECT(itimer_ticks > itimer);
    EXPECT(fd);
    EXPECT(!sigqueue(getpid(), SIGUSR2, value));
    EXPECT(usr2_value == value.sival_int);
    EXPECT(on_other_stack);
    int64_t monotonic = now_ns(CLOCK_MONOTONIC), boot = now_ns(CLOCK_BOOTTIME), real = now_ns(CLOCK_REALTIME);
    EXPECT(monotonic > last_monotonic);
    EXPECT(boot > last_boot);
    EXPECT(real > last_real);
    last_monotonic = monotonic; last_boot = boot; last_real = real;
    struct itimerspec left;
    EXPECT(!timer_gettime(far_timer, &left));
    EXPECT(left.it_value.tv_sec > 80000 && left.it_value.tv_sec <= 86400);
    pid_t child = fork();
    if (child == 0) _exit(17);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 17);
}

/* Signals, timers and clocks. */
#include "probe.h"
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>

enum { LONG = 100000 };

static double seconds(struct timespec time)
{
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return seconds(time);
}

/* A timer continues with its remaining time, and is not set again. */
static int continues(double left, double before)
{
	return left < before && left > before - 3600;
}

static volatile sig_atomic_t ticks;

static void tick(int number)
{
	(void)number;
	ticks++;
}

static void clock_goes_on(void)
{
	double before = now();
	struct timespec boot, boot_later;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	captured();
	clock_gettime(CLOCK_BOOTTIME, &boot_later);
	CHECK(now() >= before && now() < before + 3600);
	CHECK(boot_later.tv_sec >= boot.tv_sec && boot_later.tv_sec < boot.tv_sec + 3600);
}

static void posix_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	struct itimerspec often = {{0, 20000000}, {0, 20000000}}, once = {{7, 0}, {LONG, 0}}, left;
	timer_t fast, slow;
	double start;
	int before;

	signal(SIGUSR2, tick);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &fast) == 0 && timer_create(CLOCK_REALTIME, NULL, &slow) == 0);
	CHECK(timer_settime(fast, 0, &often, NULL) == 0 && timer_settime(slow, 0, &once, NULL) == 0);
	CHECK(timer_gettime(slow, &left) == 0);
	start = seconds(left.it_value);
	captured();
	CHECK(timer_gettime(slow, &left) == 0 && left.it_interval.tv_sec == 7);
	CHECK(continues(seconds(left.it_value), start));
	for (before = ticks; ticks < before + 3;)
		pause();
}

static void timer_descriptor(void)
{
	struct itimerspec often = {{0, 20000000}, {0, 20000000}}, once = {{7, 0}, {LONG, 0}}, left;
	int fast = timerfd_create(CLOCK_MONOTONIC, 0), slow = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK);
	double start;
	uint64_t count;

	CHECK(timerfd_settime(fast, 0, &often, NULL) == 0 && timerfd_settime(slow, 0, &once, NULL) == 0);
	CHECK(timerfd_gettime(slow, &left) == 0);
	start = seconds(left.it_value);
	captured();
	CHECK(timerfd_gettime(slow, &left) == 0 && left.it_interval.tv_sec == 7);
	CHECK(continues(seconds(left.it_value), start));
	CHECK(read(slow, &count, sizeof(count)) < 0 && errno == EAGAIN);
	CHECK(read(fast, &count, sizeof(count)) == sizeof(count) && count > 0);
}

static void interval_timer(void)
{
	struct itimerval real = {{5, 0}, {LONG, 0}}, virtual = {{0, 0}, {300, 0}}, left;
	double start;

	CHECK(setitimer(ITIMER_REAL, &real, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &virtual, NULL) == 0);
	CHECK(getitimer(ITIMER_REAL, &left) == 0);
	start = (double)left.it_value.tv_sec + (double)left.it_value.tv_usec / 1e6;
	captured();
	CHECK(getitimer(ITIMER_REAL, &left) == 0 && left.it_interval.tv_sec == 5);
	CHECK(continues((double)left.it_value.tv_sec + (double)left.it_value.tv_usec / 1e6, start));
	CHECK(getitimer(ITIMER_VIRTUAL, &left) == 0 && left.it_value.tv_sec > 200);
}

static void pending(void)
{
	union sigval value;
	struct timespec none = {0, 0};
	sigset_t block, found;
	siginfo_t info;
	int i;

	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	sigaddset(&block, SIGRTMIN + 1);
	CHECK(sigprocmask(SIG_BLOCK, &block, NULL) == 0);
	for (i = 0; i < 3; i++) {
		value.sival_int = 70 + i;
		CHECK(sigqueue(getpid(), SIGRTMIN + 1, value) == 0);
	}
	raise(SIGUSR2);
	captured();
	CHECK(sigpending(&found) == 0 && sigismember(&found, SIGUSR2) && sigismember(&found, SIGRTMIN + 1));
	sigdelset(&block, SIGUSR2);
	for (i = 0; i < 3; i++)
		CHECK(sigtimedwait(&block, &info, &none) > 0 && info.si_value.sival_int == 70 + i);
	CHECK(sigtimedwait(&block, &info, &none) < 0 && errno == EAGAIN);
	sigaddset(&block, SIGUSR2);
	CHECK(sigtimedwait(&block, &info, &none) == SIGUSR2 && info.si_pid == getpid());
}

static void signal_descriptor(void)
{
	struct signalfd_siginfo info;
	sigset_t block;
	int fd;

	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	CHECK(sigprocmask(SIG_BLOCK, &block, NULL) == 0);
	fd = signalfd(-1, &block, SFD_NONBLOCK);
	raise(SIGUSR2);
	captured();
	CHECK(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGUSR2);
	CHECK(info.ssi_pid == (uint32_t)getpid());
	raise(SIGUSR2);
	CHECK(read(fd, &info, sizeof(info)) == sizeof(info));
}

static char stack[65536];
static volatile sig_atomic_t on_stack;

static void note_stack(int number, siginfo_t *info, void *context)
{
	char here;

	(void)number, (void)context;
	on_stack = &here >= stack && &here < stack + sizeof(stack) && info->si_pid == getpid();
}

static void actions(void)
{
	struct sigaction action = {.sa_sigaction = note_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, found;
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};

	CHECK(sigaltstack(&other, NULL) == 0);
	sigaddset(&action.sa_mask, SIGTERM);
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	captured();
	CHECK(sigaction(SIGUSR2, NULL, &found) == 0 && (found.sa_flags & SA_ONSTACK) && sigismember(&found.sa_mask, SIGTERM));
	CHECK(sigaction(SIGPIPE, NULL, &found) == 0 && found.sa_handler == SIG_IGN);
	raise(SIGUSR2);
	CHECK(on_stack == 1);
}

/* A call that waits with a timeout may end early, as by a signal: CRIU allows this. It does not fail otherwise. */
static void sleeping(void)
{
	int report[2], status;
	pid_t child;

	CHECK(pipe(report) == 0);
	child = fork();
	if (child == 0) {
		struct timespec rest = {1, 0};
		struct pollfd none = {.fd = report[0], .events = POLLIN};
		int i, bad = 0;

		for (i = 0; i < 1000 && !bad; i++) {
			bad = nanosleep(&rest, NULL) != 0 && errno != EINTR;
			bad |= poll(&none, 1, 50) != 0 && errno != EINTR;
			bad |= write(report[1], ".", 0) != 0;
		}
		_exit(bad ? 1 : 0);
	}
	captured();
	sleep(1);
	CHECK(waitpid(child, &status, WNOHANG) == 0);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
}

const struct probe SIGNAL_PROBES[] = {
	{"clock", clock_goes_on}, {"posix-timer", posix_timer}, {"timerfd", timer_descriptor},
	{"itimer", interval_timer}, {"pending", pending}, {"signalfd", signal_descriptor}, {"actions", actions},
	{"sleeping", sleeping}, {NULL, NULL},
};

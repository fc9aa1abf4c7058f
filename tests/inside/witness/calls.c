/* Threads that are blocked in one system call each, again and again, for a short time. Reports how often each
 * returned, how often with EINTR, and how often too early: "NAME CALLS INTERRUPTED EARLY". A signal that
 * no one sent must not be noticed. Ends when it reads a q. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHORT_MS 60

static volatile int over;

struct call {
	const char *name;
	int (*make)(void);
	long calls, interrupted, early;
};

static const struct timespec span = { 0, SHORT_MS * 1000000L };

static int by_nanosleep(void) { return nanosleep(&span, NULL); }

static int by_clock_nanosleep(void)
{
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
	return errno ? -1 : 0;
}

static int by_deadline(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += span.tv_nsec;
	if (at.tv_nsec >= 1000000000L) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000L;
	}
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	return errno ? -1 : 0;
}

static int by_poll(void) { return poll(NULL, 0, SHORT_MS); }

static int by_ppoll(void) { return ppoll(NULL, 0, &span, NULL); }

static int by_select(void)
{
	struct timeval limit = { 0, SHORT_MS * 1000 };

	return select(0, NULL, NULL, NULL, &limit);
}

static int by_epoll(void)
{
	static int set = -1;
	struct epoll_event event;

	if (set < 0)
		set = epoll_create1(EPOLL_CLOEXEC);
	return epoll_wait(set, &event, 1, SHORT_MS);
}

static int by_futex(void)
{
	static int word;
	int result = (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &span, NULL, 0);

	return result < 0 && errno == ETIMEDOUT ? 0 : result;
}

static int by_condition(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += span.tv_nsec;
	if (at.tv_nsec >= 1000000000L) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&mutex);
	errno = pthread_cond_timedwait(&condition, &mutex, &at);
	pthread_mutex_unlock(&mutex);
	return errno == ETIMEDOUT ? 0 : -1;
}

static int by_timerfd(void)
{
	static int timer = -1;
	struct itimerspec once = { { 0, 0 }, { 0, SHORT_MS * 1000000L } };
	unsigned long long fired = 0;

	if (timer < 0)
		timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(timer, 0, &once, NULL);
	if (read(timer, &fired, sizeof(fired)) < 0)
		return -1;
	return fired == 1 ? 0 : -2;
}

static int by_receive(void)
{
	static int pair[2] = { -1, -1 };
	struct timeval limit = { 0, SHORT_MS * 1000 };
	char byte;
	int result;

	if (pair[0] < 0) {
		socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	}
	result = (int)recv(pair[0], &byte, 1, 0);
	return result < 0 && errno == EAGAIN ? 0 : result;
}

static int by_sigtimedwait(void)
{
	sigset_t none;
	int result;

	sigemptyset(&none);
	sigaddset(&none, SIGUSR2);
	result = sigtimedwait(&none, NULL, &span);
	return result < 0 && errno == EAGAIN ? 0 : result;
}

/* In a process of its own, as its first thread: the signal of a timer ends the call, or it never ends. */
static volatile int rang;

static void ring(int number)
{
	(void)number;
	rang = 1;
}

static void alarms(int report)
{
	struct itimerval once = { { 0, 0 }, { 0, SHORT_MS * 1000 } };
	sigset_t none;
	long count;

	signal(SIGALRM, ring);
	sigemptyset(&none);
	for (count = 1;; count++) {
		rang = 0;
		setitimer(ITIMER_REAL, &once, NULL);
		if (count % 2) {
			pause();
		} else {
			sigset_t alarm_only, before;

			sigemptyset(&alarm_only);
			sigaddset(&alarm_only, SIGALRM);
			sigprocmask(SIG_BLOCK, &alarm_only, &before);
			while (!rang)
				sigsuspend(&before);
			sigprocmask(SIG_SETMASK, &before, NULL);
		}
		if (!rang || write(report, rang ? "." : "!", 1) != 1)
			_exit(1);
	}
}

/* Also as a first thread: calls without a timeout, each ended by a byte or an event. */
static void endless(int from, int report)
{
	int set = epoll_create1(0);
	struct epoll_event event = { EPOLLIN, { 0 } };
	struct pollfd one = { from, POLLIN, 0 };
	char byte;
	long count;

	epoll_ctl(set, EPOLL_CTL_ADD, from, &event);
	for (count = 0;; count++) {
		int result = count % 2 ? epoll_wait(set, &event, 1, -1) : poll(&one, 1, -1);

		if (result != 1 || read(from, &byte, 1) != 1 || write(report, result == 1 ? "." : "!", 1) != 1)
			_exit(1);
	}
}

static struct call calls[] = {
	{ "nanosleep", by_nanosleep, 0, 0, 0 },	  { "clock_nanosleep", by_clock_nanosleep, 0, 0, 0 },
	{ "deadline", by_deadline, 0, 0, 0 },	  { "poll", by_poll, 0, 0, 0 },
	{ "ppoll", by_ppoll, 0, 0, 0 },		  { "select", by_select, 0, 0, 0 },
	{ "epoll_wait", by_epoll, 0, 0, 0 },	  { "futex", by_futex, 0, 0, 0 },
	{ "condition", by_condition, 0, 0, 0 },	  { "timerfd", by_timerfd, 0, 0, 0 },
	{ "recv", by_receive, 0, 0, 0 },	  { "sigtimedwait", by_sigtimedwait, 0, 0, 0 },
};

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1000 + (double)at.tv_nsec / 1e6;
}

static void *run(void *argument)
{
	struct call *call = argument;

	while (!over) {
		double began = now();
		int result = call->make();

		call->calls++;
		if (result == -1 && errno == EINTR)
			call->interrupted++;
		else if (result != 0 || now() - began < SHORT_MS - 1.5)
			call->early++;
	}
	return NULL;
}

static int counted(const char *name, pid_t child, int report)
{
	char told[4096];
	long dots = 0, each, size;
	int status;

	waitpid(child, &status, 0);
	while ((size = read(report, told, sizeof(told))) > 0)
		for (each = 0; each < size; each++)
			dots += told[each] == '.';
	printf("%s %ld %d 0\n", name, dots, WIFSIGNALED(status) ? 0 : 1);
	return 0;
}

int main(void)
{
	int alarmed[2], ended[2], gate[2];
	pid_t alarming, waiting;
	size_t count = sizeof(calls) / sizeof(*calls), each;
	pthread_t threads[sizeof(calls) / sizeof(*calls)];
	sigset_t blocked;
	char byte;

	if (pipe(alarmed) || pipe(ended) || pipe(gate))
		return 1;
	alarming = fork();
	if (alarming == 0)
		alarms(alarmed[1]);
	waiting = fork();
	if (waiting == 0)
		endless(gate[0], ended[1]);
	close(alarmed[1]);
	close(ended[1]);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	for (each = 0; each < count; each++)
		pthread_create(&threads[each], NULL, run, &calls[each]);
	/* A received byte is passed on; q ends all. */
	while (read(0, &byte, 1) > 0 && byte != 'q')
		if (write(gate[1], &byte, 1) != 1)
			return 1;
	usleep(300000);
	over = 1;
	kill(alarming, SIGKILL);
	kill(waiting, SIGKILL);
	counted("alarms", alarming, alarmed[0]);
	counted("endless", waiting, ended[0]);
	for (each = 0; each < count; each++) {
		pthread_join(threads[each], NULL);
		printf("%s %ld %ld %ld\n", calls[each].name, calls[each].calls, calls[each].interrupted, calls[each].early);
	}
	return 0;
}

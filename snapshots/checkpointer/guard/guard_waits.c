/* When the process that serves memory on demand waits, and for what.
 *
 * It is in the control groups of the session it serves. Pausing that interrupts it: epoll_wait(2) then fails with
 * EINTR (signal(7)), CRIU takes that for an end, and the session has lost the rest of its memory. So it waits again.
 *
 * As soon as everything is restored, CRIU asks for requests without waiting, and whenever there is none it loads a
 * piece of what is missing. With HOLDFAST_LOAD it waits instead, and memory is loaded when it is touched, until
 *
 *   - the FIFO that HOLDFAST_LOAD is a descriptor of can be read: a capture needs all of it;
 *   - much is touched at once, so that loading the rest is cheaper;
 *   - processes with missing memory have made many children, each of which adds to what is kept here;
 *   - as many milliseconds as HOLDFAST_LOAD_AFTER says have passed, if it is there: what runs first has the processors
 *     until then.
 *
 * While an event waits to be read (a fork, memory given back), the kernel takes no page (EAGAIN, ioctl_userfaultfd(2)),
 * and it reports what is touched before events. CRIU then puts the page back into its list, and has forgotten that a thread
 * waits for it: it would bring the page a moment later anyway. Here nothing would bring it. So these threads are woken
 * when no event is left; they touch the memory again, and that is reported again.
 *
 * HOLDFAST_WAITING has the pids of those processes, as numbered in the images. All others have their memory already:
 * their descriptors are replaced, whereupon the kernel forgets that it was to ask (userfaultfd(2)). Otherwise each
 * child that a shell makes would be announced, and kept until the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"

enum { TOUCHES = 2048, PAUSE_MS = 50, CHILDREN = 64 };
/* How long a process may take to return from the call whose event was read; only then are pages taken again. */
enum { RETURN_MS = 1 };
/* What CRIU's restore sends instead of a pid when all is restored; LAZY_PAGES_RESTORE_FINISHED. */
enum { FINISHED = 0x52535446 };

static int load = -1;
static const char *waiting = "";
static int restored;
static int announced;
static int *whole;
static size_t wholes;
static int children, touches;
static long long touched_at;
static long long load_after = -1, load_at;
static struct refused {
	int memory;
	struct uffdio_range range;
} *unanswered;
static size_t refusals, refusals_room;

void read_load(const char *descriptor, const char *pids, const char *after)
{
	load = descriptor ? atoi(descriptor) : -1;
	waiting = pids ? pids : "";
	load_after = after ? atoi(after) : -1;
}

static long long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* How long to wait for what is touched, as poll(2) takes it. */
static int patience(void)
{
	long long left = load_at - milliseconds();

	if (load_after < 0)
		return -1;
	return left < 0 ? 0 : (int)left;
}

static int is_waiting(int pid)
{
	const char *at = waiting;
	char *end;

	for (;;) {
		long one = strtol(at, &end, 10);

		if (end == at)
			return 0;
		if (one == pid)
			return 1;
		at = end;
	}
}

static int events_of(int epoll, struct epoll_event *events, int most, int timeout)
{
	int found;

	do
		found = (int)syscall(SYS_epoll_pwait, epoll, events, most, timeout, NULL, 0);
	while (found < 0 && errno == EINTR && timeout <= 0);
	return found;
}

void not_answered(int memory, unsigned long long start, unsigned long long length)
{
	int before = errno;

	if (refusals == refusals_room) {
		refusals_room = 2 * refusals_room + 64;
		unanswered = realloc(unanswered, refusals_room * sizeof(*unanswered));
		if (!unanswered)
			die("note memory that a thread waits for");
	}
	unanswered[refusals++] = (struct refused){memory, {start, length}};
	errno = before;
}

/* Let threads touch again what they were not given. A descriptor may be that of other memory by now, or of none: to
 * wake a thread that nothing waits for does no harm.
 */
static void wake_unanswered(void)
{
	while (refusals > 0) {
		struct refused *one = &unanswered[--refusals];

		syscall(SYS_ioctl, one->memory, UFFDIO_WAKE, &one->range);
	}
}

/* As epoll_wait(2), but never while a thread waits for memory that nothing brings. */
static int events_or_wake(int epoll, struct epoll_event *events, int most, int timeout)
{
	if (refusals > 0) {
		int found = events_of(epoll, events, most, timeout == 0 ? 0 : RETURN_MS);

		if (found != 0)
			return found;
		wake_unanswered();
	}
	return events_of(epoll, events, most, timeout);
}

static void replace_whole(void)
{
	int none = eventfd(0, EFD_CLOEXEC);

	if (none < 0)
		die("make a descriptor for processes that have their memory");
	for (size_t number = 0; number < wholes; number++)
		if (dup3(none, whole[number], O_CLOEXEC) < 0)
			die("let go of a process that has its memory");
	close(none);
	wholes = 0;
}

/* Whether to wait no more: CRIU loads everything from now on. */
static int enough(int found)
{
	long long at = milliseconds();

	touches = at - touched_at > PAUSE_MS ? found : touches + found;
	touched_at = at;
	return touches > TOUCHES || children > CHILDREN;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	int found = hidden_events(events, most);

	if (found > 0)
		return found;
	if (timeout != 0 || load < 0)
		return events_or_wake(epoll, events, most, timeout);
	if (!restored) {
		restored = 1;
		load_at = milliseconds() + load_after;
		replace_whole();
	}
	found = events_of(epoll, events, most, 0);
	while (found == 0) {
		struct pollfd wanted[] = {{epoll, POLLIN, 0}, {load, POLLIN, 0}};
		int ready = poll(wanted, 2, refusals > 0 ? RETURN_MS : patience());

		if (ready < 0 && errno != EINTR)
			die("wait for what is touched");
		if (ready == 0 && refusals > 0) {
			wake_unanswered();
			continue;
		}
		if (ready == 0 || wanted[1].revents) {
			load = -1;
			return 0;
		}
		found = events_of(epoll, events, most, 0);
	}
	if (found > 0 && enough(found))
		load = -1;
	return found;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	if (operation == EPOLL_CTL_ADD)
		memory_watched(fd, event->data);
	if (operation == EPOLL_CTL_DEL)
		memory_forgotten(fd);
	if (operation == EPOLL_CTL_ADD && announced)
		memory_announced(fd, announced);
	if (operation == EPOLL_CTL_ADD && load >= 0 && restored)
		children++;
	if (operation == EPOLL_CTL_ADD && load >= 0 && announced && !restored && !is_waiting(announced)) {
		whole = realloc(whole, (wholes + 1) * sizeof(*whole));
		if (!whole)
			die("note a process that has its memory");
		whole[wholes++] = fd;
	}
	announced = 0;
	return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

void number_received(const void *buffer, size_t size)
{
	int number;

	if (size != sizeof(number))
		return;
	memcpy(&number, buffer, sizeof(number));
	announced = number == FINISHED || number < 0 ? 0 : number;
}

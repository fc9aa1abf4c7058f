/* Lets CRIU's wait for requests continue after an interruption.
 *
 * The process that serves memory on demand is in the control groups of the session it serves. Pausing that
 * interrupts it: epoll_wait(2) then fails with EINTR (signal(7)), CRIU takes that for an end, and the session has
 * lost the rest of its memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	int found;

	do
		found = (int)syscall(SYS_epoll_pwait, epoll, events, most, timeout, NULL, 0);
	while (found < 0 && errno == EINTR && timeout < 0);
	return found;
}

/* Connections that CRIU reads: when, and in which mode they are left. How much it reads: guard_lengths.c.
 *
 * The kernel continues to serve connections while all programs are frozen. Before the first one is read, the
 * checkpointer holds back what moves within the session (held_packets.py).
 *
 * Connections of a session that runs on are in repair mode (TCP_REPAIR, tcp(7)) only while CRIU reads them. CRIU
 * leaves them in it to its end, for sockets of tasks that it ends: those are closed without a packet then. Were it
 * killed before, they would stay in it, and reading and writing fail with EPERM. So each is taken out as
 * soon as it has been read, without a packet. If the tasks are to end, they are put back when all else is done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

enum { REPAIR_ON = 1, REPAIR_OFF_SILENTLY = -1 };

static int *read_ones;
static int read_count;
static int being_read = -1;
static int queue_read;

static int are_held(void)
{
	static int held;

	if (!held && is_capture())
		held = ask("connections") == 'y';
	return held || !is_capture();
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	int number = size == sizeof(int) ? *(const int *)value : 0, result;

	if (level == IPPROTO_TCP && name == TCP_REPAIR && number == REPAIR_ON && !are_held()) {
		errno = ECANCELED;
		return -1;
	}
	result = (int)syscall(SYS_setsockopt, fd, level, name, value, size);
	if (result == 0 && level == IPPROTO_TCP && name == TCP_REPAIR)
		being_read = number == REPAIR_ON ? fd : -1;
	if (result == 0 && level == IPPROTO_TCP && name == TCP_REPAIR_QUEUE)
		queue_read = number;
	return result;
}

static int is_in_repair(int fd)
{
	int mode = 0;
	socklen_t size = sizeof(mode);

	return getsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &mode, &size) == 0 && mode == REPAIR_ON;
}

/* It closes sockets that it only tried the mode with, and what has their number next is read as it is. */
int queue_being_read(int fd)
{
	return fd == being_read && is_capture() && is_in_repair(fd) ? queue_read : TCP_NO_QUEUE;
}

static int set_repair(int fd, int mode)
{
	return (int)syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_REPAIR, &mode, sizeof(mode));
}

static int has_unsent_in_repair(int fd)
{
	int unsent = 0;

	return is_in_repair(fd) && ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && unsent > 0;
}

int shutdown(int fd, int how)
{
	int sends = has_unsent_in_repair(fd), result;

	if (sends)
		set_repair(fd, REPAIR_OFF_SILENTLY);
	result = (int)syscall(SYS_shutdown, fd, how);
	if (sends)
		set_repair(fd, REPAIR_ON);
	return result;
}

/* CRIU opens the image of a connection when it has read all that is to be written there. It keeps the descriptor. */
void connection_was_read(void)
{
	int *more;

	if (being_read < 0)
		return;
	/* One that cannot be remembered stays as it is. */
	more = realloc(read_ones, (size_t)(read_count + 1) * sizeof(int));
	if (more == NULL)
		return;
	read_ones = more;
	if (set_repair(being_read, REPAIR_OFF_SILENTLY) == 0)
		read_ones[read_count++] = being_read;
	being_read = -1;
}

void repair_again(void)
{
	int i;

	for (i = 0; i < read_count; i++)
		set_repair(read_ones[i], REPAIR_ON);
}

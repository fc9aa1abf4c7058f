/* Connections that CRIU reads: when, how much of them, and in which mode they are left.
 *
 * The kernel goes on with connections while all programs stand still. Before the first one is read, the
 * checkpointer holds back what moves within the session (held_packets.py). Connections to outside go on meanwhile:
 * bytes come, and are acknowledged, between CRIU's look at the length of a queue and its reading. It would give up;
 * no copy gets them (sockets.py), so what it reads of their queues only has to be as long as it expects.
 *
 * Connections of a session that runs on are in repair mode (TCP_REPAIR, tcp(7)) only while CRIU reads them. CRIU
 * leaves them in it to its end, for sockets of tasks that it ends: those are closed without a packet then. Were it
 * killed before, nobody would take them out of it, and reading and writing fail with EPERM. So each is taken out as
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
enum { QUEUE_OF_SENT = 2 }; /* TCP_SEND_QUEUE of linux/tcp.h */

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

static int is_loopback(const struct sockaddr_in6 *address)
{
	const unsigned char *bytes = address->sin6_addr.s6_addr;

	if (address->sin6_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&address->sin6_addr) && bytes[12] == IN_LOOPBACKNET);
}

static int is_same(const struct sockaddr_in6 *one, const struct sockaddr_in6 *other)
{
	if (one->sin6_family == AF_INET)
		return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)other)->sin_addr.s_addr;
	return memcmp(&one->sin6_addr, &other->sin6_addr, sizeof(one->sin6_addr)) == 0;
}

static int leads_outside(int fd)
{
	struct sockaddr_in6 here = {0}, there = {0};
	socklen_t size = sizeof(here), other = sizeof(there);

	return getsockname(fd, (struct sockaddr *)&here, &size) == 0 &&
	       getpeername(fd, (struct sockaddr *)&there, &other) == 0 && !is_loopback(&here) &&
	       !is_loopback(&there) && !is_same(&here, &there);
}

static ssize_t peek(int fd, void *buffer, size_t size, int flags)
{
	return syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
}

/* The last `wanted` of all `there` bytes that are kept to be sent again. The first ones may be acknowledged: the
 * kernel keeps a segment until it is acknowledged as a whole (tcp_clean_rtx_queue of Linux). */
static ssize_t end_of_sent(int fd, char *buffer, size_t wanted, size_t there, int flags)
{
	char *all = malloc(there);
	ssize_t got = -1;

	if (all == NULL)
		return -1;
	if (peek(fd, all, there, flags) == (ssize_t)there) {
		memcpy(buffer, all + there - wanted, wanted);
		got = (ssize_t)wanted;
	}
	free(all);
	return got;
}

static int is_in_repair(int fd)
{
	int mode = 0;
	socklen_t size = sizeof(mode);

	return getsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &mode, &size) == 0 && mode == REPAIR_ON;
}

/* CRIU asks for one byte more than it expects. It closes sockets that it only tried the mode with, and what has their
 * number next is read as it is. */
ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	ssize_t got = peek(fd, buffer, size, flags), wanted = (ssize_t)size - 1;

	if (fd != being_read || !is_capture() || got < 0 || got == wanted || !is_in_repair(fd))
		return got;
	if (queue_read == QUEUE_OF_SENT && got > wanted)
		return end_of_sent(fd, buffer, (size_t)wanted, (size_t)got, flags);
	if (!leads_outside(fd))
		return got;
	if (got < wanted)
		memset((char *)buffer + got, 0, (size_t)(wanted - got));
	return wanted;
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

/* How much CRIU reads of a connection's queues: as much as it expects.
 *
 * Connections to outside continue while it reads: bytes come, and are acknowledged, between its look at the length of a
 * queue and its reading. It would give up; no copy gets them (sockets.py), so what it reads of their queues only has
 * to be as long as it expects.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

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

/* CRIU asks for one byte more than it expects. */
ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	ssize_t got = peek(fd, buffer, size, flags), wanted = (ssize_t)size - 1;
	int queue = got < 0 || got == wanted ? TCP_NO_QUEUE : queue_being_read(fd);

	if (got == (ssize_t)size)
		number_received(buffer, size);
	if (queue == TCP_NO_QUEUE)
		return got;
	if (queue == TCP_SEND_QUEUE && got > wanted)
		return end_of_sent(fd, buffer, (size_t)wanted, (size_t)got, flags);
	if (!leads_outside(fd))
		return got;
	if (got < wanted)
		memset((char *)buffer + got, 0, (size_t)(wanted - got));
	return wanted;
}

/* Event counters that count down one by one (EFD_SEMAPHORE, eventfd(2)).
 *
 * CRIU does not know this kind: in a copy a semaphore would let all through at once. The kernel tells the kind in
 * fdinfo (Linux 6.5). Where CRIU reads the count there, that of a semaphore is shown with one bit more; where it
 * makes a counter with that bit, the bit is taken off and a semaphore is made.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

/* CRIU makes a counter with the lower 32 bits of what it was at; a count this high is never reached one by one. */
static const unsigned SEMAPHORE = 1u << 31;

int marked_counter(int info)
{
	static const char COUNT[] = "eventfd-count:", KIND[] = "eventfd-semaphore:";
	char text[1024], *count, *kind, *rest;
	unsigned long long value;
	ssize_t size = pread(info, text, sizeof(text) - 1, 0);
	int length, shown, semaphore;

	if (size <= 0)
		return info;
	text[size] = '\0';
	count = strstr(text, COUNT);
	kind = strstr(text, KIND);
	if (count == NULL || kind == NULL || sscanf(kind + sizeof(KIND) - 1, "%d", &semaphore) != 1 || semaphore != 1 ||
	    sscanf(count + sizeof(COUNT) - 1, "%llx%n", &value, &length) != 1 || value >= SEMAPHORE)
		return info;
	shown = memfd_create("fdinfo", MFD_CLOEXEC);
	if (shown < 0)
		return info;
	rest = count + sizeof(COUNT) - 1 + length;
	*count = '\0';
	dprintf(shown, "%s%s %16llx%s", text, COUNT, value | SEMAPHORE, rest);
	lseek(shown, 0, SEEK_SET);
	close(info);
	return shown;
}

int eventfd(unsigned count, int flags)
{
	if (count & SEMAPHORE) {
		count &= ~SEMAPHORE;
		flags |= EFD_SEMAPHORE;
	}
	return (int)syscall(SYS_eventfd2, count, flags);
}

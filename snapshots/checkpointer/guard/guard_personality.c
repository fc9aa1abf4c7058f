/* Gives processes that are restored the personality that they had (personality(2)), which CRIU does not know.
 *
 * No process can set that of another one. Each has it from the one that forked it, and threads from theirs: so it
 * is set, or set back, in each process that CRIU makes, when it first opens something, before it makes others.
 *
 * HOLDFAST_PERSONALITIES names an open file with "PID:HEXADECIMAL " of those that had one, in pids of the session.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "guard.h"

/* As many processes as are judged, of at most 20 characters. */
enum { MOST = 1 << 20 };

/* Begins and ends with a blank; NULL: no process had one. */
static char *kept;

void read_personalities(const char *spec)
{
	ssize_t size;

	if (spec == NULL)
		return;
	kept = malloc(MOST);
	size = kept == NULL ? -1 : pread(atoi(spec), kept, MOST - 1, 0);
	if (size < 0)
		die("read the personalities of processes");
	kept[size] = '\0';
}

void take_personality(void)
{
	static pid_t done;
	char wanted[32], *found;
	unsigned long one = 0;

	if (kept == NULL || done == getpid())
		return;
	done = getpid();
	snprintf(wanted, sizeof(wanted), " %d:", done);
	found = strstr(kept, wanted);
	if (found != NULL)
		one = strtoul(found + strlen(wanted), NULL, 16);
	if (personality(one) < 0)
		die("set the personality of a process");
}

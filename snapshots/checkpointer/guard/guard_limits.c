/* Reads limits of processes that CRIU may not ask for.
 *
 * prlimit(2) on a process of another uid, or of one that has changed its own (su, sudo), needs
 * CAP_SYS_RESOURCE, which not every machine can give to a container. Every process may read the same numbers
 * in /proc/PID/limits, where the lines are in the order of the resources' numbers.
 *
 * What CRIU asks by syscall(2) for other parts also comes through here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

/* Width of the first column, the names: fs/proc/base.c, proc_pid_limits. */
enum { NAME = 26 };

static rlim_t number(const char *word)
{
	return strcmp(word, "unlimited") == 0 ? RLIM_INFINITY : strtoull(word, NULL, 10);
}

static int read_limit(long pid, long resource, struct rlimit *limit)
{
	char path[64], line[256], soft[32], hard[32];
	long row = -1; /* the first line names the columns */
	int found = -1;
	FILE *limits;

	snprintf(path, sizeof(path), "/proc/%ld/limits", pid);
	limits = fopen(path, "re");
	if (limits == NULL)
		return -1;
	for (; found < 0 && fgets(line, sizeof(line), limits) != NULL; row++) {
		if (row != resource || strlen(line) <= NAME || sscanf(line + NAME, "%31s %31s", soft, hard) != 2)
			continue;
		limit->rlim_cur = number(soft);
		limit->rlim_max = number(hard);
		found = 0;
	}
	fclose(limits);
	return found;
}

long syscall(long number, ...)
{
	static long (*libc_syscall)(long, ...);
	long a, b, c, d, e, f, result;
	va_list args;

	va_start(args, number);
	a = va_arg(args, long);
	b = va_arg(args, long);
	c = va_arg(args, long);
	d = va_arg(args, long);
	e = va_arg(args, long);
	f = va_arg(args, long);
	va_end(args);
	if (number == SYS_open_by_handle_at)
		return open_handle((int)a, (void *)b, (int)c);
	if (libc_syscall == NULL)
		*(void **)&libc_syscall = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_clone3 && makes_adopted((const void *)a, (size_t)b, &result))
		return result;
	result = libc_syscall(number, a, b, c, d, e, f);
	/* The arguments of prlimit64: pid, resource, what to set, where to put what was set. */
	if (number != SYS_prlimit64 || result != -1 || errno != EPERM || a <= 0 || c != 0 || d == 0)
		return result;
	if (read_limit(a, b, (struct rlimit *)d) == 0)
		return 0;
	errno = EPERM;
	return -1;
}

int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *change, struct rlimit64 *before)
{
	return (int)syscall(SYS_prlimit64, pid, resource, change, before);
}

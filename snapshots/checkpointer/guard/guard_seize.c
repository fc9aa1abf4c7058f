/* Stops a session for a capture without a moment in which any of it runs.
 *
 * CRIU finds the tasks of a tree one by one, and seizes each as it finds it (ptrace(2)). What is not in the tree,
 * or not found yet, runs meanwhile, and may signal, rename or trace. So the whole container is frozen by its
 * control group, by the checkpointer, before CRIU enters it; here all of its threads are seized at once while they
 * are frozen, and only then thawed: each stops for its tracer before it runs an instruction of its own. What CRIU
 * seizes later it has then already. The container's first process, which is in no tree, is held until CRIU ends, or
 * until it ends the others.
 *
 * HOLDFAST_FREEZER="THREADS SWITCH WORD": two open descriptors, of the list of the container's threads and of the
 * file that thaws it when WORD is written; see freezer.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

enum { PID_MAX = 1 << 22 };	/* the kernel's PID_MAX_LIMIT */
enum { FIRST_PROCESS = 1 };

static int threads_fd = -1, switch_fd = -1;
static char thaw_word[16];
/* Of each thread: which calls of CRIU's are still to be answered without asking the kernel again. */
static unsigned char to_skip[PID_MAX];
/* The C library's ptrace(2), once the first process is held by it. */
static ptrace_call *held;
enum { SKIP_SEIZE = 1, SKIP_INTERRUPT = 2 };

void read_freezer(const char *spec)
{
	if (spec == NULL)
		return;
	if (sscanf(spec, "%d %d %15s", &threads_fd, &switch_fd, thaw_word) != 3) {
		errno = EINVAL;
		die("read HOLDFAST_FREEZER");
	}
}

int freezes(void)
{
	return threads_fd >= 0;
}

/* Has a thread ended? It cannot be seized then, and will not run. */
static int has_ended(pid_t thread)
{
	char path[64], line[512], *state;
	size_t length;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", thread);
	stat = fopen(path, "re");
	if (stat == NULL)
		return 1;
	length = fread(line, 1, sizeof(line) - 1, stat);
	fclose(stat);
	line[length] = '\0';
	state = strrchr(line, ')');
	return state == NULL || state[1] != ' ' || strchr("ZXx", state[2]) != NULL;
}

/* Does it take until the thaw to seize a frozen thread? Only on cgroup v1, if a signal had stopped it before. The
 * kernel calls both uninterruptible there (proc(5)), but tells in which function of its own a thread sleeps. On v2
 * frozen threads wait where they look for signals, as stopped ones do, and answer a tracer at once. */
static int seized_after_thaw(pid_t thread)
{
	char path[64], function[64] = "";
	FILE *wchan;

	if (strcmp(thaw_word, "0") == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/wchan", thread);
	wchan = fopen(path, "re");
	if (wchan == NULL)
		return 0;
	if (fgets(function, sizeof(function), wchan) == NULL)
		function[0] = '\0';
	fclose(wchan);
	/* A compiler may add to the name: do_signal_stop.part.0 */
	return strncmp(function, "do_signal_stop", strlen("do_signal_stop")) == 0 ||
	       strncmp(function, "get_signal", strlen("get_signal")) == 0;
}

static void seize(ptrace_call *libc, pid_t thread)
{
	if (thread <= 0 || thread >= PID_MAX)
		die("seize a process that cannot be seen");
	if (libc(PTRACE_SEIZE, thread, NULL, NULL) < 0) {
		if (!has_ended(thread))
			die("seize a process that another one traces");
		return;
	}
	if (libc(PTRACE_INTERRUPT, thread, NULL, NULL) < 0 && !has_ended(thread))
		die("interrupt a process");
	to_skip[thread] = SKIP_SEIZE | SKIP_INTERRUPT;
}

static void seize_all(ptrace_call *libc)
{
	FILE *list = fdopen(threads_fd, "re");
	int thread, status, *later = NULL;
	size_t count = 0, each;

	if (list == NULL)
		die("list the container's threads");
	while (fscanf(list, "%d", &thread) == 1) {
		if (!seized_after_thaw(thread)) {
			seize(libc, thread);
			continue;
		}
		if (count % 64 == 0 && (later = realloc(later, (count + 64) * sizeof(*later))) == NULL)
			die("list threads to be seized after the thaw");
		later[count++] = thread;
	}
	fclose(list);
	threads_fd = -1;
	if (write(switch_fd, thaw_word, strlen(thaw_word)) < 0)
		die("thaw the container");
	close(switch_fd);
	/* To seize one of these while it is frozen would take until it is thawed. Of all others none runs that could
	 * continue them; a timer of one could, in the moment that this takes. What it did then, CRIU finds or is
	 * found to be outside of the tree: the capture fails. */
	for (each = 0; each < count; each++)
		seize(libc, later[each]);
	free(later);
	/* CRIU does not know of it, and would take its stop for that of a task of its own. */
	while (waitpid(FIRST_PROCESS, &status, __WALL) < 0 && errno == EINTR)
		;
	to_skip[FIRST_PROCESS] = 0;
	held = libc;
}

void release_first_process(void)
{
	if (held != NULL)
		held(PTRACE_DETACH, FIRST_PROCESS, NULL, NULL);
}

int was_seized(ptrace_call *libc, enum __ptrace_request request, pid_t thread)
{
	int bit = request == PTRACE_SEIZE ? SKIP_SEIZE : request == PTRACE_INTERRUPT ? SKIP_INTERRUPT : 0;

	if (bit == 0 || thread <= 0 || thread >= PID_MAX)
		return 0;
	if (freezes())
		seize_all(libc);
	if (!(to_skip[thread] & bit))
		return 0;
	to_skip[thread] &= (unsigned char)~bit;
	return 1;
}

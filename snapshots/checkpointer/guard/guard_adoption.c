/* Processes that were adopted out of their session: their parent is not of it, and did not fork them.
 *
 * CRIU makes only children of the one that forks them. It is given another tree (ancestry.py), and here
 *
 *   what forks such a process  gives it to its own parent (CLONE_PARENT, clone(2));
 *   a session without leader   is begun by a process that has the leader's number, forks the first member, and
 *                              ends. In it CRIU, which knows nothing of that session, is given its parent's.
 *
 * HOLDFAST_ADOPTED="PID:LEADER:SESSION:GROUP ..." (LEADER 0: no session is begun for it).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

enum { MOST = 256 };

static struct birth {
	pid_t pid, leader, session, group;
} births[MOST];
static int birth_count;

/* Of the session that this process was born into, if CRIU does not know it. */
static const struct birth *within;

void read_births(const char *spec)
{
	struct birth *one;
	int length;

	for (; spec != NULL && birth_count < MOST; birth_count++, spec += length) {
		one = &births[birth_count];
		if (sscanf(spec, " %d:%d:%d:%d%n", &one->pid, &one->leader, &one->session, &one->group, &length) != 4)
			return;
	}
}

static pid_t make(struct clone_args *wanted)
{
	return (pid_t)syscall(SYS_clone3, wanted, sizeof(*wanted));
}

/* Ends here in all but the process that is wanted, which has a copy of this one's memory, as it would have. */
static pid_t begin_session(const struct birth *one, struct clone_args *wanted)
{
	pid_t leader = one->leader, helper, made;
	struct clone_args first = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&leader, .set_tid_size = 1};
	sigset_t all, before;
	int status = 0;

	/* CRIU takes a child that ends for a failure. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	helper = make(&first);
	if (helper == 0) {
		if (syscall(SYS_setsid) < 0)
			_exit(1);
		made = make(wanted);
		if (made != 0)
			_exit(made < 0 ? 1 : 0);
		within = one;
		sigprocmask(SIG_SETMASK, &before, NULL);
		return 0;
	}
	while (helper > 0 && waitpid(helper, &status, 0) < 0 && errno == EINTR)
		;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (helper > 0 && status == 0)
		return one->pid;
	dprintf(2, "guard: cannot begin session %d\n", one->leader);
	errno = ECHILD;
	return -1;
}

int makes_adopted(const void *arguments, size_t size, long *made)
{
	struct clone_args wanted = {0};
	int i;

	if (birth_count == 0 || size > sizeof(wanted))
		return 0;
	memcpy(&wanted, arguments, size);
	for (i = 0; wanted.set_tid_size == 1 && i < birth_count; i++) {
		if (births[i].pid != *(const pid_t *)(uintptr_t)wanted.set_tid || (wanted.flags & CLONE_PARENT))
			continue;
		wanted.flags |= CLONE_PARENT;
		wanted.exit_signal = 0; /* that of the one that forks it */
		*made = births[i].leader != 0 ? begin_session(&births[i], &wanted) : make(&wanted);
		return 1;
	}
	return 0;
}

pid_t getsid(pid_t pid)
{
	pid_t found = (pid_t)syscall(SYS_getsid, pid);

	return within != NULL && pid == 0 && found == within->leader ? within->session : found;
}

pid_t getpgid(pid_t pid)
{
	pid_t found = (pid_t)syscall(SYS_getpgid, pid);

	return within != NULL && pid == 0 && found == within->leader ? within->group : found;
}

pid_t getpgrp(void)
{
	return getpgid(0);
}
